"""Which source piece each target piece comes from, learnt from the pairs alone.

Two hidden Markov models (Vogel et al. 1996, "HMM-based word alignment in statistical translation"), one for each
direction, are estimated together: each counts where both agree (Liang et al. 2006, "Alignment by agreement"). The
probabilities of translations are estimated by variational Bayes with a prior that prefers few translations (Dyer et al.
2013, fast_align). The first rounds ignore positions (IBM model 1), since positions mislead before anything is known.

Shapes: B pairs of T target pieces each, S source pieces (padded). A cell is a place in one of their grids (B, T, S).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.data.arrays import Indices, starts_of
from nmt.data.encoding import map_ahead
from nmt.data.shard_index import SIDES
from nmt.data.shards import ParallelShards

MOST_ALIGNED = 65_535
"""The maximum pieces of an aligned source: alignments are numbers of 16 bits."""
_Numbers = NDArray[np.float32]
_ROUNDS_WITHOUT_POSITIONS, _ROUNDS = 4, 8
_SAMPLED_CELLS = 1 << 27
"""The models are estimated on pairs of so many cells, spread evenly; each takes 4 bytes."""
_LONGEST_SAMPLED = 100
"""Pairs with a side of more pieces are not sampled, unless most are longer."""
_BATCH_CELLS = 1 << 18
_BATCHES_AT_ONCE = 64
_FROM_NOTHING = 0.2
"""The prior probability that a piece comes from no piece of the other side."""
_CONCENTRATION = 0.1
"""Of the Dirichlet prior of translations; with less, rare pieces attract links that are not theirs."""
_UNSEEN = 1e-9
"""The probability of a translation that is not in the sample, and the least of those that are."""
_LONGEST_JUMP = 10
"""Longer jumps are as probable as this one."""
_AGREED = 0.2
"""The least product of both directions' probabilities of a link."""


class _Batch(NamedTuple):
    """Pairs with the same numbers of pieces."""

    pairs: Indices
    source_BS: NDArray[np.int64]
    target_BT: NDArray[np.int64]


class _Counts(NamedTuple):
    """How often a direction generates what, and jumps how far, in a batch."""

    links_BTS: _Numbers
    jumps: NDArray[np.float64]


@dataclass
class _Direction:
    """The hidden Markov model of one direction: pieces of one side generate those of the other."""

    translations: _Numbers
    """The probability of each known translation, then that of others."""
    nothing: _Numbers
    """The probability of each piece that nothing generates."""
    jumps: NDArray[np.float64] | None = None
    """The weight of each jump from ``-_LONGEST_JUMP`` on; None if positions are ignored."""

    def counts(self, translation_BTS: Indices, piece_BT: Indices) -> _Counts:
        """The expected counts of a batch.

        Args:
            translation_BTS: the numbers of the translations of the generated pieces T by the pieces S.
            piece_BT: the generated pieces.
        """
        emission_BTS, nothing_BT = self.translations[translation_BTS], self.nothing[piece_BT]
        if self.jumps is not None:
            return _forward_backward(self.jumps, emission_BTS, nothing_BT)
        share_BT = nothing_BT * (emission_BTS.shape[2] * _FROM_NOTHING / (1 - _FROM_NOTHING))
        return _Counts(
            emission_BTS / (emission_BTS.sum(axis=2) + share_BT)[:, :, None], np.zeros(2 * _LONGEST_JUMP + 1)
        )


def _forward_backward(jumps: NDArray[np.float64], emission_BTS: _Numbers, nothing_BT: _Numbers) -> _Counts:
    """The counts of a direction that jumps. A piece from nothing leaves the place where it is (Och and Ney 2003)."""
    pairs, length, places = emission_BTS.shape
    distance_SS = (np.arange(places) - np.arange(places)[:, None]).clip(-_LONGEST_JUMP, _LONGEST_JUMP) + _LONGEST_JUMP
    jump_SS = jumps[distance_SS]
    jump_SS = (jump_SS * ((1 - _FROM_NOTHING) / jump_SS.sum(axis=1, keepdims=True))).astype(np.float32)
    nothing_TB1 = _FROM_NOTHING * nothing_BT.T[:, :, None]
    emission_TBS = np.ascontiguousarray(emission_BTS.transpose(1, 0, 2))
    links_TBS, before_TBS = np.empty_like(emission_TBS), np.empty_like(emission_TBS)
    scales_TB1 = np.empty((length, pairs, 1), np.float32)
    place_BS = np.full((pairs, places), 1 / places, np.float32)
    for step in range(length):
        before_TBS[step] = place_BS
        jumped_BS = place_BS @ jump_SS if step else place_BS * (1 - _FROM_NOTHING)
        links_TBS[step] = jumped_BS * emission_TBS[step]
        place_BS = links_TBS[step] + place_BS * nothing_TB1[step]
        scales_TB1[step] = place_BS.sum(axis=1, keepdims=True)
        place_BS /= scales_TB1[step]
    jumped_SS = np.zeros((places, places), np.float32)
    after_BS = np.ones((pairs, places), np.float32)
    for step in reversed(range(length)):
        after_BS /= scales_TB1[step]
        links_TBS[step] *= after_BS
        arrived_BS = emission_TBS[step] * after_BS
        if step:
            jumped_SS += before_TBS[step].T @ arrived_BS
        after_BS = arrived_BS @ jump_SS.T + nothing_TB1[step] * after_BS
    counted = np.bincount(distance_SS.ravel(), (jumped_SS * jump_SS).ravel(), len(jumps))
    return _Counts(links_TBS.transpose(1, 0, 2), counted.astype(np.float64))


