"""Functions of many items, called once for all of them: a search, or a call of SentencePiece, is as slow for one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def changed_where(
    items: Sequence[T], concerns: Callable[[T], bool], change: Callable[[list[T]], Iterable[T]]
) -> list[T]:
    """The items, where those concerned are changed."""
    indices = [index for index, item in enumerate(items) if concerns(item)]
    found = list(items)
    if indices:
        for index, item in zip(indices, change([items[index] for index in indices]), strict=True):
            found[index] = item
    return found


def in_groups(groups: Iterable[Sequence[T]], results_of: Callable[[list[T]], Iterable[R]]) -> list[list[R]]:
    """A result for each item, in the groups of the items."""
    groups = list(groups)
    results = iter(results_of(list(chain.from_iterable(groups))))
    return [list(islice(results, len(group))) for group in groups]
