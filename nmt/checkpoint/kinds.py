"""How to recognise the folders that this program wrote: bundles, averages and checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nmt.checkpoint.bundle_files import BundleFolder
from nmt.config.documents import parse_json
from nmt.data.data_folder import vocabulary_files
from nmt.io.ownership import Kind
from nmt.io.regular import LARGEST, open_regular, read_regular


def _is_whole(folder: Path) -> bool:
    return all(path.is_file() for path in BundleFolder(folder).required)


def _is_checkpoint(folder: Path) -> bool:
    return _is_whole(folder) and BundleFolder(folder).training_state.is_file()


def _is_average(folder: Path) -> bool:
    return _is_whole(folder) and is_of_average(read_json(BundleFolder(folder).notes))


def _is_plain_bundle(folder: Path) -> bool:
    return _is_whole(folder) and not _is_checkpoint(folder) and not _is_average(folder)


def is_of_average(notes: object) -> bool:
    """Whether the notes of a bundle are those of an average."""
    match notes:
        case {"record": {"kind": "average"}}:
            return True
    return False


def averaged_checkpoints(bundle: Path) -> list[Path]:
    """The checkpoints that a bundle is the average of, by its notes; none if it is another bundle."""
    match read_json(BundleFolder(bundle).notes):
        case {"record": {"kind": "average", "made_from": [*parts]}}:
            paths = [part.get("path") for part in parts if isinstance(part, dict) and part.get("kind") == "checkpoint"]
            return [Path(path) for path in paths if isinstance(path, str)]
    return []


def read_json(path: Path, *, first_line: bool = False) -> Any:
    """A file, or its first line, parsed as JSON; None if it is missing or not JSON."""
    try:
        if not first_line:
            return parse_json(read_regular(path))
        with open_regular(path) as stream:
            return parse_json(stream.readline(LARGEST))
    except (OSError, ValueError):
        return None


_FILES = BundleFolder(Path())  # only the names are used
_OF_BUNDLE = tuple(
    path.name
    for path in (
        *_FILES.required, *vocabulary_files(_FILES.vocab), _FILES.checksums, _FILES.notes, _FILES.certificate,
    )
)  # fmt: skip
_OF_CHECKPOINT = (*_OF_BUNDLE, _FILES.training_state.name, _FILES.training_tensors.name)

BUNDLE = Kind("a bundle", _is_plain_bundle, is_folder=True, holds=_OF_BUNDLE)
AVERAGE = Kind("an average of checkpoints", _is_average, is_folder=True, holds=_OF_BUNDLE)
CHECKPOINT = Kind("a checkpoint", _is_checkpoint, is_folder=True, holds=_OF_CHECKPOINT)
