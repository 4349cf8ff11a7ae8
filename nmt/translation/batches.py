"""Batches of sentences of similar length, with little padding and the same number of batches for every worker."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nmt.translation.segment import Segment

# Wider beams search fewer pieces at once, because memory grows with the beam.
_USUAL_BEAM = 4


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


def segment_batches(segments: Sequence[Segment], batch_tokens: int, beam: int, workers: int) -> list[list[Segment]]:
    """The segments of each batch, as :func:`batches_of`, with at most :func:`tokens_for` the beam."""
    lengths = [len(segment.pieces) + 1 for segment in segments]
    batches = batches_of(lengths, tokens_for(beam, batch_tokens), workers)
    return [[segments[index] for index in batch] for batch in batches]


def _cut(order: Sequence[int], lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    batches: list[list[int]] = []
    for index in order:
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= max_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches
