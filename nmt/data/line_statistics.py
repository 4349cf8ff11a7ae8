"""Statistics of training lines: sentences per line, pieces per line, and the ratio of target to source length.

A model translates lines like its training lines well, and others less so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.config.data import LengthRatio, LineStatistics, PieceCounts, SideLines
from nmt.data.shard_index import ShardIndex, Side, SplitStatistics
from nmt.data.shards import ParallelShards

# More ratios change the percentiles by less than 0.01, and cost memory.
_MAX_RATIOS = 1_000_000


def line_statistics(shards: Sequence[ParallelShards]) -> LineStatistics | None:
    """Summarise the training lines of several data sets together; None if there is no pair."""
    if not any(map(len, shards)):
        return None
    indices = [part.index for part in shards]
    return LineStatistics(
        max_pieces=max(index.max_pieces for index in indices),
        source=_side("source", indices, shards),
        target=_side("target", indices, shards),
        target_per_source=_ratio(shards),
    )


def _side(side: Side, indices: Sequence[ShardIndex], shards: Sequence[ParallelShards]) -> SideLines:
    counts = [_sentences(index.splits["train"], side) for index in indices]
    sentences = tuple(round(sum(numbers)) for numbers in zip_longest(*counts, fillvalue=0))
    sides = [index.splits["train"].sides[side] for index in indices]
    return SideLines(
        sentences=sentences,
        pieces=_piece_counts([_lengths(part, side) for part in shards]),
        byte_pieces=_share((one.byte_pieces for one in sides), (one.pieces for one in sides)),
        decomposed=_share((one.decomposed for one in sides), (one.with_forms for one in sides)),
    )


def _share(parts: Iterable[int], wholes: Iterable[int]) -> float:
    return round(sum(parts) / max(1, sum(wholes)), 7)


def _sentences(train: SplitStatistics, side: Side) -> list[float]:
    """Numbers of lines with 1, 2, 3 ... sentences, scaled from the counted lines to all pairs."""
    counts = train.sides[side].sentences or []
    scale = train.pairs / max(1, sum(counts))
    return [count * scale for count in counts]


def _lengths(shards: ParallelShards, side: Side) -> NDArray[np.int32]:
    return shards.source_lengths if side == "source" else shards.target_lengths


def _piece_counts(lengths: Sequence[NDArray[np.int32]]) -> PieceCounts:
    longest = max(int(part.max()) for part in lengths if len(part))
    histogram: NDArray[Any] = np.sum([np.bincount(part, minlength=longest + 1) for part in lengths], axis=0)
    shares = np.cumsum(histogram) / histogram.sum()

    def percentile(share: float) -> int:
        """The smallest number of pieces that this share of lines does not exceed."""
        return min(int(np.searchsorted(shares, share)), longest)

    return PieceCounts(
        p50=percentile(0.5), p90=percentile(0.9), p99=percentile(0.99), p999=percentile(0.999), max=longest
    )


def _ratio(shards: Sequence[ParallelShards]) -> LengthRatio:
    step = -(-sum(map(len, shards)) // _MAX_RATIOS)
    ratios = np.concatenate([part.target_lengths[::step] / part.source_lengths[::step] for part in shards])
    p1, p10, p50, p90, p99 = (round(float(value), 3) for value in np.percentile(ratios, [1, 10, 50, 90, 99]))
    return LengthRatio(p1=p1, p10=p10, p50=p50, p90=p90, p99=p99)
