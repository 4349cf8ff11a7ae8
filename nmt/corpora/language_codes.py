"""Which language code of a file means which language of the pair: ``en-GB`` stands for ``en``, and ``EN`` as well."""

from __future__ import annotations

import functools
from collections.abc import Iterable

# What is longer is no code, and is not remembered.
_LONGEST = 100


def fitting(codes: Iterable[str], wanted: str) -> list[str]:
    """The codes that mean a language: those that are equal to its own; without such a code, those that fit.

    Two codes fit if one is the other without region or script.
    """
    return list(_fitting(tuple(code for code in codes if len(code) <= _LONGEST), wanted))


@functools.lru_cache(maxsize=1_000)  # A translation memory asks at every segment.
def _fitting(codes: tuple[str, ...], wanted: str) -> tuple[str, ...]:
    ranks = [_rank(code, wanted) for code in codes]
    best = max(ranks, default=0)
    return tuple(code for rank, code in zip(ranks, codes, strict=True) if rank == best > 0)


def _rank(found: str, wanted: str) -> int:
    """2 for equal codes, 1 for codes that fit, 0 for others."""
    ours, theirs = _parts(wanted), _parts(found)
    shared = min(len(ours), len(theirs))
    return 0 if ours[:shared] != theirs[:shared] else 1 + (ours == theirs)


def _parts(code: str) -> list[str]:
    return code.strip().replace("_", "-").lower().split("-")
