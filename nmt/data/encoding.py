"""Encoding the pairs of a split: chunks of lines in, rows of ids and their statistics out, by several threads."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nmt.data.arrays import Rows
from nmt.data.shards import SIDES, Side
from nmt.data.vocab import Vocabulary
from nmt.data.word_counts import count_words
from nmt.sentences import sentences

Item = TypeVar("Item")
Result = TypeVar("Result")

Encode = Callable[[Sequence[str], Side, int], Rows]
"""Encodes the lines of one side of a chunk of pairs, given the side and the chunk's number."""


@dataclass(frozen=True)
class Chunk:
    """Consecutive pairs of a split, as read."""

    number: int
    first: int
    """The number of its first pair in the split, from 0."""
    pairs: list[tuple[str, str]]


@dataclass(frozen=True)
class SideCounts:
    """Statistics of one side of a chunk."""

    words: int
    pieces: int
    unknown: int
    byte_pieces: int
    longest: int


@dataclass(frozen=True)
class EncodedChunk:
    """The encoded pairs of a chunk that go into the shards, and statistics of all its pairs."""

    rows: dict[Side, Rows]
    counts: dict[Side, SideCounts]
    pairs: int
    too_long: int
    empty: int
    sentences: dict[Side, Counter[int]] = field(default_factory=dict)
    """Numbers of lines by their number of sentences, in the pairs in which they are counted."""


@dataclass(frozen=True)
class ChunkEncoder:
    """Encodes chunks of one split; a function of the chunk alone."""

    encode: Encode
    normalize: Callable[[str], str]
    """Applied to each source line first."""
    languages: Mapping[Side, str]
    is_byte: Mapping[Side, NDArray[np.bool_]]
    """Side -> by id, whether the piece is a single byte."""
    max_length: int
    """Pairs with a side of more pieces are left out."""
    keeps_empty: bool
    """Whether pairs with a side without pieces stay."""
    counted_step: int
    """Sentences are counted in every pair whose number is a multiple of this; 0 for none."""

    def __call__(self, chunk: Chunk) -> EncodedChunk:
        """Encode a chunk."""
        sources, targets = zip(*chunk.pairs, strict=True)
        texts: dict[Side, list[str]] = {"source": [self.normalize(line) for line in sources], "target": list(targets)}
        rows = {side: self.encode(texts[side], side, chunk.number) for side in SIDES}
        lengths = np.stack([rows[side].lengths for side in SIDES])
        is_short = lengths.max(axis=0) <= self.max_length
        is_full = (lengths.min(axis=0) > 0) | self.keeps_empty
        is_kept = is_short & is_full
        return EncodedChunk(
            {side: rows[side].chosen(is_kept) for side in SIDES},
            {side: self._counts(texts[side], rows[side], side) for side in SIDES},
            pairs=int(is_kept.sum()),
            too_long=int((~is_short).sum()),
            empty=int((is_short & ~is_full).sum()),
            sentences=self._sentences(chunk.first, texts, is_kept),
        )

    def _counts(self, lines: list[str], rows: Rows, side: Side) -> SideCounts:
        return SideCounts(
            words=count_words(lines, self.languages[side]),
            pieces=len(rows.values),
            unknown=int(np.count_nonzero(rows.values == Vocabulary.UNK)),
            byte_pieces=int(np.count_nonzero(self.is_byte[side][rows.values])),
            longest=int(rows.lengths.max(initial=0)),
        )

    def _sentences(
        self, first: int, texts: Mapping[Side, list[str]], is_kept: NDArray[np.bool_]
    ) -> dict[Side, Counter[int]]:
        if not self.counted_step:
            return {}
        places = np.arange(-first % self.counted_step, len(is_kept), self.counted_step)
        counted = places[is_kept[places]].tolist()
        return {
            side: Counter(len(sentences(texts[side][place], self.languages[side])) for place in counted)
            for side in SIDES
        }


def chunks_of(pairs: Iterator[tuple[str, str]], size: int) -> Iterator[Chunk]:
    """Cut pairs into chunks; the last may be smaller."""
    for number in itertools.count():
        chunk = list(itertools.islice(pairs, size))
        if not chunk:
            return
        yield Chunk(number, number * size, chunk)


def map_ahead(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """Apply a function to each item by several threads, in order, while the caller uses earlier results.

    At most one item more than there are threads is read, or has a result, before it is used.
    """
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads, "encoding") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
