"""Cleaning of training text: filters, each with its count. Valid and test are never cleaned.

Pairs are filtered in chunks, by several processes if asked. To find repetitions, the pairs seen so far are kept as
hashes on disk, so memory does not grow with the corpus.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nmt.corpora.filters.chosen import chosen_filters
from nmt.corpora.filters.encoding import repair_encoding
from nmt.corpora.filters.near_duplicates import near_duplicate_key
from nmt.corpora.filters.pair_filter import Finder, Pair
from nmt.corpora.findings import SAMPLES, Findings
from nmt.corpora.hashes import Hashes, SeenHashes, contains, hash_lines, hash_set, no_hashes
from nmt.corpora.parallel import map_in_order
from nmt.corpora.schema import Filters, Normalisation
from nmt.languages import primary_language
from nmt.text import comparison_key, length_in_words, normalizer

Mask = NDArray[np.bool_]

REPLACEMENT_CHARACTER = "\ufffd"
KEPT = "_kept"
"""Ending of the name of a count of pairs that a filter counts but does not drop."""

REPAIRED = f"repaired{KEPT}"
"""Name of the count of pairs whose encoding was repaired."""

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

    @property
    def comparison_key(self) -> Callable[[str], str]:
        """The form in which training sentences are compared with valid and test."""
        return _repaired_key if self.filters.repair_encoding else comparison_key


@dataclass(frozen=True)
class EvaluationSentences:
    """The sentences of valid and test, as sorted hashes of their comparison keys (see :class:`Rules`)."""

    sources: Hashes = field(default_factory=no_hashes)
    targets: Hashes = field(default_factory=no_hashes)
    held_out: Hashes = field(default_factory=no_hashes)
    """Hashes of the cleaned pairs that were taken out of the training text."""
    held_out_sources: Hashes = field(default_factory=no_hashes)
    """Hashes of the comparison keys of their sources."""

    @classmethod
    def of(cls, pairs: Iterable[Pair], key: Callable[[str], str] = comparison_key) -> EvaluationSentences:
        """The sentences of these pairs. Empty sentences are ignored."""
        sources, targets = [], []
        for source, target in pairs:
            sources.append(key(source))
            targets.append(key(target))
        return cls(hash_set([hash_lines(filter(None, sources))]), hash_set([hash_lines(filter(None, targets))]))

    def with_held_out(
        self, pairs: list[Pair], hashes: Hashes, key: Callable[[str], str] = comparison_key
    ) -> EvaluationSentences:
        """Add held-out pairs: their text as read, and the hashes of the cleaned pairs."""
        more = EvaluationSentences.of(pairs, key)
        return EvaluationSentences(
            hash_set([self.sources, more.sources]),
            hash_set([self.targets, more.targets]),
            hash_set([self.held_out, hashes]),
            hash_set([self.held_out_sources, more.sources]),
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
    repaired: Mask
    """Whether the encoding of a side was repaired."""
    near_hashes: Hashes | None = None
    """Hashes that near duplicates share; None if the filter is off."""

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
            self.repaired[kept],
            None if self.near_hashes is None else self.near_hashes[kept],
        )


@dataclass
class _Found:
    """The pairs of a chunk that a filter found."""

    count: int = 0
    samples: list[Pair] = field(default_factory=list)

    def add(self, pair: Pair) -> None:
        self.count += 1
        if len(self.samples) < SAMPLES:
            self.samples.append(pair)


def clean(
    corpora: Iterable[Iterable[Pair]],
    rules: Rules,
    evaluation: EvaluationSentences,
    findings: Findings,
    *,
    scratch: Path,
    workers: int = 1,
) -> Iterator[Chunk]:
    """Yield the training pairs that pass the filters, in their order.

    A pair that fails several filters is counted by the first, in the order of :func:`filter_names`.

    Args:
        corpora: source and target lines of each corpus. U+FFFD replaces bytes that were not UTF-8.
        rules: filters and normalisation.
        evaluation: the sentences of valid and test.
        findings: receives what each filter that is on finds. Pairs that a filter only counts are under a name that ends
            in ``_kept``.
        scratch: a folder for the hashes of pairs; the caller removes it.
        workers: number of processes.
    """
    findings.expect(filter_names(rules.filters, held_out=len(evaluation.held_out) > 0))
    seen = SeenHashes(scratch) if rules.filters.dedup else None
    seen_nearly = SeenHashes(scratch / "near") if rules.filters.near_duplicates else None

    def count(name: str, corpus: int, chunk: Chunk, found: Mask) -> None:
        first = np.flatnonzero(found)[:SAMPLES]
        findings.add(corpus, name, int(found.sum()), [chunk.originals[index] for index in first])

    def drop(name: str, corpus: int, chunk: Chunk, found: Mask) -> Chunk:
        count(name, corpus, chunk, found)
        return chunk.keep(~found)

    def drop_or_count(name: str, corpus: int, chunk: Chunk, found: Mask, choice: Literal["drop", "count"]) -> Chunk:
        if choice == "drop":
            return drop(name, corpus, chunk, found)
        count(f"{name}{KEPT}", corpus, chunk, found)
        return chunk

    for corpus, chunk, dropped in map_in_order(partial(_filter_chunk, rules=rules), _chunks(corpora), workers):
        for name, found in dropped.items():
            findings.add(corpus, name, found.count, found.samples)
        if seen is not None:
            chunk = drop("duplicate", corpus, chunk, ~seen.add(chunk.pair_hashes))
        if seen_nearly is not None and chunk.near_hashes is not None:
            chunk = drop("near_duplicates", corpus, chunk, ~seen_nearly.add(chunk.near_hashes))
        if len(evaluation.held_out):
            held_out = contains(evaluation.held_out, chunk.pair_hashes)
            if rules.filters.leakage == "count":  # No source sentence is in two splits.
                held_out |= contains(evaluation.held_out_sources, chunk.source_hashes)
            chunk = drop("held_out", corpus, chunk, held_out)
        leaked = contains(evaluation.sources, chunk.source_hashes) | contains(evaluation.targets, chunk.target_hashes)
        chunk = drop_or_count("leaked", corpus, chunk, leaked, rules.filters.leakage)
        chunk = drop_or_count("copied", corpus, chunk, chunk.copied, rules.filters.copied)
        chunk = drop_or_count("invisible", corpus, chunk, chunk.invisible, rules.filters.invisible)
        count(REPAIRED, corpus, chunk, chunk.repaired)
        yield chunk


def filter_names(filters: Filters, *, held_out: bool) -> list[str]:
    """The filters that are on, in the order in which they are applied."""
    switches = {
        "invalid_utf8": filters.invalid_utf8 == "drop",
        "empty": True,
        "too_long": filters.max_length is not None,
        "ratio": filters.max_ratio is not None,
        **dict.fromkeys(chosen_filters(filters, "", ""), True),
        "duplicate": filters.dedup,
        "near_duplicates": filters.near_duplicates,
        "held_out": held_out,
        "leaked": filters.leakage == "drop",
        "leaked_kept": filters.leakage == "count",
        "copied": filters.copied == "drop",
        "copied_kept": filters.copied == "count",
        "invisible": filters.invisible == "drop",
        "invisible_kept": filters.invisible == "count",
        REPAIRED: filters.repair_encoding,
    }
    return [name for name, on in switches.items() if on]


def _filter_chunk(item: tuple[int, list[Pair]], *, rules: Rules) -> tuple[int, Chunk, dict[str, _Found]]:
    """Repair and normalise the pairs of a corpus, and apply the filters that need only the pair itself."""
    corpus, originals = item
    filters = rules.filters
    settings = rules.normalisation.model_dump()
    normalize_source = normalizer(**settings, language=rules.source_lang)
    normalize_target = normalizer(**settings, language=rules.target_lang)
    finders = chosen_filters(filters, rules.source_lang, rules.target_lang)
    kept: list[Pair] = []
    kept_originals: list[Pair] = []
    repaired: list[bool] = []
    dropped: dict[str, _Found] = {}
    for original in originals:
        read = original
        if filters.repair_encoding:
            read = repair_encoding(original[0]), repair_encoding(original[1])
        pair = normalize_source(read[0]), normalize_target(read[1])
        fault = _fault(pair, rules, filters, finders)
        if fault is None:
            kept.append(pair)
            kept_originals.append(original)
            repaired.append(read != original)
        else:
            dropped.setdefault(fault, _Found()).add(original)
    key = rules.comparison_key
    chunk = Chunk(
        kept,
        kept_originals,
        hash_lines(f"{source}\n{target}" for source, target in kept),
        # Valid and test are not normalised, so they are compared with the text as read.
        hash_lines(key(source) for source, _ in kept_originals),
        hash_lines(key(target) for _, target in kept_originals),
        np.array([_has_invisible_characters(pair, rules) for pair in kept], dtype=bool),
        np.array(repaired, dtype=bool),
        hash_lines(map(near_duplicate_key, kept)) if filters.near_duplicates else None,
    )
    return corpus, chunk, dropped


def _repaired_key(line: str) -> str:
    return comparison_key(repair_encoding(line))


def _fault(pair: Pair, rules: Rules, filters: Filters, finders: Mapping[str, Finder]) -> str | None:
    """The name of the first filter that drops a pair; None if it passes all."""
    source, target = pair
    if filters.invalid_utf8 == "drop" and (REPLACEMENT_CHARACTER in source or REPLACEMENT_CHARACTER in target):
        return "invalid_utf8"
    source_length = length_in_words(source)
    target_length = length_in_words(target)
    shorter, longer = sorted((source_length, target_length))
    if shorter == 0:
        return "empty"
    if filters.max_length is not None and longer > filters.max_length:
        return "too_long"
    if filters.max_ratio is not None and longer > filters.max_ratio * shorter:
        return "ratio"
    for name, finds in finders.items():
        if finds(pair):
            return name
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


def _chunks(corpora: Iterable[Iterable[Pair]]) -> Iterator[tuple[int, list[Pair]]]:
    """Chunks of pairs, each with the number of its corpus."""
    for corpus, pairs in enumerate(corpora):
        iterator = iter(pairs)
        while chunk := list(itertools.islice(iterator, _CHUNK)):
            yield corpus, chunk