def align(shards: ParallelShards, *, threads: int = 1) -> NDArray[np.uint16]:
    """For each target piece, pair after pair, the number of the source piece that it comes from; 0 for none."""
    aligner = _Aligner.estimated(shards, threads)
    starts = starts_of(shards.target_lengths)
    found = np.zeros(int(shards.target_lengths.sum(dtype=np.int64)), np.uint16)
    batches = _batches(shards, np.arange(len(shards)))
    for pairs, agreed_BTS in map_ahead(lambda batch: (batch.pairs, aligner.agreed(batch)), batches, threads):
        number_BT, is_sure_BT = agreed_BTS.argmax(axis=2) + 1, agreed_BTS.max(axis=2) >= _AGREED
        found[starts[pairs][:, None] + np.arange(number_BT.shape[1])] = number_BT * is_sure_BT
    return found


class _Aligner:
    """Both directions, which share the translations that they know."""

    def __init__(self, known: NDArray[np.int64], pieces: int) -> None:
        """Begin with translations that are all as probable.

        Args:
            known: the keys of the translations, sorted: source piece · pieces + target piece.
            pieces: the size of the vocabulary.
        """
        self._known, self._pieces = known, pieces
        even = np.ones(len(known) + 1, np.float32), np.ones(pieces, np.float32)
        self._forward, self._backward = _Direction(*even), _Direction(*even)

    @staticmethod
    def estimated(shards: ParallelShards, threads: int) -> _Aligner:
        """Estimate both directions on a sample of the pairs."""
        batches = list(_batches(shards, _sample(shards)))
        pieces = shards.index.vocab_size
        known = np.zeros(0, np.int64)
        for start in range(0, len(batches), _BATCHES_AT_ONCE):
            some = (_keys(batch, pieces).ravel() for batch in batches[start : start + _BATCHES_AT_ONCE])
            known = np.sort(np.concatenate([known, *some]))  # np.unique takes ten times as long
            known = known[np.diff(known, prepend=-1) > 0]
        aligner = _Aligner(known, pieces)
        numbered = [(batch, aligner._translations(batch).astype(np.int32)) for batch in batches]
        for number in range(_ROUNDS):
            if number == _ROUNDS_WITHOUT_POSITIONS:
                aligner._forward.jumps = aligner._backward.jumps = np.ones(2 * _LONGEST_JUMP + 1)
            aligner._improve(numbered, threads)
        return aligner

    def agreed(self, batch: _Batch) -> _Numbers:
        """The products of both directions' probabilities of each link (B, T, S)."""
        forward, backward = self._counts(batch, self._translations(batch))
        return forward.links_BTS * backward.links_BTS.transpose(0, 2, 1)

    def _translations(self, batch: _Batch) -> NDArray[np.int64]:
        """The numbers of the translations (B, T, S); the last one for those that are not known."""
        keys_BTS = _keys(batch, self._pieces)
        numbers = np.searchsorted(self._known, keys_BTS)
        is_known = self._known[numbers.clip(max=len(self._known) - 1)] == keys_BTS
        return np.where(is_known, numbers, len(self._known))

    def _counts(self, batch: _Batch, translations_BTS: Indices) -> tuple[_Counts, _Counts]:
        return (
            self._forward.counts(translations_BTS, batch.target_BT),
            self._backward.counts(translations_BTS.transpose(0, 2, 1), batch.source_BS),
        )

    def _improve(self, numbered: Sequence[tuple[_Batch, Indices]], threads: int) -> None:
        """A round of expectation and maximisation."""
        forward, backward = (_Sums.zero(len(self._known) + 1, self._pieces) for _ in range(2))
        for batch, translations_BTS, counts in map_ahead(lambda each: (*each, self._counts(*each)), numbered, threads):
            links_BTS, links_BST = (each.links_BTS for each in counts)
            if self._forward.jumps is not None:
                links_BTS = np.sqrt(links_BTS * links_BST.transpose(0, 2, 1))
                links_BST = links_BTS.transpose(0, 2, 1)
            forward.add(translations_BTS, links_BTS, batch.target_BT, counts[0])
            backward.add(translations_BTS.transpose(0, 2, 1), links_BST, batch.source_BS, counts[1])
        source, target = np.divmod(self._known, self._pieces)
        self._forward = forward.direction(source, has_jumps=self._forward.jumps is not None)
        self._backward = backward.direction(target, has_jumps=self._backward.jumps is not None)


