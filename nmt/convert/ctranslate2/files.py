"""What the files of an exported folder say, compared with the bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nmt.checkpoint.bundle import Bundle
from nmt.convert.certificate.record import Check
from nmt.convert.ctranslate2.writing import model_settings
from nmt.convert.exported_files import file_check, read_json
from nmt.convert.exported_segmenters import check_segmenters, check_vocabulary, read_pieces_list

HOLDS = ("model.bin", "config.json", "*_vocabulary.json", "*.spm")


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
    return [_settings(folder, bundle), check_vocabulary(vocabularies(folder), bundle), check_segmenters(folder, bundle)]


def _settings(folder: Path, bundle: Bundle) -> Check:
    wanted, found = model_settings(bundle.config.model), read_json(folder / "config.json")
    values: dict[str, Any] = found if isinstance(found, dict) else {}
    differing = [f"{name}: {values.get(name)}" for name in wanted if values.get(name) != wanted[name]]
    return file_check("settings", differing, f"{len(wanted)} settings of config.json are the bundle's")
