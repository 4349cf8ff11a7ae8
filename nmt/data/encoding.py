"""Encoding the text of a split: chunks of pairs in, rows of ids and their statistics out, by several threads."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nmt.data.arrays import Rows
from nmt.data.shard_index import SIDES, Side, SideStatistics, SplitStatistics
from nmt.data.vocab import Vocabulary
from nmt.text.languages import is_unspaced
from nmt.text.normalization import has_forms, is_composed
from nmt.text.sentences import sentences

Item = TypeVar("Item")
Result = TypeVar("Result")

Encode = Callable[[Sequence[str], Side, int], Rows]
"""Encodes the lines of one side of a chunk of pairs, given the side and the chunk's number."""
# Lines with more sentences are counted as lines with this many.
_MAX_SENTENCES = 20
# All that separates words (nmt.text.lines.words_of), but a space and a line end.
_OTHER_SPACES = (
    "\u1361",
    *("\t", "\v", "\f", "\r", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\xa0", "\u1680"),
    *map(chr, range(0x2000, 0x200B)),
    *("\u2028", "\u2029", "\u202f", "\u205f", "\u3000"),
)


@dataclass(frozen=True)
class Chunk:
    """Consecutive pairs of a split, as read."""

    number: int
    first: int
    """The number of its first pair in the split, from 0."""
    pairs: list[tuple[str, str]]


@dataclass(frozen=True)
class EncodedChunk:
    """The encoded pairs of a chunk that go into the shards, and statistics of all its pairs."""

    rows: dict[Side, Rows]
    statistics: SplitStatistics


@dataclass(frozen=True)
class ChunkEncoder:
    """Encodes chunks of one split; a function of the chunk alone."""

    encode: Encode
    normalizers: Mapping[Side, Callable[[str], str]]
    """Applied to each line of a side first."""
    languages: Mapping[Side, str]
    is_byte: Mapping[Side, NDArray[np.bool_]]
    """Side -> by id, whether the piece is a single byte."""
    max_pieces: int
    """Pairs with a side of more pieces are left out."""
    affixes: Mapping[Side, int]
    """The number of pieces of each line that are not made of its text."""
    keeps_empty: bool
    """Whether pairs with a side without pieces stay."""
    counted_step: int
    """Sentences are counted in every pair whose number is a multiple of this; 0 for none."""

    def __call__(self, chunk: Chunk) -> EncodedChunk:
        """Encode a chunk."""
        sources, targets = zip(*chunk.pairs, strict=True)
        texts = {
            side: list(map(self.normalizers[side], read)) for side, read in zip(SIDES, (sources, targets), strict=True)
        }
        rows = {side: self.encode(texts[side], side, chunk.number) for side in SIDES}
        lengths = np.stack([rows[side].lengths for side in SIDES])
        is_short = lengths.max(axis=0) <= self.max_pieces
        added = np.array([[self.affixes[side]] for side in SIDES])
        is_full = (lengths > added).all(axis=0) | self.keeps_empty
        is_kept = is_short & is_full
        statistics = SplitStatistics(
            pairs=int(is_kept.sum()),
            too_long=int((~is_short).sum()),
            empty=int((is_short & ~is_full).sum()),
            sides={side: self._side(texts[side], rows[side], side) for side in SIDES},
        )
        if self.counted_step:
            places = np.arange(-chunk.first % self.counted_step, len(is_kept), self.counted_step)
            counted = places[is_kept[places]].tolist()
            for side in SIDES:
                lines = [texts[side][place] for place in counted]
                statistics.sides[side].sentences = _sentence_counts(lines, self.languages[side])
        return EncodedChunk({side: rows[side].chosen(is_kept) for side in SIDES}, statistics)

    def _side(self, lines: list[str], rows: Rows, side: Side) -> SideStatistics:
        composed = [is_composed(line) for line in lines if has_forms(line)]
        return SideStatistics(
            words=count_words(lines, self.languages[side]),
            pieces=len(rows.values),
            unknown=int(np.count_nonzero(rows.values == Vocabulary.UNK)),
            byte_pieces=int(np.count_nonzero(self.is_byte[side][rows.values])),
            with_forms=len(composed),
            decomposed=composed.count(False),
            longest=int(rows.lengths.max(initial=0)),
        )


def _sentence_counts(lines: Sequence[str], language: str) -> list[int]:
    """Numbers of lines with 1, 2, 3 ... sentences; the last counts lines with ``_MAX_SENTENCES`` or more."""
    counts = Counter(min(len(sentences(line, language)), _MAX_SENTENCES) for line in lines)
    return [counts[number] for number in range(1, max(counts, default=0) + 1)]


def count_words(lines: Sequence[str], language: str) -> int:
    """The sum of :func:`nmt.text.lines.sentence_length` over lines, by several threads at the same time.

    The words are counted in the bytes of all lines, which takes a fifteenth of the time of splitting each line.
    """
    text = "\n".join([*lines, ""])
    if is_unspaced(language):
        return len("".join(text.split()))
    for character in _OTHER_SPACES:
        if character in text:
            text = text.replace(character, " ")
    codes = np.frombuffer(text.encode(), np.uint8)
    is_space = (codes == ord(" ")) | (codes == ord("\n"))
    return int(np.count_nonzero(is_space[1:] & ~is_space[:-1]))


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
