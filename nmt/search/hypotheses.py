"""The hypotheses of a batch as the host knows them: what was found, and which sentences are finished.

A search computes on a device, and the host looks at what its steps chose.

Shapes: B sentences, W places of the beam (live or empty), T pieces so far.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nmt.errors import NmtError
from nmt.search.settings import Normalization, SearchSettings
from nmt.special_ids import EOS


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation."""

    pieces: tuple[int, ...]
    """The ids of the pieces, without eos."""
    log_probability: float
    """The log-probability of the pieces and eos, in nats."""
    score: float
    """The log-probability divided by the length penalty. Hypotheses are ranked by their scores."""


def length_penalty(length: int, alpha: float, normalization: Normalization = "paper") -> float:
    """The length penalty: lp(Y) = ((5 + |Y|) / 6)^alpha, or |Y|^alpha, where |Y| counts eos."""
    return float((length if normalization == "length" else (5 + length) / 6) ** alpha)


@dataclass
class Hypotheses:
    """The finished hypotheses of all sentences, and the pieces of the live ones."""

    settings: SearchSettings
    limits: list[int]
    """The maximum number of pieces of an output, per unfinished sentence."""
    prefixes: Sequence[Sequence[int]]
    """The pieces that outputs must begin with, by sentence of the whole batch."""
    pieces_BWT: NDArray[np.int64]
    """The pieces of each hypothesis of the unfinished sentences."""
    sentences: list[int]
    """The index in the whole batch of each unfinished sentence (B)."""
    finished: list[list[Hypothesis]] = field(default_factory=list)
    """Finished hypotheses, by sentence of the whole batch."""
    longest_prefix: int = 0
    """The pieces of the longest prefix."""

    @staticmethod
    def begin(
        settings: SearchSettings,
        source_lengths: Sequence[int],
        prefixes: Sequence[Sequence[int]] | None,
        *,
        max_positions: int,
        places: int,
    ) -> Hypotheses:
        """Nothing is written yet.

        Args:
            source_lengths: pieces of each source, with eos.
            max_positions: the minimum over the models.
            places: hypotheses per sentence before the first step.
        """
        count, longest = len(source_lengths), max_positions - 1
        if settings.max_length is not None:
            longest = min(longest, settings.max_length)
        limits = [min(length - 1 + settings.max_extra_length, longest) for length in source_lengths]
        if prefixes is not None:
            limits = [max(limit, len(prefix)) for limit, prefix in zip(limits, prefixes, strict=True)]
        return Hypotheses(
            settings,
            limits,
            prefixes=prefixes if prefixes is not None else [()] * count,
            pieces_BWT=np.empty((count, places, 0), dtype=np.int64),
            sentences=list(range(count)),
            finished=[[] for _ in range(count)],
            longest_prefix=max(map(len, prefixes or ()), default=0),
        )

    @property
    def length(self) -> int:
        """Pieces of each live hypothesis."""
        length: int = self.pieces_BWT.shape[2]
        return length

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
            steps: of each step log-probabilities, parents and pieces (3, B, W).
        """
        best_live: list[float] = []
        for best, parents, tokens in steps:
            best_live = self._record(best, parents.astype(np.int64), tokens.astype(np.int64))
        return [row for row, best in enumerate(best_live) if self._may_improve(row, best)]

    def keep(self, rows: Sequence[int]) -> None:
        """The sentences of the other rows are finished."""
        self.sentences = [self.sentences[row] for row in rows]
        self.limits = [self.limits[row] for row in rows]
        self.pieces_BWT = self.pieces_BWT[rows]

    def ranked(self) -> list[list[Hypothesis]]:
        """The ``nbest`` hypotheses of each sentence of the whole batch, best first."""
        return [
            sorted(found, key=lambda hypothesis: -hypothesis.score)[: self.settings.nbest] for found in self.finished
        ]

    def _record(self, best: NDArray[np.float64], parents: NDArray[np.int64], tokens: NDArray[np.int64]) -> list[float]:
        """Record the extensions and finished hypotheses of a step; return the best live log-probability of each row.

        A row may have been finished in an earlier step. What it finds after that is worse than what it returns.
        """
        if np.isnan(best).any():
            raise NmtError(
                "the model's outputs are not finite: its training has diverged, or --precision is too low for it. "
                "Use another checkpoint, or --precision fp32."
            )
        followed = np.take_along_axis(self.pieces_BWT, parents[:, :, None], axis=1)
        self.pieces_BWT = np.concatenate([followed, tokens[:, :, None]], axis=2)
        ended = (tokens == EOS) & (best > -np.inf)
        penalty = self._penalty(self.length)
        for row, place in zip(*ended.nonzero(), strict=True):
            log_probability, pieces = float(best[row, place]), tuple(followed[row, place].tolist())
            found = self.finished[self.sentences[row]]
            # Several groups may find the same output, which counts once. Equal samples all count.
            if self.settings.diverse_groups == 1 or all(pieces != hypothesis.pieces for hypothesis in found):
                found.append(Hypothesis(pieces, log_probability, log_probability / penalty))
        best_live: list[float] = np.where(ended, -np.inf, best).max(axis=1).tolist()
        return best_live

    def _may_improve(self, row: int, best_live: float) -> bool:
        """Whether a live hypothesis could still be returned. All samples are returned.

        Log-probabilities only fall, and the penalty is largest at the maximum length (eos included). So the score of a
        live hypothesis cannot exceed its current log-probability divided by that penalty.
        """
        if best_live == -math.inf:
            return False
        found = self.finished[self.sentences[row]]
        if len(found) < self.settings.nbest or self.settings.sampling is not None:
            return True
        bound = best_live / self._penalty(self.limits[row] + 1)
        return bound > sorted((hypothesis.score for hypothesis in found), reverse=True)[self.settings.nbest - 1]

    def _penalty(self, length: int) -> float:
        return length_penalty(length, self.settings.length_penalty, self.settings.normalization)
