"""The files of a bundle, and whether they are as they were written: all that can be told without torch, whose import
takes longer than to read a bundle.
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
    """Check that a bundle's files are there and, where it has checksums, that they are as they were written.

    Raises:
        CheckpointError: names the file that is missing or damaged.
    """
    _refuse(damage(folder))


class Verification:
    """Does what :func:`verify` does, for several bundles, in a thread that needs the interpreter only now and then."""

    def __init__(self, folders: Iterable[Path]) -> None:
        """Begin."""
        executor = ThreadPoolExecutor(1, "verification")
        self._damages = {folder: executor.submit(damage, folder) for folder in folders}
        executor.shutdown(wait=False)

    def finish(self, folder: Path) -> None:
        """Wait until a bundle is verified.

        Raises:
            CheckpointError: as :func:`verify`.
        """
        _refuse(self._damages[folder].result())


def damage(folder: Path) -> str | None:
    """What is wrong with the files of a bundle, naming the first that is missing or damaged; None if nothing is."""
    if not folder.is_dir():
        return f"{folder}: there is no such folder."
    try:
        checksums = recorded_checksums(folder)
    except ValueError as error:
        return f"{folder / CHECKSUMS_FILE} is damaged: {error}"
    for name in {MODEL_FILE, CONFIG_FILE, VOCAB_FILE, *checksums}:
        if not (folder / name).is_file():
            return f"{folder} is not a whole bundle: {name} is missing."
    for name, expected in checksums.items():
        if sha256_of(folder / name) != expected:
            return f"{folder / name} is damaged: its sha256 differs from the one in {CHECKSUMS_FILE}."
    return None


def recorded_checksums(folder: Path) -> dict[str, str]:
    """The sha256 of every file, as written beside them; nothing where nothing was written.

    Raises:
        ValueError: they are not checksums of files in the folder; says why.
    """
    if not (folder / CHECKSUMS_FILE).is_file():
        return {}
    checksums = parse_json((folder / CHECKSUMS_FILE).read_bytes())
    if not isinstance(checksums, dict) or not all(
        _is_file_name(name) and isinstance(checksum, str) for name, checksum in checksums.items()
    ):
        raise ValueError("it is not a mapping from names of files in the folder to sha256.")
    return checksums


def _is_file_name(name: str) -> bool:
    return name not in ("", ".", "..") and not {"/", "\\", "\0"} & set(name) and name.isprintable()


def _refuse(problem: str | None) -> None:
    if problem is not None:
        raise CheckpointError(f"{problem} Use another checkpoint, or copy this one again.")
