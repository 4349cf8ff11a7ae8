"""The files of a bundle and their checksums. This module works without torch: importing torch takes longer than
reading a bundle.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nmt.config.documents import parse_json
from nmt.errors import CheckpointError
from nmt.hashing import sha256_of

MODEL_FILE = "model.safetensors"
CONFIG_FILE = "config.yaml"
VOCAB_FILE = "vocab.model"
TRAINING_TENSORS_FILE = "training.safetensors"
TRAINING_STATE_FILE = "training.json"
CHECKSUMS_FILE = "checksums.json"
NOTES_FILE = "notes.json"


def is_bundle(folder: Path) -> bool:
    """Whether the folder looks like a bundle."""
    return (folder / MODEL_FILE).is_file()


def verify(folder: Path) -> None:
    """Check that a bundle's files exist and match its checksums, if it has any.

    Raises:
        CheckpointError: names the file that is missing or damaged.
    """
    _refuse(damage(folder))


class Verification:
    """:func:`verify` for several bundles, in a background thread that rarely holds the GIL."""

    def __init__(self, folders: Iterable[Path]) -> None:
        """Start to verify ``folders``."""
        executor = ThreadPoolExecutor(1, "verification")
        self._damages = {folder: executor.submit(damage, folder) for folder in folders}
        executor.shutdown(wait=False)

    def finish(self, folder: Path) -> None:
        """Wait until ``folder`` is verified.

        Raises:
            CheckpointError: as :func:`verify`.
        """
        _refuse(self._damages[folder].result())


def damage(folder: Path) -> str | None:
    """A message that names the first missing or damaged file of a bundle; None if the bundle is intact."""
    if not folder.is_dir():
        return f"{folder}: there is no such folder."
    try:
        checksums = recorded_checksums(folder)
    except ValueError as error:
        return f"{folder / CHECKSUMS_FILE} is damaged: {error}"
    for name in {MODEL_FILE, CONFIG_FILE, VOCAB_FILE, *checksums}:
        if not (folder / name).is_file():
            return f"{folder} is not a complete bundle: {name} is missing."
    for name, expected in checksums.items():
        if sha256_of(folder / name) != expected:
            return f"{folder / name} is damaged: its sha256 differs from the one in {CHECKSUMS_FILE}."
    return None


def recorded_checksums(folder: Path) -> dict[str, str]:
    """File name -> sha256, as recorded in the folder; empty if the folder has no checksums.

    Raises:
        ValueError: the record is not a mapping from files in the folder to checksums.
    """
    if not (folder / CHECKSUMS_FILE).is_file():
        return {}
    checksums = parse_json((folder / CHECKSUMS_FILE).read_bytes())
    if not isinstance(checksums, dict) or not all(
        _is_file_name(name) and isinstance(checksum, str) for name, checksum in checksums.items()
    ):
        raise ValueError("expected a mapping from file names to sha256.")
    return checksums


def _is_file_name(name: str) -> bool:
    return name not in ("", ".", "..") and not {"/", "\\", "\0"} & set(name) and name.isprintable()


def _refuse(problem: str | None) -> None:
    if problem is not None:
        raise CheckpointError(f"{problem} Use another checkpoint, or copy this one again.")
