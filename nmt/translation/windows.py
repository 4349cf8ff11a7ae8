"""Windows: bounded groups of lines that are read, then translated together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_MAX_CHARACTERS = 1_000_000

T = TypeVar("T")


def windows(
    lines: Iterable[T], size: int, length_of: Callable[[T], int], *, max_characters: int = _MAX_CHARACTERS
) -> Iterator[list[T]]:
    """Yield lines in windows of ``size`` (fewer if lines are very long), each as soon as it is full.

    If reading fails, the lines read before the error are yielded before it is raised.

    Args:
        length_of: the number of characters of a line.
    """
    window: list[T] = []
    characters = 0
    try:
        for line in lines:
            window.append(line)
            characters += length_of(line)
            if len(window) == size or characters >= max_characters:
                yield window
                window, characters = [], 0
    except Exception:  # any error in reading
        if window:
            yield window
        raise
    if window:
        yield window


def taken_ahead(items: Iterable[T], count: int) -> Iterator[T]:
    """Yield items, each only after ``count`` more were taken, or there are no more; also before an error is raised."""
    taken: deque[T] = deque()
    try:
        for item in items:
            taken.append(item)
            if len(taken) > count:
                yield taken.popleft()
    except Exception:  # any error in taking
        yield from taken
        raise
    yield from taken
