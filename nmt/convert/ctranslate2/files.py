"""What the files of an exported folder say, compared with the bundle."""

from __future__ import annotations

from pathlib import Path

from nmt.checkpoint.bundle import Bundle
from nmt.checkpoint.bundle_files import BundleFolder
from nmt.convert.certificate.record import Check
from nmt.convert.ctranslate2.writing import model_settings
from nmt.convert.exported_files import file_check, read_bytes, settings_check
from nmt.convert.exported_segmenters import check_segmenters, check_vocabulary, read_pieces_list
from nmt.data.data_folder import vocabulary_files

_FILES = BundleFolder(Path())  # only the names are used
_PIPELINE = tuple(path.name for path in (_FILES.config, *vocabulary_files(_FILES.vocab)))
HOLDS = ("model.bin", "config.json", "*_vocabulary.json", "*.spm", *_PIPELINE)


def vocabularies(folder: Path) -> tuple[list[str], list[str]]:
    """The source and the target pieces of a model, by its ids.

    Raises:
        CheckpointError: a vocabulary is missing or damaged.
    """
    shared = folder / "shared_vocabulary.json"
    if shared.exists():
        pieces = read_pieces_list(shared)
        return pieces, pieces
    return read_pieces_list(folder / "source_vocabulary.json"), read_pieces_list(folder / "target_vocabulary.json")


def check_ctranslate2_files(folder: Path, bundle: Bundle, quantization: str) -> list[Check]:
    """Compare settings, vocabularies and SentencePiece models with those of the bundle."""
    return [
        settings_check(folder / "config.json", model_settings(bundle.config.model)),
        check_vocabulary(vocabularies(folder), bundle),
        check_segmenters(folder, bundle),
        _check_own_files(folder, bundle),
    ]


def _check_own_files(folder: Path, bundle: Bundle) -> Check:
    """Compare the settings and the vocabulary that our own pipeline reads with those of the bundle."""
    paths = BundleFolder(bundle.folder).pipeline
    differing = [path.name for path in paths if read_bytes(folder / path.name) != read_bytes(path)]
    return file_check("pipeline", differing, "the files of nmt's own pipeline are the bundle's")
