"""Files of models that others wrote and of folders that we exported, read with errors that say what to do.

Also their text within messages.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nmt.config.documents import parse_json
from nmt.errors import CheckpointError
from nmt.io.regular import LARGEST, read_regular
from nmt.text import printable

COPY_AGAIN, EXPORT_AGAIN = "Copy the model again.", "Export the model again."
_LONGEST_SHOWN = 100


def shown(text: object) -> str:
    """Text of a file within a message: short, and without characters that cannot be printed."""
    # Lists that hold the same list many times may be of any size as text.
    return repr((text if isinstance(text, str) else reprlib.repr(text))[:_LONGEST_SHOWN])[1:-1]


def listed(names: Sequence[str], most: int = 3) -> str:
    """The first of some names of a file within a message, and how many more there are."""
    return printable.listed([*map(shown, names)], most)


def has_files(path: Path, weights: str, *others: str) -> bool:
    """Whether a path is a folder with a file of weights and others beside it, or that file; each by its pattern."""
    folder = path if path.is_dir() else path.parent
    return (folder == path or path.match(weights)) and all(
        any(map(Path.is_file, folder.glob(pattern))) for pattern in (weights, *others)
    )


def named_in(folder: Path, name: object) -> Path | None:
    """The file of a folder that settings name; None without. They hold the path of another machine.

    The name may be longer than the system allows.
    """
    wanted = Path(name).name if isinstance(name, str) else ""
    return next((entry for entry in folder.iterdir() if entry.name == wanted and entry.is_file()), None)


def read_bytes(path: Path, advice: str = COPY_AGAIN, most: int = LARGEST) -> bytes:
    """The bytes of a file.

    Args:
        advice: what to do about a damaged file, as a sentence.
        most: the maximum size of the file, in bytes.

    Raises:
        CheckpointError: it cannot be read.
    """
    try:
        return read_regular(path, most)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}). {advice}") from None


def read_text(path: Path, *, keep_returns: bool = False) -> str:
    """The text of a file of another toolkit's model. Every line ends with a line feed.

    Args:
        keep_returns: whether carriage returns are characters of the text, and no ends of lines.

    Raises:
        CheckpointError: it cannot be read, or is not UTF-8.
    """
    try:
        text = read_bytes(path).decode()
        return text if keep_returns else text.replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise CheckpointError(f"{path}: is not UTF-8 text. {COPY_AGAIN}") from None


def read_json(path: Path, advice: str = COPY_AGAIN) -> Any:
    """The value of a JSON file; ``advice`` as for :func:`read_bytes`.

    Raises:
        CheckpointError: it cannot be read.
    """
    try:
        return parse_json(read_bytes(path, advice))
    except ValueError as error:
        raise CheckpointError(f"{path}: is damaged: {error} {advice}") from None


def read_mapping(path: Path) -> dict[str, Any]:
    """The mapping of a JSON file of another toolkit's model.

    Raises:
        CheckpointError: the file cannot be read, or is something else.
    """
    values = read_json(path)
    if not isinstance(values, dict):
        raise CheckpointError(f"{path}: expected a mapping, got {type(values).__name__}. {COPY_AGAIN}")
    return values


def read_pieces(path: Path, advice: str = COPY_AGAIN) -> list[str]:
    """The pieces of a JSON file, by id; ``advice`` as for :func:`read_bytes`.

    Raises:
        CheckpointError: the file is missing or damaged.
    """
    pieces = read_json(path, advice)
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise CheckpointError(f"{path}: is not a list of pieces. {advice}")
    return pieces


def optional_mapping(path: Path) -> dict[str, Any]:
    """As :func:`read_mapping`; empty if there is no such file."""
    return read_mapping(path) if path.exists() else {}
