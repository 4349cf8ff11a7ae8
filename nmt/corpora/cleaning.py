"""Cleaning of training text: filters, each with its count. Valid and test are never cleaned.

Pairs are filtered in chunks, by several processes if asked. To find repetitions, the pairs seen so far are kept as
hashes on disk, so memory does not grow with the corpus.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nmt.corpora.hashes import Hashes, SeenHashes, contains, hash_lines, hash_set, no_hashes
from nmt.corpora.parallel import map_in_order
from nmt.corpora.schema import Filters, Normalisation
from nmt.text import comparison_key, normalizer, primary_language, sentence_length

Pair = tuple[str, str]
Mask = NDArray[np.bool_]

REPLACEMENT_CHARACTER = "\ufffd"
KEPT = "_kept"
"""Ending of the name of a count of pairs that a filter counts but does not drop."""

# NUL and zero-width characters without a use in text: word joiner, invisible operators, byte order mark. U+200C and
# U+200D (non-joiner and joiner) are excluded: Persian, Indic scripts and emoji need both.
_INVISIBLE = re.compile("[\0\u2060-\u2064\ufeff]")
_INVISIBLE_OR_ZERO_WIDTH_SPACE = re.compile("[\0\u200b\u2060-\u2064\ufeff]")
# Languages that may put U+200B between words.
_ZERO_WIDTH_SPACED = frozenset({"km", "lo", "my", "th"})

# Pairs per chunk. Filtering a chunk must take far longer than sending it to a process.
_CHUNK = 20_000


@dataclass(frozen=True)
class Rules:
    """The filters and the normalisation of a language pair."""

    source_lang: str
    target_lang: str
    filters: Filters
    normalisation: Normalisation


@dataclass(frozen=True)
class EvaluationSentences:
    """The sentences of valid and test, as sorted hashes of their comparison keys."""

    sources: Hashes = field(default_factory=no_hashes)
    targets: Hashes = field(default_factory=no_hashes)
    held_out: Hashes = field(default_factory=no_hashes)
    """Hashes of the cleaned pairs that were taken out of the training text."""

    @classmethod
    def of(cls, pairs: Iterable[Pair]) -> EvaluationSentences:
        """The sentences of these pairs. Empty sentences are ignored."""
        sources, targets = [], []
        for source, target in pairs:
            sources.append(comparison_key(source))
            targets.append(comparison_key(target))
        return cls(hash_set([hash_lines(filter(None, sources))]), hash_set([hash_lines(filter(None, targets))]))

    def with_held_out(self, pairs: list[Pair], hashes: Hashes) -> EvaluationSentences:
        """Add held-out pairs: their text as read, and the hashes of the cleaned pairs."""
        more = EvaluationSentences.of(pairs)
        return EvaluationSentences(
            hash_set([self.sources, more.sources]),
            hash_set([self.targets, more.targets]),
            hash_set([self.held_out, hashes]),
        )


@dataclass(frozen=True)
class Chunk:
    """Pairs that passed the filters so far, with the values that the next filters need."""

    pairs: list[Pair]
    """As cleaned."""
    originals: list[Pair]
    """As read."""
    pair_hashes: Hashes
    source_hashes: Hashes
    target_hashes: Hashes
    invisible: Mask
    """Whether a side holds NUL or zero-width characters."""

    @property
    def copied(self) -> Mask:
        """Whether source and target are equal, ignoring white space and Unicode composition."""
        return np.equal(self.source_hashes, self.target_hashes)

    def keep(self, mask: Mask) -> Chunk:
        """The pairs where the mask, shape (pairs,), is true."""
        if mask.all():
            return self
        kept = np.flatnonzero(mask)
        return Chunk(
            [self.pairs[index] for index in kept],
            [self.originals[index] for index in kept],
            self.pair_hashes[kept],
            self.source_hashes[kept],
            self.target_hashes[kept],
            self.invisible[kept],
        )


def clean(
    pairs: Iterable[Pair],
    rules: Rules,
    evaluation: EvaluationSentences,
    counts: dict[str, int],
    *,
    scratch: Path,
    workers: int = 1,
) -> Iterator[Chunk]:
    """Yield the training pairs that pass the filters, in their order.

    A pair that fails several filters is counted by the first in this order: ``invalid_utf8``, ``empty``,
    ``too_long``, ``ratio``, ``duplicate``, ``held_out``, ``leaked``, ``copied``, ``invisible``.

    Args:
        pairs: source and target lines. U+FFFD replaces bytes that were not UTF-8.
        rules: filters and normalisation.
        evaluation: the sentences of valid and test.
        counts: receives the count of each filter that is on. Pairs that a filter only counts are under
            ``leaked_kept``, ``copied_kept`` or ``invisible_kept``.
        scratch: a folder for the hashes of pairs; the caller removes it.
        workers: number of processes.
    """
    for name in filter_names(rules.filters, held_out=len(evaluation.held_out) > 0):
        counts.setdefault(name, 0)
    seen = SeenHashes(scratch) if rules.filters.dedup else None

    def drop(name: str, chunk: Chunk, found: Mask) -> Chunk:
        counts[name] += int(found.sum())
        return chunk.keep(~found)

    def drop_or_count(name: str, chunk: Chunk, found: Mask, choice: Literal["drop", "count"]) -> Chunk:
        if choice == "drop":
            return drop(name, chunk, found)
        counts[f"{name}{KEPT}"] += int(found.sum())
        return chunk

    for chunk, dropped in map_in_order(partial(_filter_chunk, rules=rules), _chunks(pairs), workers):
        for name, count in dropped.items():
            counts[name] += count
        if seen is not None:
            chunk = drop("duplicate", chunk, ~seen.add(chunk.pair_hashes))
        if len(evaluation.held_out):
            chunk = drop("held_out", chunk, contains(evaluation.held_out, chunk.pair_hashes))
        leaked = contains(evaluation.sources, chunk.source_hashes) | contains(evaluation.targets, chunk.target_hashes)
        chunk = drop_or_count("leaked", chunk, leaked, rules.filters.leakage)
        chunk = drop_or_count("copied", chunk, chunk.copied, rules.filters.copied)
        yield drop_or_count("invisible", chunk, chunk.invisible, rules.filters.invisible)


def filter_names(filters: Filters, *, held_out: bool) -> list[str]:
    """The filters that are on, in the order in which they are applied."""
    switches = {
        "invalid_utf8": filters.invalid_utf8 == "drop",
        "empty": True,
        "too_long": filters.max_length is not None,
        "ratio": filters.max_ratio is not None,
        "duplicate": filters.dedup,
        "held_out": held_out,
        "leaked": filters.leakage == "drop",
        "leaked_kept": filters.leakage == "count",
        "copied": filters.copied == "drop",
        "copied_kept": filters.copied == "count",
        "invisible": filters.invisible == "drop",
        "invisible_kept": filters.invisible == "count",
    }
    return [name for name, on in switches.items() if on]


def _filter_chunk(pairs: list[Pair], *, rules: Rules) -> tuple[Chunk, dict[str, int]]:
    """Normalise pairs, and apply the filters that need only the pair itself."""
    filters = rules.filters
    settings = rules.normalisation.model_dump()
    normalize_source = normalizer(**settings, language=rules.source_lang)
    normalize_target = normalizer(**settings, language=rules.target_lang)
    kept: list[Pair] = []
    originals: list[Pair] = []
    dropped: dict[str, int] = {}
    for original in pairs:
        pair = normalize_source(original[0]), normalize_target(original[1])
        fault = _fault(pair, rules, filters)
        if fault is None:
            kept.append(pair)
            originals.append(original)
        else:
            dropped[fault] = dropped.get(fault, 0) + 1
    chunk = Chunk(
        kept,
        originals,
        hash_lines(f"{source}\n{target}" for source, target in kept),
        # Valid and test are not normalised, so they are compared with the text as read.
        hash_lines(comparison_key(source) for source, _ in originals),
        hash_lines(comparison_key(target) for _, target in originals),
        np.array([_has_invisible_characters(pair, rules) for pair in kept], dtype=bool),
    )
    return chunk, dropped


def _fault(pair: Pair, rules: Rules, filters: Filters) -> str | None:
    """The name of the first filter that drops a pair; None if it passes all."""
    source, target = pair
    if filters.invalid_utf8 == "drop" and (REPLACEMENT_CHARACTER in source or REPLACEMENT_CHARACTER in target):
        return "invalid_utf8"
    source_length = sentence_length(source, rules.source_lang)
    target_length = sentence_length(target, rules.target_lang)
    shorter, longer = sorted((source_length, target_length))
    if shorter == 0:
        return "empty"
    if filters.max_length is not None and longer > filters.max_length:
        return "too_long"
    if filters.max_ratio is not None and longer > filters.max_ratio * shorter:
        return "ratio"
    return None


def _has_invisible_characters(pair: Pair, rules: Rules) -> bool:
    """Whether a side holds NUL or zero-width characters."""
    languages = rules.source_lang, rules.target_lang
    return any(
        (_INVISIBLE if primary_language(language) in _ZERO_WIDTH_SPACED else _INVISIBLE_OR_ZERO_WIDTH_SPACE).search(
            line
        )
        for line, language in zip(pair, languages, strict=True)
    )


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    iterator = iter(pairs)
    while chunk := list(itertools.islice(iterator, _CHUNK)):
        yield chunk
