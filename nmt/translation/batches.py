"""Batches of sentences of similar length, with little padding and the same number of batches for every worker."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from nmt.search.hypotheses import Hypothesis
from nmt.search.settings import BeamTooWideError, SearchSettings
from nmt.translation.found_batches import FoundBatches
from nmt.translation.segment import Segment
from nmt.translation.workers import Workers

# Wider beams search fewer pieces at once, because memory grows with the beam.
_USUAL_BEAM = 4

Search = Callable[[Sequence[Segment], bool], list[list[Hypothesis]] | None]
"""Searches a batch, with its share of the memory or (if true) with all of it; None if that is too little."""


def batches_of(lengths: Sequence[int], max_tokens: int, workers: int = 1) -> list[list[int]]:
    """The indices of the sentences of each batch, longest sentences first.

    Args:
        lengths: pieces of each sentence.
        max_tokens: maximum pieces per batch, padding included. A single sentence may have more.
        workers: the number of workers that share the batches. If there are several batches, their number is a multiple
            of ``workers`` and their sizes are similar.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    batches = _cut(order, lengths, max_tokens)
    if len(batches) <= 1:
        return batches
    count = workers * math.ceil(len(batches) / workers)
    smallest, largest = 1, max_tokens
    while smallest < largest:
        middle = (smallest + largest) // 2
        if len(_cut(order, lengths, middle)) <= count:
            largest = middle
        else:
            smallest = middle + 1
    return _cut(order, lengths, smallest)


def tokens_for(beam: int, batch_tokens: int) -> int:
    """The maximum pieces per batch: ``batch_tokens``, or fewer if the beam is wider than 4."""
    return max(1, batch_tokens * _USUAL_BEAM // max(_USUAL_BEAM, beam))


def segment_batches(segments: Sequence[Segment], batch_tokens: int, beam: int, workers: int) -> list[list[int]]:
    """The segments of each batch by their indices, as :func:`batches_of`, with at most :func:`tokens_for` the beam."""
    return batches_of([len(segment.pieces) + 1 for segment in segments], tokens_for(beam, batch_tokens), workers)


def search_batches(
    segments: Sequence[Segment],
    batches: Sequence[Sequence[int]],
    workers: Workers,
    settings: SearchSettings,
    search: Search,
    *,
    free: float | None,
    known: FoundBatches | None,
) -> list[list[Hypothesis]]:
    """The hypotheses of segments. A batch that does not fit into its share of the memory is halved.

    Args:
        free: the bytes of memory that are free for all batches; None if that is not known.
        known: batches that need no search; what is found of the others is added.

    Raises:
        BeamTooWideError: a single segment does not fit into the memory.
    """
    found: list[list[Hypothesis]] = [[] for _ in segments]

    def searched(batch: Sequence[Segment], alone: bool) -> list[list[Hypothesis]] | None:
        if known is None:
            return search(batch, alone)
        return known.of(batch, settings, lambda: search(batch, alone))

    def fill(batch: Sequence[int]) -> None:
        chosen = [segments[index] for index in batch]
        hypotheses = searched(chosen, False)
        if hypotheses is None and len(batch) > 1:
            middle = len(batch) // 2
            fill(batch[:middle])
            fill(batch[middle:])
            return
        hypotheses = hypotheses or searched(chosen, True)
        if hypotheses is None:
            memory = "" if free is None else f" ({free / 1e9:,.1f} GB were free)"
            raise BeamTooWideError(
                f"line {chosen[0].line:,}: the search with a beam of {settings.beam:,} needs more memory than there is"
                f"{memory}. Lower --beam, or --max-extra-length."
            )
        for index, of_one in zip(batch, hypotheses, strict=True):
            found[index] = of_one

    for _ in workers.map(fill, batches):
        pass
    return found


def _cut(order: Sequence[int], lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    batches: list[list[int]] = []
    for index in order:
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= max_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches
