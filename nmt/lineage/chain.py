"""The chain behind anything that nmt wrote: found by what lies at a path."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from nmt.checkpoint.bundle_files import is_bundle
from nmt.checkpoint.kinds import read_json
from nmt.checkpoint.run_folder import is_run
from nmt.data.data_folder import DataFolder
from nmt.errors import DataError
from nmt.lineage.conversions import exported_link, imported_link, is_exported, is_exported_file
from nmt.lineage.link import Link
from nmt.lineage.models import data_folder_link, run_link
from nmt.lineage.outputs import is_score, score_link, translation_link
from nmt.translation.resuming import OutputFile


def chain(path: Path) -> Link:
    """What lies at a path, and all that it was made from.

    Args:
        path: the JSON of a score, a translation, a run, a bundle, an exported model, a file of these two, a data set
            or its vocabulary.

    Raises:
        DataError: there is nothing, or nothing that nmt wrote; or a record is damaged.
    """
    try:
        return _chain(path)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError, ValidationError) as error:
        raise DataError(f"{path}: its lineage is damaged ({type(error).__name__}: {error}).") from None


def _chain(path: Path) -> Link:
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder.")
    if path.is_dir():
        if _has_manifest(path):
            return data_folder_link(path)
        if is_exported(path):  # before bundles: both may hold model.safetensors
            return exported_link(path)
        if is_bundle(path):
            return imported_link(path)
        if is_run(path):
            return run_link(path)
    elif OutputFile(path).record.is_file():
        return translation_link(path)
    elif path in (DataFolder(path.parent).vocab, DataFolder(path.parent).manifest) and _has_manifest(path.parent):
        return data_folder_link(path.parent)
    elif is_exported_file(path):
        return exported_link(path.parent)
    elif is_bundle(path.parent):
        return imported_link(path.parent)
    elif is_score(record := read_json(path)):
        return score_link(path, record)
    raise DataError(
        f"{path}: has no lineage. Name the JSON of a score, an output file of nmt translate with its record "
        "(.NAME.nmt.json) beside it, a run, a bundle, an exported model, or a data set."
    )


def _has_manifest(folder: Path) -> bool:
    return DataFolder(folder).manifest.is_file()
