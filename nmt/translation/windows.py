"""Windows: bounded groups of lines that are read, then translated together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

_MAX_CHARACTERS = 1_000_000

L = TypeVar("L", bound=Sequence[str])
"""A line, or a tuple of parallel lines."""


def windows(lines: Iterable[L], size: int, *, max_characters: int = _MAX_CHARACTERS) -> Iterator[list[L]]:
    """Yield lines in windows of ``size`` (fewer if lines are very long), each as soon as it is full.

    If reading fails, the lines read before the error are yielded before it is raised.
    """
    window: list[L] = []
    characters = 0
    try:
        for line in lines:
            window.append(line)
            characters += sum(map(len, line))
            if len(window) == size or characters >= max_characters:
                yield window
                window, characters = [], 0
    except Exception:  # any error in reading
        if window:
            yield window
        raise
    if window:
        yield window
