"""Cleaning of training text: filters, each with its count. Valid and test are never cleaned.

Pairs are filtered in chunks, by several processes if asked. To find repetitions, the pairs seen so far are kept as
hashes on disk, so memory does not grow with the corpus.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.corpora.chunks import EvaluationSentences, Mask, PairChunk
from nmt.corpora.filter_statistics import SAMPLES, FilterStatistics
from nmt.corpora.filters import ChosenFilter, Filters, chosen_filters
from nmt.corpora.formats import Pair
from nmt.corpora.hashes import SeenHashes, hash_lines, no_hashes
from nmt.corpora.pair_filters import exactly, near_key, repair_encoding
from nmt.corpora.processes import map_in_order
from nmt.corpora.schema import Normalisation
from nmt.text.lines import comparison_key
from nmt.text.steps import normalizer


@dataclass(frozen=True)
class Rules:
    """The filters and the normalisation of a language pair."""

    source_lang: str
    target_lang: str
    filters: Filters
    normalisation: Normalisation

    @property
    def languages(self) -> tuple[str, str]:
        """The codes of source and target."""
        return self.source_lang, self.target_lang

    def comparison_key(self, line: str) -> str:
        """The form in which training sentences are compared with valid and test."""
        return near_key(self._repaired(line)) if self.filters.leakage == "near" else self.exact_key(line)

    def exact_key(self, line: str) -> str:
        """The form in which both sides of a copied pair are equal."""
        return comparison_key(self._repaired(line))

    def _repaired(self, line: str) -> str:
        return repair_encoding(line) if self.filters.repair_encoding else line


def distinct(
    read: Iterable[tuple[int, list[Pair]]],
    rules: Rules,
    statistics: FilterStatistics,
    *,
    scratch: Path,
    workers: int = 1,
) -> Iterator[PairChunk]:
    """Yield the training pairs that pass the filters up to those of repetitions, in their order.

    A pair that several filters would drop is counted by the first, in the order of :class:`Filters`.

    Args:
        read: chunks of pairs, each of one corpus and with its number. U+FFFD replaces bytes that were not UTF-8.
        rules: filters and normalisation.
        statistics: receives what each filter that is on finds.
        scratch: a folder for the hashes of pairs; the caller removes it.
        workers: number of processes.
    """
    chosen = [each for each in chosen_filters(rules.filters) if each.filter.form]
    seen = [(each, SeenHashes(scratch / each.filter.name)) for each in chosen]
    for chunk, found_alone in map_in_order(partial(_filter_chunk, rules=rules), read, workers):
        statistics.add_all(found_alone)
        for each, hashes in seen:
            chunk = _apply(each, chunk, ~hashes.add(chunk.values[each.filter.name]), statistics)
        yield chunk


def unleaked(
    chunks: Iterable[PairChunk], rules: Rules, evaluation: EvaluationSentences, statistics: FilterStatistics
) -> Iterator[PairChunk]:
    """Yield the pairs that pass the filters after those of repetitions.

    Args:
        chunks: what :func:`distinct` yields.
        rules: the same as there.
        evaluation: the sentences of valid and test.
        statistics: receives what each filter that is on finds.
    """
    chosen = [each for each in chosen_filters(rules.filters) if each.filter.chunk or each.filter.is_late]
    if any(each.filter.name == "leaked" and each.drops for each in chosen):
        # Other pairs with a held-out source are leaks, and are counted as such.
        evaluation = replace(evaluation, held_out_sources=no_hashes())
    for chunk in chunks:
        for each in chosen:
            compare = each.filter.chunk
            found = compare(chunk, evaluation) if compare else chunk.values[each.filter.name]
            chunk = _apply(each, chunk, found, statistics)
        yield chunk


def _apply(chosen: ChosenFilter, chunk: PairChunk, found: Mask, statistics: FilterStatistics) -> PairChunk:
    """Count the pairs that a filter found, and drop them if it does."""
    first = np.flatnonzero(found)[:SAMPLES]
    statistics.add(chunk.corpus, chosen.count, int(found.sum()), [chunk.originals[index] for index in first])
    return chunk.keep(~found) if chosen.drops else chunk


def filter_names(filters: Filters, *, held_out: bool) -> list[str]:
    """The names of the counts of the filters that are on, in the order in which they are applied."""
    return [each.count for each in chosen_filters(filters) if held_out or each.filter.name != "held_out"]


def _filter_chunk(item: tuple[int, list[Pair]], *, rules: Rules) -> tuple[PairChunk, FilterStatistics]:
    """Repair and normalise the pairs of a corpus, and apply the filters that need only the pair itself."""
    corpus, originals = item
    normalize_source, normalize_target = (normalizer(rules.normalisation.steps(code)) for code in rules.languages)
    chosen = chosen_filters(rules.filters)
    predicates = [(each, each.filter.predicate(each.value, rules.languages)) for each in chosen]
    applied = [(each, finds) for each, finds in predicates if finds is not None and not each.filter.is_late]
    kept: list[Pair] = []
    kept_originals: list[Pair] = []
    repaired: list[bool] = []
    found = FilterStatistics()
    for original in originals:
        read = original
        if rules.filters.repair_encoding:
            read = repair_encoding(original[0]), repair_encoding(original[1])
        pair = normalize_source(read[0]), normalize_target(read[1])
        for each, finds in applied:
            if finds(pair):
                found.add(corpus, each.count, 1, [original])
                if each.drops:
                    break
        else:
            kept.append(pair)
            kept_originals.append(original)
            repaired.append(read != original)
    # Valid and test are not normalised, so they are compared with the text as read.
    sides = [[original[side] for original in kept_originals] for side in (0, 1)]
    exact = [hash_lines(map(rules.exact_key, side)) for side in sides]
    is_near = rules.filters.leakage == "near"
    compared = [hash_lines(map(rules.comparison_key, side)) for side in sides] if is_near else exact
    values: dict[str, NDArray[Any]] = {
        "pair": hash_lines(map(exactly, kept)),
        "source": compared[0],
        "target": compared[1],
        "copied": exact[0] == exact[1],
        "repaired": np.array(repaired, dtype=bool),
    }
    for each, late in predicates:
        if late is not None and each.filter.is_late:
            values[each.filter.name] = np.array([late(pair) for pair in kept], dtype=bool)
        elif form := each.filter.form:
            values[each.filter.name] = values["pair"] if form is exactly else hash_lines(map(form, kept))
    return PairChunk(corpus, kept, kept_originals, values), found
