"""The hypotheses of a batch as the host knows them: what was found, and which sentences are finished.

A search computes on a device, and the host looks at what its steps chose.

Shapes: B sentences, C extensions that a step keeps, live ones in their places of the beam.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.config.sections import Normalization
from nmt.errors import NmtError
from nmt.search.settings import SearchSettings
from nmt.special_ids import EOS


def length_penalty(length: int, alpha: float, normalization: Normalization = "paper") -> float:
    """The length penalty: lp(Y) = ((5 + |Y|) / 6)^alpha, or |Y|^alpha, where |Y| counts eos."""
    return float((length if normalization == "length" else (5 + length) / 6) ** alpha)


@dataclass(frozen=True)
class Hypothesis:
    """A translation with its score: one that a search found, or a given one."""

    pieces: tuple[int, ...]
    """The ids of the pieces, without eos."""
    log_probability: float
    """The log-probability of the pieces and eos, in nats."""
    score: float
    """The log-probability divided by the length penalty. Hypotheses are ranked by their scores."""
    piece_log_probabilities: tuple[float, ...] | None = None
    """The log-probability of each piece given the pieces before it, then that of eos; None for one that was found."""
    alignment: tuple[int | None, ...] | None = None
    """For each piece, the index from 0 of the source piece that it comes from; None stands for the source's eos. The
    attribute itself is None if not requested."""

    @staticmethod
    def scored(
        pieces: Sequence[int],
        piece_log_probabilities: Sequence[float],
        alpha: float,
        normalization: Normalization,
        attention_TS: NDArray[np.floating[Any]] | None = None,
    ) -> Hypothesis:
        """The hypothesis of given pieces, which with eos have these log-probabilities.

        Args:
            attention_TS: as of :func:`aligned`; None leaves it without an alignment.
        """
        total = math.fsum(piece_log_probabilities)
        penalty = length_penalty(len(piece_log_probabilities), alpha, normalization)
        alignment = None if attention_TS is None else aligned(attention_TS)
        return Hypothesis(tuple(pieces), total, total / penalty, tuple(piece_log_probabilities), alignment)


def aligned(attention_TS: NDArray[np.floating[Any]]) -> tuple[int | None, ...]:
    """The source piece that each target piece comes from: that of whose attention it has the largest share; None if it
    attends to eos most. Some source pieces get much attention from all target pieces, and say little about any of them.

    Args:
        attention_TS: the attention of each target piece, without eos, to each source piece and eos.
    """
    eos = attention_TS.shape[1] - 1
    share_TS = attention_TS / np.maximum(attention_TS.sum(axis=0), np.finfo(np.float32).tiny)
    share_TS[:, eos] = np.where(attention_TS.argmax(axis=1) == eos, np.inf, -np.inf)
    return tuple(None if index == eos else index for index in share_TS.argmax(axis=1).tolist())


def output_limits(
    settings: SearchSettings,
    source_lengths: Sequence[int],
    prefixes: Sequence[Sequence[int]],
    *,
    max_positions: int,
) -> list[int]:
    """The maximum pieces of each output, without eos.

    Args:
        source_lengths: pieces of each source, with eos.
        max_positions: the minimum over the models.
    """
    longest = max_positions - 1 if settings.max_length is None else min(max_positions - 1, settings.max_length)
    return [
        max(min(length - 1 + settings.max_extra_length, longest), len(prefix))
        for length, prefix in zip(source_lengths, prefixes, strict=True)
    ]


@dataclass(frozen=True)
class _Ended:
    """A finished hypothesis, before its pieces are traced back."""

    score: float
    log_probability: float
    length: int
    """The number of its pieces, without eos."""
    place: int
    """The place of its last piece in the beam of that step."""


@dataclass
class Hypotheses:
    """The finished hypotheses of all sentences, and how they were found."""

    settings: SearchSettings
    limits: list[int]
    """The maximum number of pieces of an output, per unfinished sentence."""
    prefixes: Sequence[Sequence[int]]
    """The pieces that outputs must begin with, by sentence of the whole batch."""
    sentences: list[int]
    """The index in the whole batch of each unfinished sentence (B)."""
    ended: list[list[_Ended]]
    """Finished hypotheses, by sentence of the whole batch."""
    scores: list[list[float]]
    """Their scores, in ascending order."""
    longest_prefix: int
    """The pieces of the longest prefix."""
    steps: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = field(default_factory=list)
    """Of each step the parents and the pieces, by sentence of the whole batch."""

    @staticmethod
    def begin(
        settings: SearchSettings,
        source_lengths: Sequence[int],
        prefixes: Sequence[Sequence[int]] | None,
        *,
        max_positions: int,
    ) -> Hypotheses:
        """Nothing is written yet.

        Args:
            source_lengths: pieces of each source, with eos.
            max_positions: the minimum over the models.
        """
        sentences = range(len(source_lengths))
        prefixes = prefixes if prefixes is not None else [()] * len(sentences)
        return Hypotheses(
            settings,
            output_limits(settings, source_lengths, prefixes, max_positions=max_positions),
            prefixes=prefixes,
            sentences=list(sentences),
            ended=[[] for _ in sentences],
            scores=[[] for _ in sentences],
            longest_prefix=max(map(len, prefixes), default=0),
        )

    def forced_pieces(self, begin: int, end: int) -> NDArray[np.int64]:
        """The only piece (B, end - begin) that may follow ``begin`` to ``end`` - 1 pieces: the prefix's, or eos at the
        limit; -1 where there are others."""
        is_over = np.arange(begin, end) >= np.array(self.limits, dtype=np.int64)[:, None]
        forced = np.where(is_over, EOS, -1)
        if begin < self.longest_prefix:
            for row, sentence in enumerate(self.sentences):
                pieces = self.prefixes[sentence][begin:end]
                forced[row, : len(pieces)] = pieces
        return forced

    def look(self, steps: Sequence[NDArray[np.float64]]) -> list[int]:
        """Record steps; return the rows of the sentences that are not finished.

        Args:
            steps: of each step log-probabilities, parents and pieces (3, B, C).
        """
        best_live: list[float] = []
        for best, parents, tokens in steps:
            best_live = self._record(best, parents.astype(np.int64), tokens.astype(np.int64))
        return [row for row, best in enumerate(best_live) if self._may_improve(row, best)]

    def keep(self, rows: Sequence[int]) -> None:
        """The sentences of the other rows are finished."""
        self.sentences = [self.sentences[row] for row in rows]
        self.limits = [self.limits[row] for row in rows]

    def ranked(self, limit: int | None) -> list[list[Hypothesis]]:
        """The finished hypotheses of each sentence of the whole batch, best first.

        Args:
            limit: their maximum number; None returns all.
        """
        best = [sorted(found, key=lambda ended: -ended.score)[:limit] for found in self.ended]
        pieces = iter(self._traced([(sentence, ended) for sentence, found in enumerate(best) for ended in found]))
        return [[Hypothesis(next(pieces), ended.log_probability, ended.score) for ended in found] for found in best]

    def _record(self, best: NDArray[np.float64], parents: NDArray[np.int64], tokens: NDArray[np.int64]) -> list[float]:
        """Record the extensions and finished hypotheses of a step; return the best live log-probability of each row.

        A row may have been finished in an earlier step. What it finds after that is worse than what it returns.
        """
        if np.isnan(best).any():
            raise NmtError(
                "the model's outputs are not finite: its training has diverged, or --precision is too low for it. "
                "Use another checkpoint, or --precision fp32."
            )
        by_sentence = np.zeros((2, len(self.ended), best.shape[1]), dtype=np.int64)
        by_sentence[:, self.sentences] = parents, tokens
        is_end = (tokens == EOS) & (best > -np.inf)
        length, penalty = len(self.steps), self._penalty(len(self.steps) + 1)
        for row, place in zip(*is_end.nonzero(), strict=True):
            sentence, log_probability = self.sentences[row], float(best[row, place])
            ended = _Ended(log_probability / penalty, log_probability, length, int(parents[row, place]))
            self.ended[sentence].append(ended)
            insort(self.scores[sentence], ended.score)
        self.steps.append((by_sentence[0], by_sentence[1]))
        best_live: list[float] = np.where(is_end, -np.inf, best).max(axis=1).tolist()
        return best_live

    def _traced(self, found: Sequence[tuple[int, _Ended]]) -> list[tuple[int, ...]]:
        """The pieces of finished hypotheses of some sentences, from the last to the first."""
        lengths, places = np.array([(ended.length, ended.place) for _, ended in found], dtype=np.int64).reshape(-1, 2).T
        sentences = np.array([sentence for sentence, _ in found], dtype=np.int64)
        pieces = np.zeros((len(found), lengths.max(initial=0)), dtype=np.int64)
        for step in reversed(range(pieces.shape[1])):
            rows = np.flatnonzero(lengths > step)
            parents, tokens = self.steps[step]
            pieces[rows, step] = tokens[sentences[rows], places[rows]]
            places[rows] = parents[sentences[rows], places[rows]]
        return [tuple(row[:length].tolist()) for row, length in zip(pieces, lengths, strict=True)]

    def _may_improve(self, row: int, best_live: float) -> bool:
        """Whether a live hypothesis could still be returned. All samples are returned.

        Log-probabilities only fall, and the penalty is largest at the maximum length (eos included). So the score of a
        live hypothesis cannot exceed its current log-probability divided by that penalty.
        """
        if best_live == -math.inf:
            return False
        scores = self.scores[self.sentences[row]]
        if len(scores) < self.settings.nbest or self.settings.sampling is not None:
            return True
        return best_live / self._penalty(self.limits[row] + 1) > scores[-self.settings.nbest]

    def _penalty(self, length: int) -> float:
        return length_penalty(length, self.settings.length_penalty, self.settings.length_normalization)
