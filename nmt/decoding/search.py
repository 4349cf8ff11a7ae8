"""Beam search with the length penalty of the paper (section 6.1; Wu et al. 2016, equation 14), one for every mode.

Shapes: B sentences, S source pieces, W beam, N = B · W rows, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from nmt.data.vocab import Vocabulary
from nmt.model.transformer import DecodingState, Transformer

PAD, UNK, BOS, EOS = Vocabulary.PAD, Vocabulary.UNK, Vocabulary.BOS, Vocabulary.EOS


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


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation."""

    pieces: tuple[int, ...]
    """Without eos."""
    log_probability: float
    """Of the pieces and eos, in nats."""
    score: float
    """``log_probability`` over the length penalty: what hypotheses are ranked by."""


def length_penalty(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|) / 6)^alpha, where |Y| counts eos."""
    return float(((5 + length) / 6) ** alpha)


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
    """The beams of the sentences that are still searched for."""

    models: Sequence[Transformer]
    settings: SearchSettings
    finished: list[list[Hypothesis]]
    """By sentence of the whole batch."""
    sentences: list[int]
    """Which sentence of the batch each row of B below is."""
    limits: list[int]
    """The most pieces that each of them may have."""
    states: list[DecodingState]
    tokens_N: Tensor
    """The piece that each hypothesis was last extended by."""
    scores_BW: Tensor
    """Log-probability of each live hypothesis; -inf marks an empty place."""
    pieces_BWT: Tensor
    """What each hypothesis consists of so far."""
    length: int = field(default=0)

    @staticmethod
    def begin(models: Sequence[Transformer], source_BS: Tensor, settings: SearchSettings) -> _Search:
        count, beam = source_BS.shape[0], settings.beam
        longest = min(model.config.max_positions for model in models) - 1
        if settings.max_length is not None:
            longest = min(longest, settings.max_length)
        source_pieces = ((source_BS != PAD).sum(dim=1) - 1).tolist()
        scores_BW = torch.full((count, beam), -torch.inf, device=source_BS.device)
        scores_BW[:, 0] = 0.0  # all begin alike: one hypothesis, and empty places
        return _Search(
            models,
            settings,
            finished=[[] for _ in range(count)],
            sentences=list(range(count)),
            limits=[min(pieces + settings.max_extra_length, longest) for pieces in source_pieces],
            states=[model.start(model.encode(source_BS), beam) for model in models],
            tokens_N=torch.full((count * beam,), BOS, device=source_BS.device),
            scores_BW=scores_BW,
            pieces_BWT=torch.empty(count, beam, 0, dtype=torch.long, device=source_BS.device),
        )

    def extend(self) -> None:
        """Make one step: every hypothesis by one piece, finished ones out, finished sentences out."""
        beam = self.settings.beam

        # 1. What each extension of each hypothesis would score.
        log_probabilities_BWV = torch.unflatten(self._next_log_probabilities(), 0, (-1, beam))
        vocabulary = log_probabilities_BWV.shape[-1]
        extended_BX = (self.scores_BW[:, :, None] + log_probabilities_BWV).flatten(1)

        # 2. The best of them, as many as the beam has places: one less for each hypothesis that finished before.
        best_BW, index_BW = extended_BX.topk(beam, dim=1)
        places = torch.tensor([[beam - len(self.finished[s])] for s in self.sentences], device=best_BW.device)
        best_BW = best_BW.masked_fill(torch.arange(beam, device=best_BW.device) >= places, -torch.inf)
        parents_BW, tokens_BW = index_BW // vocabulary, index_BW % vocabulary
        parents_BWT = parents_BW[:, :, None].expand(-1, -1, self.length)
        self.pieces_BWT = torch.cat([self.pieces_BWT.gather(1, parents_BWT), tokens_BW[:, :, None]], dim=2)
        self.length += 1

        # 3. Those that end in eos are finished; the rest live on.
        ended_BW = (tokens_BW == EOS) & (best_BW > -torch.inf)
        self._record(ended_BW, best_BW)
        self.scores_BW = best_BW.masked_fill(ended_BW, -torch.inf)

        # 4. Sentences whose search is over leave the batch; the others' states follow their parents.
        staying = [row for row, best in enumerate(self.scores_BW.amax(dim=1).tolist()) if self._goes_on(row, best)]
        rows_BW = parents_BW + torch.arange(len(self.sentences), device=parents_BW.device)[:, None] * beam
        if len(staying) < len(self.sentences):
            kept_B = torch.tensor(staying, dtype=torch.long, device=parents_BW.device)
            self.sentences = [self.sentences[row] for row in staying]
            self.limits = [self.limits[row] for row in staying]
            self.scores_BW, self.pieces_BWT = self.scores_BW[kept_B], self.pieces_BWT[kept_B]
            tokens_BW, rows_BW = tokens_BW[kept_B], rows_BW[kept_B]
            self.states = [state.select(rows_BW.flatten(), kept_B) for state in self.states]
        else:
            self.states = [state.select(rows_BW.flatten()) for state in self.states]
        self.tokens_N = tokens_BW.flatten()

    def _next_log_probabilities(self) -> Tensor:
        """log p of each piece after each hypothesis (N, V); -inf for those that may not come."""
        each = []
        for index, model in enumerate(self.models):
            logits_NV, self.states[index] = model.step(self.tokens_N, self.states[index])
            each.append(torch.log_softmax(logits_NV.float(), dim=-1))
        log_probabilities_NV = each[0]
        if len(each) > 1:
            log_probabilities_NV = torch.logsumexp(torch.stack(each), dim=0) - math.log(len(each))
        log_probabilities_NV[:, [PAD, BOS] if self.settings.allow_unk else [PAD, UNK, BOS]] = -torch.inf
        full_N = torch.tensor([self.length >= limit for limit in self.limits], device=log_probabilities_NV.device)
        full_N = full_N.repeat_interleave(self.settings.beam)
        ending_N = log_probabilities_NV[:, EOS].clone()
        if self.length < self.settings.min_length:
            ending_N.masked_fill_(~full_N, -torch.inf)
        log_probabilities_NV.masked_fill_(full_N[:, None], -torch.inf)
        log_probabilities_NV[:, EOS] = ending_N
        return log_probabilities_NV

    def _record(self, ended_BW: Tensor, scores_BW: Tensor) -> None:
        penalty = length_penalty(self.length, self.settings.length_penalty)
        for row, place in ended_BW.nonzero().tolist():
            log_probability = scores_BW[row, place].item()
            pieces = tuple(self.pieces_BWT[row, place, :-1].tolist())
            hypothesis = Hypothesis(pieces, log_probability, log_probability / penalty)
            self.finished[self.sentences[row]].append(hypothesis)

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
