"""Bounded windows of lines: what is read before it is translated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

_MOST_CHARACTERS = 1_000_000

L = TypeVar("L", bound=Sequence[str])
"""A line, or a tuple of parallel ones."""


def windows(lines: Iterable[L], size: int, *, most_characters: int = _MOST_CHARACTERS) -> Iterator[list[L]]:
    """Serve lines in windows of ``size``, or fewer where they are very long, each as soon as it is full.

    The lines that came before an error in reading are served before the error is raised.
    """
    window: list[L] = []
    characters = 0
    try:
        for line in lines:
            window.append(line)
            characters += sum(map(len, line))
            if len(window) == size or characters >= most_characters:
                yield window
                window, characters = [], 0
    except Exception:  # whatever reading may raise
        if window:
            yield window
        raise
    if window:
        yield window


def whole_windows(lines: Iterable[L], size: int, done: int) -> int:
    """How many lines are in the windows that ``done`` lines fill.

    Whoever goes on from there makes the same windows as one who was never interrupted, hence the same batches.
    """
    filled = 0
    for window in windows(lines, size):
        if filled + len(window) > done:
            break
        filled += len(window)
    return filled
