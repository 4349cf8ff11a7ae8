"""The files of a bundle and their checksums. This module works without torch: importing torch takes longer than
reading a bundle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from nmt.config.documents import parse_json
from nmt.data.data_folder import vocabulary_files
from nmt.errors import CheckpointError
from nmt.io.hashing import sha256_of
from nmt.io.inside import Inside
from nmt.io.regular import read_regular

PARITY_NAME = "parity.json"
"""The certificate of a converted model, in a bundle or beside an exported model."""
ORIGIN_NAME = "lineage.json"
"""The origin of an exported model, beside it."""
_MAX_NAME_BYTES = 255
"""The longest name that file systems accept."""


@dataclass(frozen=True)
class BundleFolder:
    """The paths of a bundle's files. Optional files may not exist."""

    path: Path

    weights = Inside("model.safetensors")
    """The model's weights."""
    config = Inside("config.yaml")
    """The settings, every default resolved."""
    vocab = Inside("vocab.model")
    """The vocabulary, a SentencePiece model; other files of it may lie beside it, as in a data set."""
    checksums = Inside("checksums.json")
    """The sha256 of every other file."""
    notes = Inside("notes.json")
    """The bundle's origin; not in every bundle."""
    certificate = Inside(PARITY_NAME)
    """What an imported model was compared with; only in an imported bundle."""
    training_tensors = Inside("training.safetensors")
    """The optimiser's moments; only in a checkpoint."""
    training_state = Inside("training.json")
    """The position in training; only in a checkpoint."""

    @property
    def required(self) -> tuple[Path, Path, Path]:
        """The files without which the model cannot be loaded."""
        return self.weights, self.config, self.vocab

    @property
    def pipeline(self) -> tuple[Path, ...]:
        """The settings and the files of the vocabulary: all that our pipeline needs besides the weights."""
        first, *others = vocabulary_files(self.vocab)
        return self.config, first, *(file for file in others if file.is_file())

    @property
    def model(self) -> tuple[Path, ...]:
        """The files that translations depend on."""
        return self.weights, *self.pipeline


def is_bundle(folder: Path) -> bool:
    """Whether the folder looks like a bundle."""
    return BundleFolder(folder).weights.is_file()


def verify(folder: Path) -> None:
    """Check that a bundle's files exist and match its checksums, if it has any.

    Raises:
        CheckpointError: names the file that is missing or damaged.
    """
    _refuse(damage(folder))


def check_files(folder: Path) -> None:
    """Check in milliseconds that a bundle's files exist, and that its weights have their length.

    Raises:
        CheckpointError: names the file that is missing or damaged.
    """
    problem = missing_file(folder)
    if problem is None:
        weights = BundleFolder(folder).weights
        try:
            with safe_open(weights, "numpy"):
                pass
        except (OSError, SafetensorError) as error:
            problem = f"{weights} is damaged: {error}."
    _refuse(problem)


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
    record = BundleFolder(folder).checksums.name
    return missing_file(folder) or damaged_file(folder, recorded_checksums(folder), record)


def missing_file(folder: Path) -> str | None:
    """A message that names the first missing file of a bundle, or its damaged record; None if there is neither."""
    files = BundleFolder(folder)
    try:
        checksums = recorded_checksums(folder)
    except ValueError as error:
        return f"{files.checksums} is damaged: {error}"
    for name in dict.fromkeys([*(path.name for path in files.required), *checksums]):
        if not (folder / name).is_file():
            return f"{folder} is not a complete bundle: {name} is missing."
    return None


def damaged_file(folder: Path, checksums: Mapping[str, str], record: str) -> str | None:
    """A message that names the first file that is missing or differs from its sha256; None if there is none.

    Args:
        record: the name of the file that holds the checksums.
    """
    for name, expected in checksums.items():
        if not (folder / name).is_file():
            return f"{folder}: {name} is missing."
        if sha256_of(folder / name) != expected:
            return f"{folder / name} is damaged: its sha256 differs from the one in {record}."
    return None


def recorded_checksums(folder: Path) -> dict[str, str]:
    """File name -> sha256, as recorded in the folder; empty if the folder has no checksums.

    Raises:
        ValueError: the record is not a mapping from files in the folder to checksums.
    """
    path = BundleFolder(folder).checksums
    if not path.is_file():
        return {}
    checksums = parse_json(read_regular(path))
    if not isinstance(checksums, dict) or not all(
        _is_file_name(name) and isinstance(checksum, str) for name, checksum in checksums.items()
    ):
        raise ValueError("expected a mapping from file names to sha256.")
    return checksums


def model_checksums(folder: Path) -> dict[str, str]:
    """The sha256 of each file that translations depend on: as recorded in an intact folder, else computed.

    Args:
        folder: a bundle, or a folder that was exported for another toolkit.

    Raises:
        OSError: a file cannot be read.
        ValueError: the record is damaged.
    """
    files = BundleFolder(folder)
    if not is_bundle(folder) and files.certificate.is_file():
        return dict(parse_json(read_regular(files.certificate))["parity"]["files"])
    recorded = recorded_checksums(folder)
    return {path.name: recorded.get(path.name) or sha256_of(path) for path in files.model}


def _is_file_name(name: str) -> bool:
    is_plain = name not in ("", ".", "..") and not {"/", "\\", "\0"} & set(name) and name.isprintable()
    return is_plain and len(name.encode()) <= _MAX_NAME_BYTES


def _refuse(problem: str | None) -> None:
    if problem is not None:
        raise CheckpointError(f"{problem} Use another checkpoint, or copy this one again.")
