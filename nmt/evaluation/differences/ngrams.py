"""N-grams of the references that one system gets right more often than the other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from nmt.evaluation.differences.parallel_texts import ParallelTexts, Text, Tokens
from nmt.evaluation.differences.tables import Comparison

MAX_ORDER = 4
TOP = 10
"""The maximum number of n-grams per system."""

Counts = tuple[int, int, int]
"""How often an n-gram is right in systems A and B (as often as hypothesis and reference of a line both have it), and
how often the references have it."""


def ngram_gains(texts: ParallelTexts) -> dict[str, Comparison]:
    """The n-grams of 1 to 4 tokens whose counts differ most: a table for ``a`` and one for ``b``.

    They are ordered by the difference over its standard deviation if both systems were equally good:
    ``(a - b) / sqrt(a + b)``. An n-gram is left out if it is part of a longer one with the same counts. Records:
    ``tokens``, ``right``, ``in_references``.
    """
    a, b = (_right(system, texts.reference) for system in texts.systems)
    totals = _occurrences(texts.reference, a.keys() | b.keys())
    found = {tokens: (a[tokens], b[tokens], total) for tokens, total in totals.items() if a[tokens] != b[tokens]}
    rest = _without_parts(found)
    tables = {}
    for system, name in enumerate("AB"):
        tables[name.lower()] = table = Comparison(
            f"N-grams that {name} gets right more often", ["n-gram", "A", "B", "in references"]
        )
        for tokens in _best(rest, system)[:TOP]:
            right_a, right_b, total = found[tokens]
            table.rows.append([" ".join(tokens), f"{right_a:,}", f"{right_b:,}", f"{total:,}"])
            table.records.append({"tokens": tokens, "right": (right_a, right_b), "in_references": total})
    return tables


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


def _without_parts(found: Mapping[Tokens, Counts]) -> dict[Tokens, Counts]:
    """The n-grams without those that always occur as a part of a longer one."""
    parts = {part for tokens in found for part in (tokens[:-1], tokens[1:]) if found.get(part) == found[tokens]}
    return {tokens: counts for tokens, counts in found.items() if tokens not in parts}


def _best(found: Mapping[Tokens, Counts], system: int) -> list[Tokens]:
    """The n-grams that a system gets right more often, the clearest first."""

    def order(tokens: Tokens) -> tuple[float, int, Tokens]:
        own, other = found[tokens][system], found[tokens][1 - system]
        return -(own - other) / math.sqrt(own + other), -len(tokens), tokens

    return sorted((tokens for tokens, counts in found.items() if counts[system] > counts[1 - system]), key=order)
