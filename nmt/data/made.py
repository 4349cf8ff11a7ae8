"""What was made from what: the inputs of a data set, a vocabulary or shards, and the sha256 of every file written.

``manifest.json``, ``vocab.json`` and ``shards/index.json`` record it. It answers three questions: is the result
current, did this program write a file, and was a file edited since?
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from nmt.config import first_mistake
from nmt.errors import DataError
from nmt.io.hashing import digest_of
from nmt.io.regular import read_regular

Record = TypeVar("Record")


@dataclass(frozen=True)
class Made:
    """The inputs and outputs of something that was made."""

    inputs: Mapping[str, Any]
    """As JSON. Equal inputs give the same outputs."""
    outputs: Mapping[str, str]
    """The sha256 of each file by its name."""

    def is_current(self, folder: Path, inputs: Mapping[str, Any]) -> bool:
        """Whether it was made from these inputs, and every file is as written. Reads every file."""
        return self.inputs == inputs and all(
            digest_of(folder / name) == sha256 for name, sha256 in self.outputs.items()
        )

    def edited(self, folder: Path) -> list[str]:
        """Names of the files whose content is not as written. Missing files are left out."""
        return [name for name, sha256 in self.outputs.items() if digest_of(folder / name) not in (None, sha256)]


def read_record(path: Path, content: TypeAdapter[Record], version: int, remedy: str) -> Record:
    """Read a record in JSON.

    Args:
        content: its type, which has a field ``version``.
        version: the version that this program writes.
        remedy: how to make the file again, for errors.

    Raises:
        FileNotFoundError: there is no such file.
        DataError: the file is damaged, or of another version.
    """
    try:
        text = read_regular(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}). {remedy}") from None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    found = values.get("version") if isinstance(values, dict) else None
    if isinstance(found, int) and found != version:
        raise DataError(f"{path}: is of version {found}, not {version}. {remedy}")
    try:
        return content.validate_json(text, strict=True)
    except ValidationError as error:
        raise DataError(f"{path}: is damaged: {first_mistake(error)}. {remedy}") from None
