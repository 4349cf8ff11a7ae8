"""Beam search whose steps a GPU makes without the host: the same search as :mod:`nmt.search.beam_search`, recorded.

The host launches recorded steps and looks at what they chose every few steps. It removes finished sentences where that
leads to a smaller size of the buffers. Until then they are searched on, to no effect.

Shapes: B sentences, W places of the beam, N = B · W rows, V vocabulary, K extensions per hypothesis, R steps that there
is room for, L steps between two looks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.model.transformer import Transformer
from nmt.search.choosing import choose, ended_and_live, for_host
from nmt.search.hypotheses import Hypotheses, Hypothesis
from nmt.search.next_pieces import largest, never_emitted
from nmt.search.recorded_steps import RecordedStep, Recordings
from nmt.search.settings import SearchSettings
from nmt.search.step_buffers import Content, DecoderShape, StepBuffers
from nmt.search.step_sizes import Size
from nmt.special_ids import EOS, PAD


def suits_device_search(models: Sequence[Transformer], settings: SearchSettings) -> bool:
    """Whether the device can record the steps of a search.

    Samples and n-grams that must not repeat need the host in each step. Diverse groups, several models and
    restricted self-attention are not recorded.
    """
    [model, *others] = models
    return (
        not others
        and model.recorder is not None
        and model.config.target_neighbours is None
        and settings.sampling is None
        and settings.diverse_groups == 1
        and not settings.no_repeat_ngram
    )


def device_search(
    model: Transformer,
    source_BS: Tensor,
    settings: SearchSettings,
    recordings: Recordings,
    *,
    prefixes: Sequence[Sequence[int]] | None,
    before_step: Callable[[int, int], None] | None,
) -> list[list[Hypothesis]]:
    """As :func:`nmt.search.beam_search.beam_search`, for a search that :func:`suits_device_search`.

    Args:
        recordings: those of earlier searches with this model.
    """
    source_lengths = (source_BS != PAD).sum(dim=1).tolist()
    hypotheses = Hypotheses.begin(
        settings, source_lengths, prefixes, max_positions=model.config.max_positions, places=settings.beam
    )
    search = _DeviceSearch(model, settings, recordings, hypotheses)
    search.begin(source_BS, source_lengths)
    while hypotheses.sentences:
        search.extend(before_step)
    return hypotheses.ranked()


class _DeviceSearch:
    """A search between two looks of the host."""

    def __init__(
        self, model: Transformer, settings: SearchSettings, recordings: Recordings, hypotheses: Hypotheses
    ) -> None:
        self._model = model
        self._recordings = recordings
        self._hypotheses = hypotheses
        self._looks_every = model.steps_per_look
        self._extend = partial(_extend, settings=settings)
        # What a recorded step depends on beside its size.
        self._key = settings.min_length, settings.allow_unk, self._looks_every
        self._beam = settings.beam

    def begin(self, source_BS: Tensor, source_lengths: list[int]) -> None:
        """Encode the sources."""
        start = self._model.start(self._model.encode(self._model.packed(source_BS, source_lengths)))
        self._decoder = DecoderShape.of(start)
        self._size = Size.of(len(source_BS), self._beam, source_BS.shape[1])
        self._rows = np.arange(len(source_BS))  # of the unfinished sentences, in the buffers
        self._move(self._size, Content.of_start(start, self._beam))

    def extend(self, before_step: Callable[[int, int], None] | None) -> None:
        """Make steps until the host looks, and look."""
        length = self._hypotheses.length
        count = min(self._looks_every, max(self._hypotheses.limits) + 1 - length)
        for step in range(count):
            if before_step is not None and length + step:
                before_step(self._size.sentences, length + step)
            if step == 0 and length + self._looks_every > self._size.room:
                self._resize(self._size.with_more_room())
            self._step.run()
        self._look(count)

    def _look(self, count: int) -> None:
        chosen_L3BW = self._step.buffers.chosen_L3BW[:count].numpy(force=True).astype(np.float64)
        staying = self._hypotheses.look(list(chosen_L3BW[:, :, self._rows]))
        if not staying:
            self._hypotheses.keep([])
            return
        if len(staying) < len(self._rows):
            self._hypotheses.keep(staying)
            self._rows = self._rows[staying]
        fitting = self._size.for_sentences(len(self._rows))
        if fitting != self._size:
            self._resize(fitting)

    def _resize(self, size: Size) -> None:
        content = self._step.buffers.content(self._rows, self._hypotheses.length)
        del self._step  # its memory is released before that of a larger size is allocated
        self._rows = np.arange(len(self._rows))
        self._move(size, content)

    def _move(self, size: Size, content: Content) -> None:
        self._size = size
        self._step: RecordedStep = self._recordings.step_of(
            size, self._decoder, self._extend, self._key, looks_every=self._looks_every
        )
        forced_BR: NDArray[np.int64] = self._hypotheses.forced_pieces(0, size.room)
        self._step.buffers.put(content, forced_BR)


def _extend(model: Transformer, buffers: StepBuffers, settings: SearchSettings) -> None:
    """Extend all hypotheses by a piece; see :meth:`nmt.search.beam_search._Search.extend`. The host is not needed."""
    (sentences, beam), step_1 = buffers.tokens_BW.shape, buffers.state.steps_1.clone()
    forced_B1 = buffers.forced_BR.index_select(1, step_1)
    logits_NV, _ = model.step(buffers.tokens_BW, buffers.state)
    values_NK, pieces_NK = _best_extensions(
        logits_NV.float(), forced_B1.expand(-1, beam).reshape(-1, 1), step_1, settings
    )

    # 1. The best extensions of each sentence, one per place of its beam.
    extended_BWK = buffers.scores_BW[:, :, None] + values_NK.view(sentences, beam, -1)
    best_BW, parents_BW, tokens_BW = choose(extended_BWK, pieces_NK, buffers.places_B1, beam)

    # 2. Extensions that end in eos are finished; the others stay live.
    ended_BW, live_BW = ended_and_live(best_BW, tokens_BW)
    buffers.places_B1.sub_(ended_BW.sum(dim=1, keepdim=True))
    buffers.scores_BW.copy_(live_BW)
    buffers.tokens_BW.copy_(tokens_BW)
    buffers.state.select(parents_BW)
    chosen_3BW = for_host(best_BW, parents_BW, tokens_BW)
    buffers.chosen_L3BW.index_copy_(0, step_1 % len(buffers.chosen_L3BW), chosen_3BW[None])


def _best_extensions(
    logits_NV: Tensor, forced_N1: Tensor, step_1: Tensor, settings: SearchSettings
) -> tuple[Tensor, Tensor]:
    """The best allowed extensions of each hypothesis: log-probabilities and pieces (N, K).

    Args:
        forced_N1: the only piece that is allowed; -1 where there are others.
        step_1: the number of pieces so far.
    """
    normalizer_N1 = logits_NV.logsumexp(dim=1, keepdim=True)
    forced_value_N1 = logits_NV.gather(1, forced_N1.clamp(min=0))
    for piece in never_emitted(settings.allow_unk):
        logits_NV[:, piece].fill_(-torch.inf)
    if settings.min_length:
        logits_NV[:, EOS].masked_fill_(step_1 < settings.min_length, -torch.inf)
    values_NK, pieces_NK = largest(logits_NV, settings.beam)
    is_first_K = torch.arange(values_NK.shape[1], device=values_NK.device) == 0
    only_forced_NK = torch.where(is_first_K, forced_value_N1, -torch.inf)
    is_forced_N1 = forced_N1 >= 0
    return (
        torch.where(is_forced_N1, only_forced_NK, values_NK) - normalizer_N1,
        torch.where(is_forced_N1, forced_N1, pieces_NK),
    )
