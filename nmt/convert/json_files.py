"""JSON files of other toolkits' models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nmt.config.documents import parse_json
from nmt.errors import CheckpointError


def read_json(path: Path) -> dict[str, Any]:
    """The mapping of a JSON file.

    Raises:
        CheckpointError: the file cannot be read, or is something else.
    """
    try:
        values = parse_json(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}). Copy the model again.") from None
    except ValueError as error:
        raise CheckpointError(f"{path}: {error} Copy the model again.") from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{path}: expected a mapping, got {type(values).__name__}. Copy the model again.")
    return values