@dataclass
class _Sums:
    """Expected counts of all batches, for one direction."""

    translations: NDArray[np.float64]
    nothing: NDArray[np.float64]
    jumps: NDArray[np.float64]

    @staticmethod
    def zero(translations: int, pieces: int) -> _Sums:
        """No counts."""
        return _Sums(np.zeros(translations), np.zeros(pieces), np.zeros(2 * _LONGEST_JUMP + 1))

    def add(self, translations_BTS: Indices, links_BTS: _Numbers, piece_BT: Indices, counts: _Counts) -> None:
        """Add those of a batch; translations are counted by ``links_BTS``."""
        # With numbers of another type, the additions take five times as long.
        np.add.at(self.translations, translations_BTS.ravel(), links_BTS.ravel().astype(np.float64))
        nothing_BT = 1 - counts.links_BTS.sum(axis=2, dtype=np.float64)
        np.add.at(self.nothing, piece_BT.ravel(), nothing_BT.ravel())
        self.jumps += counts.jumps

    def direction(self, generating: Indices, *, has_jumps: bool) -> _Direction:
        """The most probable model.

        Args:
            generating: the generating piece of each known translation.
        """
        counts = self.translations[:-1] + _CONCENTRATION
        totals = np.bincount(generating, counts).astype(np.float64)[generating]
        translations = np.exp(_digamma(counts) - _digamma(totals))
        nothing = self.nothing + _CONCENTRATION
        return _Direction(
            # What is almost 0 is too small for float32, which computes such numbers many times as slowly.
            np.append(translations, _UNSEEN).clip(min=_UNSEEN).astype(np.float32),
            (nothing / nothing.sum()).astype(np.float32),
            self.jumps + 1 if has_jumps else None,
        )


def _digamma(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The derivative of log Γ, for positive numbers: six steps of its recurrence, then its asymptotic series."""
    shifted = x + 6
    series = np.log(shifted) - 1 / (2 * shifted) - 1 / (12 * shifted**2) + 1 / (120 * shifted**4)
    return series - sum(1 / (x + step) for step in range(6))


def _keys(batch: _Batch, pieces: int) -> NDArray[np.int64]:
    """Each cell's pair of pieces as one number (B, T, S)."""
    return batch.source_BS[:, None, :] * pieces + batch.target_BT[:, :, None]


def _batches(shards: ParallelShards, pairs: Indices) -> Iterator[_Batch]:
    """Pairs by their numbers of pieces, without those that lack a side."""
    lengths = shards.source_lengths[pairs], shards.target_lengths[pairs]
    pairs = pairs[np.lexsort(lengths)]
    source, target = shards.source_lengths[pairs], shards.target_lengths[pairs]
    ends = np.flatnonzero(np.diff(source) | np.diff(target)) + 1
    for start, end in zip([0, *ends], [*ends, len(pairs)], strict=True):
        if start == end or not (cells := int(source[start]) * int(target[start])):
            continue
        for chosen in np.split(pairs[start:end], range(step := max(1, _BATCH_CELLS // cells), end - start, step)):
            sides = (shards.tokens(side, chosen).astype(np.int64).reshape(len(chosen), -1) for side in SIDES)
            yield _Batch(chosen, *sides)


def _sample(shards: ParallelShards) -> Indices:
    """Pairs to estimate models on, spread evenly."""
    lengths = shards.source_lengths, shards.target_lengths
    longer = np.maximum(*lengths)
    # Without any sample, nothing would be known of text whose pairs are all long.
    pairs = np.flatnonzero(longer <= max(_LONGEST_SAMPLED, np.median(longer) if len(longer) else 0))
    cells = int(np.multiply(*(each[pairs].astype(np.int64) for each in lengths)).sum())
    return pairs[:: max(1, -(-cells // _SAMPLED_CELLS))]
