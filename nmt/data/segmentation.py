"""Random segmentations of a text into pieces: subword regularisation.

BPE models use BPE-dropout (Provilkov et al. 2020); unigram models draw segmentations by their probability (Kudo 2018).
SentencePiece can draw them too, but mixes the system's entropy into every seed (as of 0.2.3), so a run could not be
repeated. Here all randomness comes from the caller's generator, and many words are segmented at once as arrays.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set

import numpy as np
from numpy.typing import NDArray
from sentencepiece import SentencePieceProcessor

from nmt.data.arrays import gather_rows, starts_of

_SPACE = "▁"
_NEVER = np.iinfo(np.int32).max
_BLOCK_SYMBOLS = 1 << 18
"""Approximate number of symbols segmented at once: bounds the memory, and keeps the arrays in the CPU's caches."""

_LONGEST_WORD = 1_024
"""Symbols. BPE-dropout takes a step per merge, so the time for a longer word would be quadratic in its length."""

Ids = NDArray[np.int32]
Integers = NDArray[np.int64]


class SegmentationSampler:
    """Draws segmentations into the pieces of one SentencePiece model.

    It works on *symbols*: the ids of single characters. A piece that cannot be split (an unknown character, a byte, a
    piece with a character that is not itself a piece) is one symbol, and is never merged.
    """

    def __init__(
        self, processor: SentencePieceProcessor, known: Set[int] | None = None, others: Sequence[str] = ()
    ) -> None:
        """Prepare to draw.

        Args:
            known: the ids of the pieces that may be drawn; all if None. Others are split into characters that may be
                drawn, and stay as they are where a character may not.
            others: pieces that the model does not have, and that stay as they are. Their ids follow the model's.
        """
        size = processor.get_piece_size()
        known = frozenset(range(size)) if known is None else known
        pieces: list[str] = processor.id_to_piece(list(range(size)))
        segmenting = {
            piece: index
            for index, piece in enumerate(pieces)
            if not (
                processor.is_unknown(index)
                or processor.is_control(index)
                or processor.is_unused(index)
                or processor.is_byte(index)
            )
        }
        normal = {piece: index for piece, index in segmenting.items() if index in known}
        symbols = [
            [normal[character] for character in piece]
            if piece in segmenting and all(character in normal for character in piece)
            else [index]
            for index, piece in enumerate([*pieces, *others])
        ]
        self._symbols = np.array(list(itertools.chain.from_iterable(symbols)), dtype=np.int32)
        self._symbol_counts = np.array([len(ids) for ids in symbols], dtype=np.int64)
        self._symbol_starts = starts_of(self._symbol_counts)
        # No piece crosses the border of a word. If pieces may span spaces, the whole line is one word.
        spanning = any(_SPACE in piece.lstrip(_SPACE) for piece in normal)
        self._begins_word = np.array([piece.startswith(_SPACE) and not spanning for piece in [*pieces, *others]])
        scores = np.array([*(processor.get_score(index) for index in range(size)), *(0.0 for _ in others)])
        # SentencePiece does not expose the type of its model. In a BPE model, a score is the negated rank of the merge;
        # in a unigram model, it is a log-probability.
        is_bpe = all(float(scores[index]).is_integer() for index in normal.values())
        spelt = {index: ids for index, ids in enumerate(symbols) if index in known or ids == [index]}
        self._model: _Merges | _Lattice = _Merges(normal, scores) if is_bpe else _Lattice(spelt, scores)

    def sample(self, encoded: Sequence[Sequence[int]], amount: float, random: np.random.Generator) -> list[list[int]]:
        """Draw a new segmentation of each line.

        Args:
            encoded: the ids of each line's pieces, in any segmentation.
            amount: for a BPE model, the probability that a merge is dropped; for a unigram model, the exponent α of
                the probabilities of segmentations.
        """
        counts = np.array([len(ids) for ids in encoded], dtype=np.int64)
        ids = np.fromiter(itertools.chain.from_iterable(encoded), dtype=np.int32, count=int(counts.sum()))
        if len(ids) == 0:
            return [[] for _ in encoded]
        begins = self._begins_word[ids]
        begins[starts_of(counts)[counts > 0]] = True
        symbols_of_pieces = self._symbol_counts[ids]
        symbols = gather_rows(self._symbols, self._symbol_starts[ids], symbols_of_pieces)
        word_lengths = np.add.reduceat(symbols_of_pieces, np.flatnonzero(begins))

        segmented, end = [], 0
        for first, last in _blocks(word_lengths):
            start, end = end, end + int(word_lengths[first:last].sum())
            segmented.append(self._model.segment(symbols[start:end], word_lengths[first:last], amount, random))
        # From pieces of each word to pieces of each line.
        words_until = np.concatenate([[0], np.cumsum(begins)])[np.cumsum(counts)]
        line_ends = np.concatenate([[0], *(counts for _, counts in segmented)]).cumsum()[words_until].tolist()
        flat: list[int] = np.concatenate([pieces for pieces, _ in segmented]).tolist()
        return [flat[start:end] for start, end in itertools.pairwise([0, *line_ends])]


