"""Beam search with the length penalty of the paper (section 6.1; Wu et al. 2016, equation 14); greedy search, sampling.

Shapes: B sentences, S source pieces, W places of the beam (live or empty), G groups of places (1 unless the search is
diverse), N = B · W rows, V vocabulary, K extensions per hypothesis, T pieces so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.device import to_device
from nmt.model.state import DecodingState
from nmt.model.transformer import Transformer
from nmt.search.choosing import choose, ended_and_live, for_host
from nmt.search.device_search import device_search, suits_device_search
from nmt.search.diverse import choose_by_group
from nmt.search.hypotheses import Hypotheses, Hypothesis
from nmt.search.next_pieces import RandomNumbers, largest, never_emitted, repeating_pieces, sample
from nmt.search.recorded_steps import RecordedSteps
from nmt.search.settings import SearchSettings
from nmt.special_ids import BOS, EOS, PAD

# Live places are packed from this share of empty places on, because packing also takes time.
_WORTH_PACKING = 0.1


def beam_search(
    models: Sequence[Transformer],
    source_BS: Tensor,
    settings: SearchSettings,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    numbers: Sequence[int] | None = None,
    before_step: Callable[[int, int], None] | None = None,
    recorded_steps: RecordedSteps | None = None,
) -> list[list[Hypothesis]]:
    """Translate a batch of sentences.

    Each step extends every live hypothesis by every piece and keeps the best. A hypothesis that ends in eos is
    finished and leaves its place in the beam empty, so a beam of 1 is greedy search for every alpha. Each diverse group
    (:mod:`nmt.search.diverse`) has its own places. A hypothesis that several groups find is returned once. All are
    ranked together by their scores, which do not include the diversity penalty.

    Args:
        models: one model, or several with the same vocabulary, whose probabilities are averaged at each step.
        source_BS: pieces with eos, padded with 0 on the right.
        prefixes: for each sentence, the pieces that its outputs must begin with. A prefix longer than the limit of an
            output raises the limit. Prefixes must be shorter than the models' positions.
        numbers: a seed for each sentence when sampling: the same number draws the same outputs, in any batch. The
            default is the position in this batch.
        before_step: called before each step with the number of sentences that it computes, which may include finished
            ones, and the pieces of each hypothesis so far. An exception that it raises ends the search.
        recorded_steps: recordings of earlier searches with this model. By default the search records anew, and discards
            its recordings.

    Returns:
        The ``nbest`` hypotheses of each sentence, best first; fewer if the beam finished fewer different ones.
    """
    if before_step is not None:  # before the encoder too, which may need more memory than the first step
        before_step(len(source_BS), 0)
    with torch.inference_mode():
        if suits_device_search(models, settings):
            with (recorded_steps or RecordedSteps(models[0])).reserved() as recordings:
                return device_search(
                    models[0], source_BS, settings, recordings, prefixes=prefixes, before_step=before_step
                )
        search = _Search.begin(models, source_BS, settings, prefixes, numbers)
        while search.hypotheses.sentences:
            if before_step is not None and search.length:
                before_step(len(search.hypotheses.sentences), search.length)
            search.extend()
    return search.hypotheses.ranked()


@dataclass
class _Search:
    """The beams of the unfinished sentences.

    Tensors for the model are on its device; pieces and finished hypotheses are on the host. The best extensions are
    copied to the host after each step, or after several where that makes it wait
    (:attr:`~nmt.model.transformer.Transformer.steps_per_look`). Meanwhile finished sentences are searched on, to no
    effect.
    """

    models: Sequence[Transformer]
    settings: SearchSettings
    hypotheses: Hypotheses
    """What the host knows. It lacks the unseen steps."""
    states: list[DecodingState]
    tokens_BW: Tensor
    """The last piece of each hypothesis."""
    scores_BW: Tensor
    """The log-probability of each live hypothesis; -inf marks an empty place."""
    places_BG: Tensor
    """The places of each group minus its finished hypotheses."""
    penalties_BW: Tensor
    """The diversity penalty of each hypothesis so far, if there are several groups."""
    random_numbers: RandomNumbers | None
    """The random numbers for sampling; None if the search does not sample."""
    length: int = field(default=0)
    unseen: list[Tensor] = field(default_factory=list)
    """Of each step that the host has not looked at: log-probabilities, parents and pieces (3, B, W)."""

    @staticmethod
    def begin(
        models: Sequence[Transformer],
        source_BS: Tensor,
        settings: SearchSettings,
        prefixes: Sequence[Sequence[int]] | None,
        numbers: Sequence[int] | None,
    ) -> _Search:
        count, groups, device = source_BS.shape[0], settings.diverse_groups, source_BS.device
        source_lengths = (source_BS != PAD).sum(dim=1).tolist()
        max_positions = min(model.config.max_positions for model in models)
        # Each sentence starts with a single hypothesis; the first step fills the beam.
        return _Search(
            models,
            settings,
            Hypotheses.begin(settings, source_lengths, prefixes, max_positions=max_positions, places=1),
            states=[model.start(model.encode(model.packed(source_BS, source_lengths))) for model in models],
            tokens_BW=torch.full((count, 1), BOS, device=device),
            scores_BW=torch.zeros(count, 1, device=device),
            places_BG=torch.full((count, groups), settings.beam // groups, device=device),
            penalties_BW=torch.zeros(count, 1, device=device),
            random_numbers=RandomNumbers(settings.sampling.seed, range(count) if numbers is None else numbers)
            if settings.sampling is not None
            else None,
        )

    def extend(self) -> None:
        """Make one step: extend hypotheses by a piece, then remove finished hypotheses and sentences."""
        # 1. Find the best extensions of each sentence, one per place of its beam; or sample one per hypothesis.
        best_BW, parents_BW, tokens_BW = (
            self._best() if self.random_numbers is None else self._sampled(self.random_numbers)
        )
        self.length += 1

        # 2. Extensions that end in eos are finished; the others stay live.
        ended_BW, live_BW = ended_and_live(best_BW, tokens_BW)
        self.places_BG = self.places_BG - ended_BW.view(*self.places_BG.shape, -1).sum(dim=2)
        self.unseen.append(for_host(best_BW, parents_BW, tokens_BW))

        # 3. Finished sentences leave the batch; the states of the others follow the hypotheses' parents.
        kept_B = None
        staying = self._look() if self._must_look() else range(len(best_BW))
        if len(staying) < len(best_BW):
            kept_B = to_device(torch.tensor(staying, dtype=torch.long), best_BW.device)
            self.hypotheses.keep(staying)
            self.places_BG, self.penalties_BW = self.places_BG[kept_B], self.penalties_BW[kept_B]
            live_BW, parents_BW, tokens_BW = live_BW[kept_B], parents_BW[kept_B], tokens_BW[kept_B]
        self.scores_BW, self.tokens_BW = live_BW, tokens_BW
        self.states = [state.select(parents_BW, kept_B) for state in self.states]

    def _best(self) -> tuple[Tensor, Tensor, Tensor]:
        """The best extensions of each sentence's hypotheses: log-probabilities, parents, pieces (B, W)."""
        logits_NV, normalizer_N1 = self._allowed_logits()
        # The K best extensions of each hypothesis suffice for a beam of K.
        values_NK, pieces_NK = largest(logits_NV, self.settings.beam)
        (sentences, beam), choices = self.tokens_BW.shape, values_NK.shape[1]
        values_BWK = (values_NK - normalizer_N1).view(sentences, beam, choices)
        extended_BWK = self.scores_BW[:, :, None] + values_BWK
        if self.settings.diverse_groups > 1:
            best_BW, index_BW, self.penalties_BW = choose_by_group(
                extended_BWK,
                pieces_NK.view_as(extended_BWK),
                self.penalties_BW,
                self.places_BG,
                self.settings.beam,
                self.settings.diversity,
            )
            return best_BW, index_BW // choices, pieces_NK.view(sentences, -1).gather(1, index_BW)
        return choose(extended_BWK, pieces_NK, self.places_BG, self.settings.beam)

    def _sampled(self, random_numbers: RandomNumbers) -> tuple[Tensor, Tensor, Tensor]:
        """Sample an extension of each hypothesis: log-probabilities, parents, pieces (B, W).

        In the first step, all W samples extend the same hypothesis.
        """
        assert self.settings.sampling is not None
        logits_NV, normalizer_N1 = self._allowed_logits()
        sentences, beam = len(self.tokens_BW), self.settings.beam
        parents_W = torch.arange(beam, device=logits_NV.device).clamp_(max=self.tokens_BW.shape[1] - 1)
        parents_BW = parents_W.expand(sentences, -1)
        rows_N = (
            torch.arange(sentences, device=logits_NV.device)[:, None] * self.tokens_BW.shape[1] + parents_BW
        ).flatten()
        uniform_N = torch.from_numpy(random_numbers.draw(self.hypotheses.sentences, beam)).flatten()
        values_N1, pieces_N1 = sample(logits_NV[rows_N], self.settings.sampling, uniform_N)
        if isinstance(normalizer_N1, Tensor):
            normalizer_N1 = normalizer_N1[rows_N]
        values_BW = (values_N1 - normalizer_N1).view(sentences, beam)
        return self.scores_BW.gather(1, parents_BW) + values_BW, parents_BW, pieces_N1.view(sentences, beam)

    def _allowed_logits(self) -> tuple[Tensor, Tensor | float]:
        """Like :meth:`_next_logits`, but with -inf for pieces that are not allowed."""
        logits_NV, normalizer_N1 = self._next_logits()
        forced_B = self.hypotheses.forced_pieces(self.length, self.length + 1)[:, 0]
        [rows] = (forced_B >= 0).nonzero()
        if len(rows) == 0:
            self._forbid(logits_NV)
            return logits_NV, normalizer_N1
        forced = (rows, forced_B[rows])
        rows_F, pieces_F = (to_device(torch.from_numpy(part), logits_NV.device) for part in forced)
        logits_BWV = logits_NV.view(len(self.tokens_BW), -1, logits_NV.shape[1])
        forced_FW = logits_BWV[rows_F, :, pieces_F]
        self._forbid(logits_NV)
        logits_BWV[rows_F] = -torch.inf
        logits_BWV[rows_F, :, pieces_F] = forced_FW
        return logits_NV, normalizer_N1

    def _forbid(self, logits_NV: Tensor) -> None:
        """Set to -inf the pieces that are never allowed, not allowed yet, or not allowed again."""
        eos_N = logits_NV[:, EOS].clone()
        is_too_early = self.length < self.settings.min_length
        for piece in [*never_emitted(self.settings.allow_unk), *([EOS] if is_too_early else [])]:
            logits_NV[:, piece] = -torch.inf
        if self.settings.no_repeat_ngram:
            repeating = repeating_pieces(self.hypotheses.pieces_BWT, self.settings.no_repeat_ngram)
            places = (to_device(torch.from_numpy(part), logits_NV.device) for part in repeating)
            logits_NV[tuple(places)] = -torch.inf
            # A hypothesis without any allowed piece may end, even below the minimum length.
            ending_N = (logits_NV == -torch.inf).all(dim=1)
            logits_NV[:, EOS] = torch.where(ending_N, eos_N, logits_NV[:, EOS])

    def _next_logits(self) -> tuple[Tensor, Tensor | float]:
        """Logits (N, V) of the next piece of each hypothesis, and what to subtract to get log-probabilities."""
        each, live_BW = [], self._live()
        for index, model in enumerate(self.models):
            logits_NV, self.states[index] = model.step(self.tokens_BW, self.states[index], live_BW)
            each.append(logits_NV.float())
        if len(each) == 1:
            return each[0], each[0].logsumexp(dim=1, keepdim=True)
        log_probabilities = torch.stack([torch.log_softmax(logits_NV, dim=-1) for logits_NV in each])
        return log_probabilities.logsumexp(dim=0), math.log(len(each))

    def _live(self) -> Tensor | None:
        """Which places are live; None if it does not pay to skip the empty ones."""
        if self._steps_per_look > 1:  # counting would wait for the device
            return None
        live_BW = self.scores_BW > -torch.inf
        count = int(live_BW.sum())
        return live_BW if live_BW.numel() - count >= _WORTH_PACKING * live_BW.numel() else None

    @property
    def _steps_per_look(self) -> int:
        return self.models[0].steps_per_look

    def _must_look(self) -> bool:
        """Whether the host needs to know the pieces, or which sentences are finished."""
        all_are_finished = self.length > max(self.hypotheses.limits)
        is_time = len(self.unseen) >= self._steps_per_look
        return is_time or all_are_finished or bool(self.settings.no_repeat_ngram)

    def _look(self) -> list[int]:
        """Let the host record the unseen steps; return the rows of the sentences that are not finished."""
        staying = self.hypotheses.look(_to_host(self.unseen))
        self.unseen = []
        return staying


def _to_host(steps: Sequence[Tensor]) -> list[NDArray[np.float64]]:
    """Copy tensors in one transfer."""
    together = torch.cat([step.flatten() for step in steps]).numpy(force=True).astype(np.float64)
    ends = np.cumsum([step.numel() for step in steps])[:-1]
    return [part.reshape(step.shape) for part, step in zip(np.split(together, ends), steps, strict=True)]
