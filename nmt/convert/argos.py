"""Our models as packages of Argos Translate: a zip archive with a model of CTranslate2 and its SentencePiece model.

Argos Translate and LibreTranslate install the file. They split text into sentences by MiniSBD, which downloads a small
model for the source language when it is first used.
"""

from __future__ import annotations

import os
import re
import shlex
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import nmt
from nmt.checkpoint.bundle import Bundle
from nmt.convert.archives import unpacked
from nmt.convert.certificate.record import Check
from nmt.convert.certificate.side import Side
from nmt.convert.ctranslate2.software import CTranslate2Side
from nmt.convert.ctranslate2.writing import check_ctranslate2_files, write_model
from nmt.convert.exported_files import filled, write_json
from nmt.data.imported_vocab import ImportedVocabulary
from nmt.errors import NmtError
from nmt.io.writing import open_to_write, scratch_folder, write_file
from nmt.text.languages import name_of, primary_language

_VERSION = "1.0"
_ARGOS_VERSION = "1.10"
"""The first version that splits text by MiniSBD, which a package need not hold."""
# Argos Translate passes no limits, so those of CTranslate2 apply.
_LONGEST_SOURCE = 1_024
_MODEL, _SEGMENTER, _METADATA = "model", "sentencepiece.model", "metadata.json"
_CODE = re.compile("[a-z]{2,8}")
"""A language, as names of files have it."""
_USAGE = """\
python -c 'import argostranslate.package, sys; argostranslate.package.install_from_path(sys.argv[1])' ./$file
argos-translate --from $source --to $target < input.txt
"""


def package_name(bundle: Bundle) -> str:
    """The name of a bundle's package, and of the folder in it."""
    source, target = _languages(bundle)
    return f"translate-{source}_{target}-{_VERSION}".replace(".", "_")


def write_argos(bundle: Bundle, folder: Path, quantization: str = "float32") -> None:
    """Write a bundle's model into an empty folder, as one file ``translate-SOURCE_TARGET-1_0.argosmodel``.

    Args:
        quantization: the data type of the stored weights, as for CTranslate2.

    Raises:
        NmtError: CTranslate2 is not installed, or Argos Translate cannot express the model.
        WriteError: a file could not be written.
    """
    _check(bundle)
    with scratch_folder() as scratch:
        (scratch / _MODEL).mkdir()
        write_model(bundle, scratch / _MODEL, quantization)
        write_file(scratch / _SEGMENTER, bundle.vocab.source.model_bytes)
        write_json(scratch / _METADATA, _metadata(bundle))
        _archive(scratch, folder / f"{package_name(bundle)}.argosmodel")


def _archive(files: Path, path: Path) -> None:
    """Write files into a zip archive, below a folder of the archive's name; the same files make the same archive."""
    with (
        open_to_write(path, "xb") as stream,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive,
    ):
        for file in sorted(file for file in files.rglob("*") if file.is_file()):
            os.utime(file, (0, 0))
            file.chmod(0o644)
            archive.write(file, f"{path.stem}/{file.relative_to(files).as_posix()}")


def _check(bundle: Bundle) -> None:
    """Refuse what Argos Translate cannot express."""
    vocab = bundle.vocab
    if not all(map(_CODE.fullmatch, _languages(bundle))):
        raise NmtError(
            f"{bundle.folder}: does not say its languages by codes such as en and pt-BR, which a package of Argos "
            "Translate must name."
        )
    if vocab.source.model_bytes != vocab.target.model_bytes:
        raise NmtError(
            f"{bundle.folder}: has a vocabulary for each language, and a package of Argos Translate has one for both. "
            "Export it to ctranslate2."
        )
    if isinstance(vocab.source, ImportedVocabulary) and (vocab.source.is_segmented or vocab.source.language_tags):
        raise NmtError(
            f"{bundle.folder}: its source needs language tags, or is already segmented, which Argos Translate cannot "
            "do. Export it to ctranslate2."
        )


def _languages(bundle: Bundle) -> tuple[str, str]:
    data = bundle.config.data
    return primary_language(data.source_lang), primary_language(data.target_lang)


def _metadata(bundle: Bundle) -> Mapping[str, object]:
    source, target = _languages(bundle)
    return {
        "package_version": _VERSION,
        "argos_version": _ARGOS_VERSION,
        "from_code": source,
        "from_name": name_of(source),
        "to_code": target,
        "to_name": name_of(target),
        "made_by": f"nmt {nmt.__version__}",
    }


def _package(folder: Path, bundle: Bundle) -> AbstractContextManager[Path]:
    """The files of the package in an exported folder."""
    return unpacked(folder / f"{package_name(bundle)}.argosmodel")


def argos_sides(folder: Path, bundle: Bundle) -> Iterator[Side]:
    """As :attr:`Format.sides`: CTranslate2 with the model and the vocabulary of the package."""
    with _package(folder, bundle) as package:
        segmenter = package / _SEGMENTER
        yield CTranslate2Side(package / _MODEL, (segmenter, segmenter), bundle.config.model.max_positions)


def check_argos_files(folder: Path, bundle: Bundle, quantization: str) -> list[Check]:
    """As :attr:`Format.check_files`: of the model in the package."""
    with _package(folder, bundle) as package:
        return check_ctranslate2_files(package / _MODEL, bundle, quantization)


def argos_usage(bundle: Bundle, name: str) -> str:
    """As :attr:`Format.usage`: install the package, and translate standard input."""
    source, target = _languages(bundle)
    file = f"{name}/{package_name(bundle)}.argosmodel"
    return filled(_USAGE, shlex.quote, file=file, source=source, target=target)


def argos_remarks(bundle: Bundle) -> Mapping[str, str]:
    """As :attr:`Format.remarks`."""
    found = {
        "search": "Argos Translate searches with a beam of 4 and length^0.2, whatever the bundle's settings are. It "
        "does not forbid pieces: pad, bos and unk could be emitted.",
        "text": "Argos Translate splits text into sentences by MiniSBD, which downloads a model for the source "
        "language when it is first used. It replaces every underscore of an output by a space.",
    }
    if bundle.config.data.source_text:
        found["source_normalization"] = (
            "Argos Translate does not normalise source text as nmt does: where that changes a line, it reads another."
        )
    if bundle.config.model.max_positions < _LONGEST_SOURCE:
        found["max_positions"] = (
            f"Argos Translate fails at sentences of more than {bundle.config.model.max_positions - 1} pieces."
        )
    return found
