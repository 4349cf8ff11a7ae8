"""How to recognise the folders that this program wrote: bundles, averages and checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nmt.checkpoint.bundle_files import (
    CHECKSUMS_FILE,
    CONFIG_FILE,
    MODEL_FILE,
    NOTES_FILE,
    TRAINING_STATE_FILE,
    TRAINING_TENSORS_FILE,
    VOCAB_FILE,
)
from nmt.config.documents import parse_json
from nmt.ownership import Kind

_BUNDLE_FILES = (MODEL_FILE, CONFIG_FILE, VOCAB_FILE, CHECKSUMS_FILE, NOTES_FILE)


def _is_whole(folder: Path) -> bool:
    return all((folder / name).is_file() for name in (MODEL_FILE, CONFIG_FILE, VOCAB_FILE))


def _is_checkpoint(folder: Path) -> bool:
    return _is_whole(folder) and (folder / TRAINING_STATE_FILE).is_file()


def _is_average(folder: Path) -> bool:
    notes = read_json(folder / NOTES_FILE)
    return _is_whole(folder) and isinstance(notes, dict) and "averaged" in notes


def _is_plain_bundle(folder: Path) -> bool:
    return _is_whole(folder) and not _is_checkpoint(folder) and not _is_average(folder)


def read_json(path: Path, *, first_line: bool = False) -> Any:
    """A file, or its first line, parsed as JSON; None if it is missing or not JSON."""
    try:
        with path.open("rb") as stream:
            return parse_json(stream.readline() if first_line else stream.read())
    except (OSError, ValueError):
        return None


BUNDLE = Kind("a bundle", _is_plain_bundle, is_folder=True, holds=_BUNDLE_FILES)
AVERAGE = Kind("an average of checkpoints", _is_average, is_folder=True, holds=_BUNDLE_FILES)
CHECKPOINT = Kind(
    "a checkpoint", _is_checkpoint, is_folder=True, holds=(*_BUNDLE_FILES, TRAINING_STATE_FILE, TRAINING_TENSORS_FILE)
)
