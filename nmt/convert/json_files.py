"""JSON files of other toolkits' models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nmt.convert import exported_files
from nmt.errors import CheckpointError

_COPY_AGAIN = "Copy the model again."


def read_json(path: Path) -> dict[str, Any]:
    """The mapping of a JSON file.

    Raises:
        CheckpointError: the file cannot be read, or is something else.
    """
    values = exported_files.read_json(path, _COPY_AGAIN)
    if not isinstance(values, dict):
        raise CheckpointError(f"{path}: expected a mapping, got {type(values).__name__}. {_COPY_AGAIN}")
    return values