def _blocks(lengths: Integers) -> Iterator[tuple[int, int]]:
    """Cut words into stretches of about ``_BLOCK_SYMBOLS`` symbols; yields each stretch's start and end."""
    numbers = np.cumsum(lengths) // _BLOCK_SYMBOLS
    ends = [*np.flatnonzero(np.diff(numbers)) + 1, len(lengths)]
    yield from itertools.pairwise([0, *map(int, ends)])


class _PairTable:
    """A map from pairs of numbers to values, looked up as arrays."""

    def __init__(self, pairs: dict[tuple[int, int], int], width: int, missing: int) -> None:
        """``width`` exceeds every second number; ``missing`` is the value of pairs that are not in the map."""
        keys = np.array([left * width + right for left, right in pairs], dtype=np.int64)
        order = np.argsort(keys)
        # A sentinel key, so that every search ends at a key.
        self._keys = np.append(keys[order], np.iinfo(np.int64).max)
        self._values = np.append(np.array(list(pairs.values()), dtype=np.int32)[order], np.int32(missing))
        self._width, self._missing = width, np.int32(missing)

    def look_up(self, left: Ids, right: Ids) -> Ids:
        keys = left.astype(np.int64) * self._width + right
        places = np.searchsorted(self._keys, keys)
        found: Ids = np.where(self._keys[places] == keys, self._values[places], self._missing)
        return found


