"""N-grams of the references that one system gets right more often than the other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nmt.evaluation.differences.parallel_texts import ParallelTexts, Text, Tokens

MAX_ORDER = 4
TOP = 10
"""The maximum number of n-grams per system."""


@dataclass(frozen=True)
class RightNgram:
    """An n-gram, and how often it is right: as often as hypothesis and reference of a line both have it."""

    tokens: Tokens
    right: tuple[int, int]
    """For systems A and B."""
    in_references: int


@dataclass(frozen=True)
class NgramGains:
    """The n-grams that one of the systems gets right more often, the clearest first."""

    a: tuple[RightNgram, ...]
    b: tuple[RightNgram, ...]


def ngram_gains(texts: ParallelTexts, top: int = TOP) -> NgramGains:
    """The n-grams of 1 to 4 tokens whose counts differ most.

    They are ordered by the difference over its standard deviation if both systems were equally good:
    ``(a - b) / sqrt(a + b)``. An n-gram is left out if it is part of a longer one with the same counts.
    """
    a, b = (_right(system, texts.reference) for system in texts.systems)
    totals = _occurrences(texts.reference, a.keys() | b.keys())
    found = {
        tokens: RightNgram(tokens, (a[tokens], b[tokens]), total)
        for tokens, total in totals.items()
        if a[tokens] != b[tokens]
    }
    rest = _without_parts(found)
    return NgramGains(_best(rest, 0, top), _best(rest, 1, top))


def ngrams(tokens: Sequence[str]) -> Iterator[Tokens]:
    """The n-grams of a line, of all orders."""
    for order in range(1, MAX_ORDER + 1):
        for begin in range(len(tokens) - order + 1):
            yield tuple(tokens[begin : begin + order])


def _right(system: Text, reference: Text) -> Counter[Tokens]:
    counts: Counter[Tokens] = Counter()
    for hypothesis, expected in zip(system.tokens, reference.tokens, strict=True):
        counts.update(Counter(ngrams(hypothesis)) & Counter(ngrams(expected)))
    return counts


def _occurrences(reference: Text, wanted: set[Tokens]) -> Counter[Tokens]:
    return Counter(gram for tokens in reference.tokens for gram in ngrams(tokens) if gram in wanted)


def _without_parts(found: Mapping[Tokens, RightNgram]) -> list[RightNgram]:
    """The n-grams without those that always occur as a part of a longer one."""
    parts = {
        part
        for tokens, gram in found.items()
        for part in (tokens[:-1], tokens[1:])
        if part in found and (found[part].right, found[part].in_references) == (gram.right, gram.in_references)
    }
    return [gram for tokens, gram in found.items() if tokens not in parts]


def _best(found: Sequence[RightNgram], system: int, top: int) -> tuple[RightNgram, ...]:
    def order(gram: RightNgram) -> tuple[float, int, Tokens]:
        own, other = gram.right[system], gram.right[1 - system]
        return -(own - other) / math.sqrt(own + other), -len(gram.tokens), gram.tokens

    return tuple(sorted((gram for gram in found if gram.right[system] > gram.right[1 - system]), key=order)[:top])
