"""Beam search with the length penalty of the paper (section 6.1; Wu et al. 2016, equation 14), one for every mode.

Shapes: B sentences, S source pieces, W live and empty places of the beam, N = B · W rows, V vocabulary, K extensions of
a hypothesis, X = W · K, T pieces so far.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from nmt.data.vocab import Vocabulary
from nmt.model.state import DecodingState
from nmt.model.transformer import Transformer

_BLOCK = 64

PAD, UNK, BOS, EOS = Vocabulary.PAD, Vocabulary.UNK, Vocabulary.BOS, Vocabulary.EOS


@dataclass(frozen=True)
class Sampling:
    """Outputs drawn piece by piece from what the model expects."""

    temperature: float = 1.0
    """Log-probabilities are divided by it: below 1 likely pieces become likelier."""
    top_k: int | None = None
    """Only the so many likeliest pieces may come."""
    top_p: float | None = None
    """Only the fewest likeliest pieces whose probabilities come to this (Holtzman et al. 2020)."""
    seed: int = 1


@dataclass(frozen=True)
class SearchSettings:
    """What to search for."""

    beam: int = 4
    length_penalty: float = 0.6
    """alpha of the penalty; 0 leaves scores as they are."""
    max_extra_length: int = 50
    """An output has at most as many pieces as its source, and so many more."""
    max_length: int | None = None
    """The most pieces of any output, where given."""
    min_length: int = 0
    """The fewest pieces of any output, as far as the limits allow."""
    nbest: int = 1
    """How many hypotheses to return; at most ``beam``."""
    allow_unk: bool = False
    normalization: Literal["paper", "length"] = "paper"
    """What scores are divided by: the paper's penalty, or the length to the power of alpha."""
    no_repeat_ngram: int = 0
    """No n-gram of so many pieces comes twice in an output; 0 allows all."""
    sampling: Sampling | None = None
    """Draw ``beam`` outputs instead of searching for the best."""


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation."""

    pieces: tuple[int, ...]
    """Without eos."""
    log_probability: float
    """Of the pieces and eos, in nats."""
    score: float
    """``log_probability`` over the length penalty: what hypotheses are ranked by."""


def length_penalty(length: int, alpha: float, normalization: Literal["paper", "length"] = "paper") -> float:
    """lp(Y) = ((5 + |Y|) / 6)^alpha, or |Y|^alpha, where |Y| counts eos."""
    return float((length if normalization == "length" else (5 + length) / 6) ** alpha)


def beam_search(models: Sequence[Transformer], source_BS: Tensor, settings: SearchSettings) -> list[list[Hypothesis]]:
    """Translate a batch of sentences.

    Each step extends every live hypothesis by every piece and keeps the best. A hypothesis that ends in eos is
    finished and leaves its place in the beam empty, so that a beam of 1 is greedy search for every alpha.

    Args:
        models: one, or several over the same vocabulary whose probabilities are averaged at each step.
        source_BS: pieces with eos, padded with 0 on the right.

    Returns:
        For each sentence its ``nbest`` hypotheses (fewer where the beam finished fewer), best first.
    """
    with torch.inference_mode():
        search = _Search.begin(models, source_BS, settings)
        while search.sentences:
            search.extend()
    return [sorted(found, key=lambda hypothesis: -hypothesis.score)[: settings.nbest] for found in search.finished]


@dataclass
class _Search:
    """The beams of the sentences that are still searched for.

    What the model needs lies on its device; which hypotheses have ended, and what they consist of, is kept on the
    host. The two exchange the beams' best extensions once a step.
    """

    models: Sequence[Transformer]
    settings: SearchSettings
    finished: list[list[Hypothesis]]
    """By sentence of the whole batch."""
    sentences: list[int]
    """Which sentence of the batch each row of B below is."""
    limits: list[int]
    """The most pieces that each of them may have."""
    states: list[DecodingState]
    tokens_BW: Tensor
    """The piece that each hypothesis was last extended by."""
    scores_BW: Tensor
    """Log-probability of each live hypothesis; -inf marks an empty place."""
    places_B1: Tensor
    """Places of the beam that are left: one less for each hypothesis that finished."""
    pieces_BWT: np.ndarray[Any, np.dtype[np.int64]]
    """What each hypothesis consists of so far."""
    length: int = field(default=0)

    @staticmethod
    def begin(models: Sequence[Transformer], source_BS: Tensor, settings: SearchSettings) -> _Search:
        count, device = source_BS.shape[0], source_BS.device
        longest = min(model.config.max_positions for model in models) - 1
        if settings.max_length is not None:
            longest = min(longest, settings.max_length)
        source_pieces = ((source_BS != PAD).sum(dim=1) - 1).tolist()
        # All hypotheses begin alike, so there is but one; the beam opens with the first step.
        return _Search(
            models,
            settings,
            finished=[[] for _ in range(count)],
            sentences=list(range(count)),
            limits=[min(pieces + settings.max_extra_length, longest) for pieces in source_pieces],
            states=[model.start(model.encode(source_BS)) for model in models],
            tokens_BW=torch.full((count, 1), BOS, device=device),
            scores_BW=torch.zeros(count, 1, device=device),
            places_B1=torch.full((count, 1), settings.beam, device=device),
            pieces_BWT=np.empty((count, 1, 0), dtype=np.int64),
        )

    def extend(self) -> None:
        """Make one step: every hypothesis by one piece, finished ones out, finished sentences out."""
        # 1. The best extensions of each hypothesis, and the best of those of its sentence, as many as have a place.
        values_BWK, pieces_BWK = self._extensions()
        choices = values_BWK.shape[2]
        extended_BX = (self.scores_BW[:, :, None] + values_BWK).flatten(1)
        best_BW, index_BW = extended_BX.topk(min(self.settings.beam, extended_BX.shape[1]), dim=1)
        best_BW.masked_fill_(torch.arange(best_BW.shape[1], device=best_BW.device) >= self.places_B1, -torch.inf)
        parents_BW, tokens_BW = index_BW // choices, pieces_BWK.flatten(1).gather(1, index_BW)
        self.length += 1

        # 2. Those that end in eos are finished; the rest live on.
        ended_BW = (tokens_BW == EOS) & (best_BW > -torch.inf)
        self.places_B1 = self.places_B1 - ended_BW.sum(dim=1, keepdim=True)
        live_BW = best_BW.masked_fill(ended_BW, -torch.inf)
        staying = self._record(best_BW, parents_BW, tokens_BW)

        # 3. Sentences whose search is over leave the batch; the others' hypotheses follow their parents.
        kept_B = None
        if len(staying) < len(self.sentences):
            kept_B = torch.tensor(staying, dtype=torch.long, device=best_BW.device)
            self.sentences = [self.sentences[row] for row in staying]
            self.pieces_BWT = self.pieces_BWT[staying]
            self.limits, self.places_B1 = [self.limits[row] for row in staying], self.places_B1[kept_B]
            live_BW, parents_BW, tokens_BW = live_BW[kept_B], parents_BW[kept_B], tokens_BW[kept_B]
        self.scores_BW, self.tokens_BW = live_BW, tokens_BW
        self.states = [state.select(parents_BW, kept_B) for state in self.states]

    def _extensions(self) -> tuple[Tensor, Tensor]:
        """The K best pieces after each hypothesis, which are enough for a beam of K, and their log-probabilities
        (B, W, K); -inf where fewer may come."""
        logits_NV, normalizer_N1 = self._next_logits()
        is_full = [limit <= self.length for limit in self.limits]
        ends_N = logits_NV[:, EOS].clone()
        logits_NV[:, [PAD, BOS] if self.settings.allow_unk else [PAD, UNK, BOS]] = -torch.inf
        if self.length < self.settings.min_length:
            logits_NV[:, EOS] = -torch.inf
        values_NK, pieces_NK = _largest(logits_NV, self.settings.beam)
        if any(is_full):  # at its limit a hypothesis can only end
            full_N = torch.tensor(is_full, device=values_NK.device).repeat_interleave(self.tokens_BW.shape[1])
            values_NK.masked_fill_(full_N[:, None], -torch.inf)
            values_NK[:, 0] = torch.where(full_N, ends_N, values_NK[:, 0])
            pieces_NK[:, 0].masked_fill_(full_N, EOS)
        shape = (*self.tokens_BW.shape, -1)
        return (values_NK - normalizer_N1).view(shape), pieces_NK.view(shape)

    def _next_logits(self) -> tuple[Tensor, Tensor | float]:
        """Logits (N, V) of each piece after each hypothesis, and what to subtract to make them log-probabilities."""
        each = []
        for index, model in enumerate(self.models):
            logits_NV, self.states[index] = model.step(self.tokens_BW, self.states[index])
            each.append(logits_NV.float())
        if len(each) == 1:
            return each[0], each[0].logsumexp(dim=1, keepdim=True)
        log_probabilities = torch.stack([torch.log_softmax(logits_NV, dim=-1) for logits_NV in each])
        return log_probabilities.logsumexp(dim=0), math.log(len(each))

    def _record(self, best_BW: Tensor, parents_BW: Tensor, tokens_BW: Tensor) -> list[int]:
        """Take note of the extensions, and of those that end; the rows of the sentences whose search goes on."""
        best, parents, tokens = torch.stack([best_BW.double(), parents_BW.double(), tokens_BW.double()]).cpu().numpy()
        parents, tokens = parents.astype(np.int64), tokens.astype(np.int64)
        followed = np.take_along_axis(self.pieces_BWT, parents[:, :, None], axis=1)
        self.pieces_BWT = np.concatenate([followed, tokens[:, :, None]], axis=2)
        ended = (tokens == EOS) & (best > -np.inf)
        penalty = length_penalty(self.length, self.settings.length_penalty)
        for row, place in zip(*ended.nonzero(), strict=True):
            log_probability, pieces = float(best[row, place]), tuple(followed[row, place].tolist())
            hypothesis = Hypothesis(pieces, log_probability, log_probability / penalty)
            self.finished[self.sentences[row]].append(hypothesis)
        best_live = np.where(ended, -np.inf, best).max(axis=1).tolist()
        return [row for row, best in enumerate(best_live) if self._goes_on(row, best)]

    def _goes_on(self, row: int, best_live: float) -> bool:
        """Whether a live hypothesis is left that could still be among those to return.

        Log-probabilities only fall, and the penalty divides by the most at the greatest length, eos included:
        no live hypothesis can end with more than its present log-probability over that.
        """
        if best_live == -math.inf:
            return False
        found = self.finished[self.sentences[row]]
        if len(found) < self.settings.nbest:
            return True
        bound = best_live / length_penalty(self.limits[row] + 1, self.settings.length_penalty)
        return bound > sorted((hypothesis.score for hypothesis in found), reverse=True)[self.settings.nbest - 1]


def _largest(logits_NV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest numbers of each row and where they are; fewer than ``count`` where a row has not so many.

    On a CPU torch's own search costs as much as a matrix product. The largest K numbers lie in those K blocks whose
    maxima are largest, and maxima are quick to find.
    """
    rows, vocabulary = logits_NV.shape
    blocks = vocabulary // _BLOCK
    if logits_NV.is_cuda or blocks <= 2 * count:
        values_NK, pieces_NK = logits_NV.topk(min(count, vocabulary), dim=1)
        return values_NK, pieces_NK
    blocks_NXP = logits_NV[:, : blocks * _BLOCK].view(rows, blocks, _BLOCK)
    chosen_NK = blocks_NXP.amax(dim=2).topk(count, dim=1).indices
    places_NKP = chosen_NK[:, :, None] * _BLOCK + torch.arange(_BLOCK)
    rest_R = torch.arange(blocks * _BLOCK, vocabulary)
    candidates_NC = torch.cat([places_NKP.flatten(1), rest_R.expand(rows, -1)], dim=1)
    values_NK, index_NK = logits_NV.gather(1, candidates_NC).topk(count, dim=1)
    return values_NK, candidates_NC.gather(1, index_NK)