class _Merges:
    """BPE-dropout (algorithm 1 of the paper).

    At each step, every possible merge is dropped with some probability. Of the rest, the merge that was learnt first is
    applied. A word is done when no merge is left. A word of more than :data:`_LONGEST_WORD` symbols is cut into parts.
    """

    def __init__(self, normal: dict[str, int], scores: NDArray[np.float64]) -> None:
        ordered = sorted(normal.items(), key=lambda item: -scores[item[1]])
        self._merged = np.array([index for _, index in ordered], dtype=np.int32)
        # As in SentencePiece, two pieces can merge if their joined text is a piece.
        pairs = {
            (normal[piece[:cut]], normal[piece[cut:]]): rank
            for rank, (piece, _) in enumerate(ordered)
            for cut in range(1, len(piece))
            if piece[:cut] in normal and piece[cut:] in normal
        }
        self._ranks = _PairTable(pairs, len(scores), missing=_NEVER)

    def segment(
        self, symbols: Ids, lengths: Integers, dropout: float, random: np.random.Generator
    ) -> tuple[Ids, Integers]:
        """The pieces of all words, concatenated, and the number of pieces of each word."""
        parts = -(-lengths // _LONGEST_WORD)
        part_lengths = np.full(int(parts.sum()), _LONGEST_WORD)
        part_lengths[parts.cumsum() - 1] = lengths - (parts - 1) * _LONGEST_WORD
        flat, counts = self._segment_parts(symbols, part_lengths, dropout, random)
        return flat, np.add.reduceat(counts, starts_of(parts))

    def _segment_parts(
        self, symbols: Ids, lengths: Integers, dropout: float, random: np.random.Generator
    ) -> tuple[Ids, Integers]:
        starts, widest = starts_of(lengths), int(lengths.max())
        done: list[tuple[Integers, Ids]] = []
        # Every step merges one pair in every unfinished word, so all unfinished words have the same number of symbols.
        # Words of that length join them.
        words, ids = np.zeros(0, np.int64), np.zeros((0, widest), np.int32)
        ranks = np.zeros((0, widest - 1), np.int32)
        for width in range(widest, 0, -1):
            joining = np.flatnonzero(lengths == width)
            their_ids = symbols[starts[joining, None] + np.arange(width)]
            words, ids = np.concatenate([words, joining]), np.concatenate([ids, their_ids])
            ranks = np.concatenate([ranks, self._ranks.look_up(their_ids[:, :-1], their_ids[:, 1:])])
            if width == 1:
                done.append((words, ids))
                break
            offered = np.where(random.random(ranks.shape, dtype=np.float32) < dropout, _NEVER, ranks)
            best = offered.argmin(axis=1)
            rank = offered[np.arange(len(best)), best]
            is_done = rank == _NEVER
            done.append((words[is_done], ids[is_done]))
            is_open = ~is_done
            words, best = words[is_open], best[is_open]
            ids, ranks = self._merge(ids[is_open], ranks[is_open], best, self._merged[rank[is_open]])

        counts = np.empty(len(lengths), np.int64)
        for finished, pieces in done:
            counts[finished] = pieces.shape[1]
        flat, places = np.empty(int(counts.sum()), np.int32), starts_of(counts)
        for finished, pieces in done:
            flat[places[finished, None] + np.arange(pieces.shape[1])] = pieces
        return flat, counts

    def _merge(self, ids: Ids, ranks: Ids, at: Integers, merged: Ids) -> tuple[Ids, Ids]:
        """Merge the pair at position ``at`` of each row; returns the rows and the ranks of their pairs."""
        rows, width = np.arange(len(ids)), ids.shape[1]
        ids[rows, at] = merged
        is_kept = np.ones(ids.shape, bool)
        is_kept[rows, at + 1] = False
        ids = ids[is_kept].reshape(len(ids), width - 1)
        is_kept = np.ones(ranks.shape, bool)
        is_kept[rows, at] = False
        ranks = ranks[is_kept].reshape(len(ids), width - 2)
        # Update the pairs on both sides of the new piece.
        for has_pair, left in ((at > 0, at - 1), (at < width - 2, at)):
            row, column = rows[has_pair], left[has_pair]
            ranks[row, column] = self._ranks.look_up(ids[row, column], ids[row, column + 1])
        return ids, ranks


class _Lattice:
    """Unigram sampling: draws from all segmentations with their probabilities to the power α.

    Forward filtering and backward sampling, as in Kudo 2018, section 3.2.
    """

    def __init__(self, symbols: Mapping[int, list[int]], scores: NDArray[np.float64]) -> None:
        """``symbols``: those of each piece."""
        self._scores = scores
        # The trie of all pieces: a map from a node and a symbol to the next node.
        nodes: dict[tuple[int, int], int] = {}
        pieces = [-1]
        for index, ids in symbols.items():
            node = 0
            for symbol in ids:
                following = nodes.setdefault((node, symbol), len(pieces))
                if following == len(pieces):
                    pieces.append(-1)
                node = following
            pieces[node] = index
        self._nodes = _PairTable(nodes, len(scores), missing=-1)
        self._pieces = np.array([*pieces, -1], dtype=np.int32)
        """The piece that ends at each node, or -1. The last entry is for index -1: no node."""
        self._longest = max(map(len, symbols.values()))

    def segment(
        self, symbols: Ids, lengths: Integers, alpha: float, random: np.random.Generator
    ) -> tuple[Ids, Integers]:
        """The pieces of all words, concatenated, and the number of pieces of each word."""
        starts, counts = starts_of(lengths), np.empty(len(lengths), np.int64)
        drawn: list[tuple[Integers, Ids]] = []
        for width in np.unique(lengths):
            words = np.flatnonzero(lengths == width)
            pieces = self._draw(symbols[starts[words, None] + np.arange(width)], alpha, random)
            counts[words] = np.count_nonzero(pieces >= 0, axis=1)
            drawn.append((words, pieces))
        flat, places = np.empty(int(counts.sum()), np.int32), starts_of(counts)
        for words, pieces in drawn:
            # Padding is on the left, so a word's pieces end at the end of its row.
            columns = np.arange(pieces.shape[1]) - (pieces.shape[1] - counts[words, None])
            flat[(places[words, None] + columns)[pieces >= 0]] = pieces[pieces >= 0]
        return flat, counts

    def _draw(self, symbols: Ids, alpha: float, random: np.random.Generator) -> Ids:
        """Draw the pieces of words of equal width; rows are padded on the left with -1."""
        words, width = symbols.shape
        longest = min(self._longest, width)
        # pieces[word, end, n]: the piece of n + 1 symbols whose last symbol is ``end``; -1 if there is none.
        pieces = np.full((words, width, longest), -1, np.int32)
        nodes = np.zeros_like(symbols)
        for length in range(1, longest + 1):
            nodes = self._nodes.look_up(nodes[:, : width - length + 1], symbols[:, length - 1 :])
            pieces[:, length - 1 :, length - 1] = self._pieces[nodes]
        log_weights = np.where(pieces >= 0, alpha * self._scores[pieces], -np.inf)
        # totals[word, end]: log of the summed weights of all segmentations of the first ``end`` symbols.
        totals = np.zeros((words, width + 1))
        for end in range(1, width + 1):
            lengths = np.arange(1, min(longest, end) + 1)
            log_weights[:, end - 1, lengths - 1] += totals[:, end - lengths]
            totals[:, end] = np.logaddexp.reduce(log_weights[:, end - 1, lengths - 1], axis=1)

        out = np.full((words, width), -1, np.int32)
        rows, ends = np.arange(words), np.full(words, width)
        for column in range(width - 1, -1, -1):
            shares = np.exp(log_weights[rows, ends - 1] - totals[rows, ends, None]).cumsum(axis=1)
            # The random number is scaled by the last sum, which may not be exactly 1, so that a piece is always chosen.
            chosen = np.argmax(shares > random.random(len(rows))[:, None] * shares[:, -1:], axis=1)
            out[rows, column] = pieces[rows, ends - 1, chosen]
            ends = ends - chosen - 1
            rows, ends = rows[ends > 0], ends[ends > 0]
            if len(rows) == 0:
                break
        return out
