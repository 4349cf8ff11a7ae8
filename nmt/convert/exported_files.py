"""Files of exported folders: written, read again, and compared with the bundle."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.config.documents import parse_json
from nmt.convert.certificate.record import Check, exact_check
from nmt.errors import CheckpointError
from nmt.io.writing import write_file

EXPORT_AGAIN = "Export the model again."


def write_json(path: Path, values: object) -> None:
    """Write a JSON file into a new folder.

    Raises:
        WriteError: the file could not be written.
    """
    write_file(path, (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode())


def read_bytes(path: Path, advice: str = EXPORT_AGAIN) -> bytes:
    """The bytes of a file.

    Args:
        advice: what to do about a damaged file, as a sentence.

    Raises:
        CheckpointError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}). {advice}") from None


def read_json(path: Path, advice: str = EXPORT_AGAIN) -> Any:
    """The values of a JSON file.

    Args:
        advice: what to do about a damaged file, as a sentence.

    Raises:
        CheckpointError: it cannot be read.
    """
    try:
        return parse_json(read_bytes(path, advice))
    except ValueError as error:
        raise CheckpointError(f"{path}: is damaged: {error} {advice}") from None


def settings_check(path: Path, wanted: Mapping[str, Any]) -> Check:
    """Compare a JSON file of settings with those of the bundle; further settings of the file do not count.

    Raises:
        CheckpointError: the file cannot be read.
    """
    found = read_json(path)
    values: dict[str, Any] = found if isinstance(found, dict) else {}
    differing = [f"{name}: {values.get(name)}" for name in wanted if values.get(name) != wanted[name]]
    return file_check("settings", differing, f"{len(wanted)} settings of {path.name} are the bundle's")


def file_check(name: str, differing: Sequence[str], detail: str) -> Check:
    """A check of what files hold.

    Args:
        differing: what differs from the bundle.
        detail: the result if nothing differs.
    """
    return exact_check(name, differing, detail, "the bundle's files")
