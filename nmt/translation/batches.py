"""Sentences of like length put together, so that little is padding, and all workers get as many batches."""

from __future__ import annotations

import math
from collections.abc import Sequence


def batches_of(lengths: Sequence[int], most_tokens: int, workers: int = 1) -> list[list[int]]:
    """Indices of sentences by batch, the longest first.

    Args:
        lengths: pieces of each sentence.
        most_tokens: pieces of a batch at most, padding included; a single sentence may have more.
        workers: that share the batches. Where it takes several, it takes a multiple of them, of like size.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    batches = _cut(order, lengths, most_tokens)
    if len(batches) <= 1:
        return batches
    count = workers * math.ceil(len(batches) / workers)
    smallest, largest = 1, most_tokens
    while smallest < largest:
        middle = (smallest + largest) // 2
        if len(_cut(order, lengths, middle)) <= count:
            largest = middle
        else:
            smallest = middle + 1
    return _cut(order, lengths, smallest)


def _cut(order: Sequence[int], lengths: Sequence[int], most_tokens: int) -> list[list[int]]:
    batches: list[list[int]] = []
    for index in order:
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= most_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches
