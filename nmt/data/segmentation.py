"""Random segmentations of a text into pieces: subword regularisation.

BPE-dropout (Provilkov et al. 2020) for BPE models; for unigram models, segmentations drawn by their probability (Kudo
2018). SentencePiece draws them too, but mixes what the system's entropy source gives into every seed (0.2.3 does), so
that no seed gives the same pieces in two processes, and a run could not be repeated. Here all that is random comes from
the generator that the caller gives, and many words are segmented at once, array by array.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from sentencepiece import SentencePieceProcessor

from nmt.data.arrays import gather_rows, starts_of

_SPACE = "▁"
_NEVER = np.iinfo(np.int32).max
_BLOCK_SYMBOLS = 1 << 18
"""Segmented at once, about: bounds the memory, and keeps the arrays near the processor."""

Ids = NDArray[np.int32]
Integers = NDArray[np.int64]


class SegmentationSampler:
    """Draws segmentations into the pieces of one SentencePiece model.

    Works on *symbols*, the ids of single characters. What cannot be taken apart (unknown characters, bytes, pieces with
    a character that is no piece itself) is a symbol of its own, which merges with nothing.
    """

    def __init__(self, processor: SentencePieceProcessor) -> None:
        size = processor.get_piece_size()
        pieces: list[str] = processor.id_to_piece(list(range(size)))
        normal = {
            piece: index
            for index, piece in enumerate(pieces)
            if not (
                processor.is_unknown(index)
                or processor.is_control(index)
                or processor.is_unused(index)
                or processor.is_byte(index)
            )
        }
        symbols = [
            [normal[character] for character in piece]
            if piece in normal and all(character in normal for character in piece)
            else [index]
            for index, piece in enumerate(pieces)
        ]
        self._symbols = np.array(list(itertools.chain.from_iterable(symbols)), dtype=np.int32)
        self._symbol_counts = np.array([len(ids) for ids in symbols], dtype=np.int64)
        self._symbol_starts = starts_of(self._symbol_counts)
        # A word is what no piece reaches beyond. Where pieces may span spaces, that is the whole line.
        spanning = any(_SPACE in piece.lstrip(_SPACE) for piece in normal)
        self._begins_word = np.array([piece.startswith(_SPACE) and not spanning for piece in pieces])
        scores = np.array([processor.get_score(index) for index in range(size)])
        # SentencePiece does not tell the type of its model. In BPE a score is the place in the order of the merges,
        # negated; in a unigram model it is a log-probability.
        is_bpe = all(float(scores[index]).is_integer() for index in normal.values())
        self._model: _Merges | _Lattice = _Merges(normal, scores) if is_bpe else _Lattice(symbols, scores)

    def sample(self, encoded: Sequence[Sequence[int]], amount: float, random: np.random.Generator) -> list[list[int]]:
        """Segment lines anew.

        Args:
            encoded: the ids of each line's pieces, in any segmentation.
            amount: probability that a merge is dropped, of a BPE model; of a unigram model the exponent (α) that the
                probabilities of segmentations are raised to.
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
    """Stretches of words of about so many symbols together."""
    numbers = np.cumsum(lengths) // _BLOCK_SYMBOLS
    ends = [*np.flatnonzero(np.diff(numbers)) + 1, len(lengths)]
    yield from itertools.pairwise([0, *map(int, ends)])


class _PairTable:
    """A value for each of some pairs of numbers."""

    def __init__(self, pairs: dict[tuple[int, int], int], width: int, missing: int) -> None:
        """``width`` is more than any second number; ``missing`` the value of other pairs."""
        keys = np.array([left * width + right for left, right in pairs], dtype=np.int64)
        order = np.argsort(keys)
        # One key more that no pair has, so that a search always ends at a key.
        self._keys = np.append(keys[order], np.iinfo(np.int64).max)
        self._values = np.append(np.array(list(pairs.values()), dtype=np.int32)[order], np.int32(missing))
        self._width, self._missing = width, np.int32(missing)

    def look_up(self, left: Ids, right: Ids) -> Ids:
        keys = left.astype(np.int64) * self._width + right
        places = np.searchsorted(self._keys, keys)
        found: Ids = np.where(self._keys[places] == keys, self._values[places], self._missing)
        return found


class _Merges:
    """BPE-dropout: at each step every possible merge is dropped with some probability, and the first of those that are
    left, in the order in which they were learnt, is made; a word is done when none is left (algorithm 1 of the paper).
    """

    def __init__(self, normal: dict[str, int], scores: NDArray[np.float64]) -> None:
        ordered = sorted(normal.items(), key=lambda item: -scores[item[1]])
        self._merged = np.array([index for _, index in ordered], dtype=np.int32)
        # As SentencePiece does, any two pieces merge whose text together is a piece.
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
        """The pieces of all words, one word after the other, and the number of each word's."""
        starts, widest = starts_of(lengths), int(lengths.max())
        done: list[tuple[Integers, Ids]] = []
        # Every step merges one pair of every word that is not done, so all that are under way are equally wide, and
        # words of that width join them.
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
            goes_on = ~is_done
            words, best = words[goes_on], best[goes_on]
            ids, ranks = self._merge(ids[goes_on], ranks[goes_on], best, self._merged[rank[goes_on]])

        counts = np.empty(len(lengths), np.int64)
        for finished, pieces in done:
            counts[finished] = pieces.shape[1]
        flat, places = np.empty(int(counts.sum()), np.int32), starts_of(counts)
        for finished, pieces in done:
            flat[places[finished, None] + np.arange(pieces.shape[1])] = pieces
        return flat, counts

    def _merge(self, ids: Ids, ranks: Ids, at: Integers, merged: Ids) -> tuple[Ids, Ids]:
        """Each row with the pair at its place made one, and the ranks of its pairs."""
        rows, width = np.arange(len(ids)), ids.shape[1]
        ids[rows, at] = merged
        is_kept = np.ones(ids.shape, bool)
        is_kept[rows, at + 1] = False
        ids = ids[is_kept].reshape(len(ids), width - 1)
        is_kept = np.ones(ranks.shape, bool)
        is_kept[rows, at] = False
        ranks = ranks[is_kept].reshape(len(ids), width - 2)
        # The pairs on either side of the new piece.
        for has_pair, left in ((at > 0, at - 1), (at < width - 2, at)):
            row, column = rows[has_pair], left[has_pair]
            ranks[row, column] = self._ranks.look_up(ids[row, column], ids[row, column + 1])
        return ids, ranks


class _Lattice:
    """Unigram sampling: a segmentation is drawn with its probability to the power α, over all that there are, by
    summing forwards and drawing backwards (Kudo 2018, section 3.2)."""

    def __init__(self, symbols: list[list[int]], scores: NDArray[np.float64]) -> None:
        self._scores = scores
        # All beginnings of pieces, as a tree: from a node and a symbol to the next node.
        nodes: dict[tuple[int, int], int] = {}
        pieces = [-1]
        for index, ids in enumerate(symbols):
            node = 0
            for symbol in ids:
                following = nodes.setdefault((node, symbol), len(pieces))
                if following == len(pieces):
                    pieces.append(-1)
                node = following
            pieces[node] = index
        self._nodes = _PairTable(nodes, len(scores), missing=-1)
        self._pieces = np.array([*pieces, -1], dtype=np.int32)
        """Of each node, or -1; so is the last, which stands for no node."""
        self._longest = max(map(len, symbols))

    def segment(
        self, symbols: Ids, lengths: Integers, alpha: float, random: np.random.Generator
    ) -> tuple[Ids, Integers]:
        """The pieces of all words, one word after the other, and the number of each word's."""
        starts, counts = starts_of(lengths), np.empty(len(lengths), np.int64)
        drawn: list[tuple[Integers, Ids]] = []
        for width in np.unique(lengths):
            words = np.flatnonzero(lengths == width)
            pieces = self._draw(symbols[starts[words, None] + np.arange(width)], alpha, random)
            counts[words] = np.count_nonzero(pieces >= 0, axis=1)
            drawn.append((words, pieces))
        flat, places = np.empty(int(counts.sum()), np.int32), starts_of(counts)
        for words, pieces in drawn:
            # Padding is on the left, so that a word's pieces end where its row does.
            columns = np.arange(pieces.shape[1]) - (pieces.shape[1] - counts[words, None])
            flat[(places[words, None] + columns)[pieces >= 0]] = pieces[pieces >= 0]
        return flat, counts

    def _draw(self, symbols: Ids, alpha: float, random: np.random.Generator) -> Ids:
        """Pieces of words of one width, padded on the left with -1."""
        words, width = symbols.shape
        longest = min(self._longest, width)
        # The piece that ends behind a symbol and holds so many symbols, less one; -1 where there is none.
        pieces = np.full((words, width, longest), -1, np.int32)
        nodes = np.zeros_like(symbols)
        for length in range(1, longest + 1):
            nodes = self._nodes.look_up(nodes[:, : width - length + 1], symbols[:, length - 1 :])
            pieces[:, length - 1 :, length - 1] = self._pieces[nodes]
        log_weights = np.where(pieces >= 0, alpha * self._scores[pieces], -np.inf)
        # The sum over all segmentations of the first so many symbols, with each last piece.
        totals = np.zeros((words, width + 1))
        for end in range(1, width + 1):
            lengths = np.arange(1, min(longest, end) + 1)
            log_weights[:, end - 1, lengths - 1] += totals[:, end - lengths]
            totals[:, end] = np.logaddexp.reduce(log_weights[:, end - 1, lengths - 1], axis=1)

        out = np.full((words, width), -1, np.int32)
        rows, ends = np.arange(words), np.full(words, width)
        for column in range(width - 1, -1, -1):
            shares = np.exp(log_weights[rows, ends - 1] - totals[rows, ends, None]).cumsum(axis=1)
            # Drawn below the last sum, which need not be 1 to the last digit, so that a piece is always hit.
            chosen = np.argmax(shares > random.random(len(rows))[:, None] * shares[:, -1:], axis=1)
            out[rows, column] = pieces[rows, ends - 1, chosen]
            ends = ends - chosen - 1
            rows, ends = rows[ends > 0], ends[ends > 0]
            if len(rows) == 0:
                break
        return out
