"""Beam search with the length penalty of the paper (section 6.1; Wu et al. 2016, equation 14); greedy search, sampling.

Shapes: B sentences, S source pieces, W places of the beam (live or empty), C extensions that a step keeps, R steps that
there is room for, L steps between two looks of the host.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.errors import NmtError
from nmt.machine.device import begin_to_host, to_device
from nmt.model.transformer import Transformer
from nmt.search.beam import Beam, Size
from nmt.search.hypotheses import Hypotheses, Hypothesis
from nmt.search.next_pieces import RandomNumbers
from nmt.search.recorded_steps import RecordedSteps, Recordings
from nmt.search.settings import SearchSettings
from nmt.search.step import step
from nmt.special_ids import PAD

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
    with_others: bool = False,
) -> list[list[Hypothesis]]:
    """Translate a batch of sentences.

    Each step extends every live hypothesis by every piece and keeps the best. A hypothesis that ends in eos is
    finished and leaves its place in the beam empty, so a beam of 1 is greedy search for every alpha. With
    ``refill_beam`` the next best takes the place, as in Tensor2Tensor.

    Args:
        models: one model, or several with the same vocabulary, whose probabilities are averaged at each step.
        source_BS: pieces with eos, padded with 0 on the right.
        prefixes: for each sentence, the pieces that its outputs must begin with. A prefix longer than the limit of an
            output raises the limit. Prefixes must be shorter than the models' positions.
        numbers: a seed for each sentence when sampling: the same number draws the same outputs, in any batch. The
            default is the position in this batch.
        before_step: called before each step with the number of sentences that it computes, which may include finished
            ones, and the pieces of each hypothesis so far. An exception that it raises ends the search.
        recorded_steps: recordings of earlier searches with these models. By default the search records anew, and
            discards its recordings.
        with_others: return all hypotheses that were finished before the search ended. Those after the ``nbest`` first
            need not be the best ones.

    Returns:
        The ``nbest`` hypotheses of each sentence, best first; fewer if the beam finished fewer different ones.
    """
    if before_step is not None:  # before the encoder too, which may need more memory than the first step
        before_step(len(source_BS), 0)
    recorded_steps = recorded_steps or RecordedSteps(models)
    with torch.inference_mode(), recorded_steps.reserved(settings) as recordings:
        search = _Search(models, source_BS, settings, prefixes, numbers, recordings)
        while search.hypotheses.sentences:
            search.advance(before_step)
    return search.hypotheses.ranked(None if with_others else settings.nbest)


@dataclass(frozen=True)
class _Unseen:
    """What steps chose that the host has not looked at."""

    chosen_L3BC: Callable[[], Tensor]
    """Waits for the copy."""
    row_of_sentence: dict[int, int]
    """By sentence of the whole batch."""


class _Search:
    """The beams of the unfinished sentences.

    On a CPU the host looks at each step, finished sentences leave at once, and empty places are skipped. A GPU makes
    several steps between two looks (:attr:`~nmt.model.transformer.Transformer.steps_per_look`). If it records steps, it
    has begun the next ones when the host looks at the last. Meanwhile finished sentences are searched on, to no effect.
    They leave where that leads to a smaller size.
    """

    def __init__(
        self,
        models: Sequence[Transformer],
        source_BS: Tensor,
        settings: SearchSettings,
        prefixes: Sequence[Sequence[int]] | None,
        numbers: Sequence[int] | None,
        recordings: Recordings | None,
    ) -> None:
        """Encode the sources."""
        count, source_lengths = len(source_BS), (source_BS != PAD).sum(dim=1).tolist()
        self._models = models
        self._settings = settings
        self._recordings = recordings
        self._looks_every = models[0].steps_per_look
        self._random_numbers = None
        if settings.sampling is not None:
            self._random_numbers = RandomNumbers(settings.sampling.seed, range(count) if numbers is None else numbers)
        self.hypotheses = Hypotheses.begin(
            settings, source_lengths, prefixes, max_positions=min(model.config.max_positions for model in models)
        )
        """What the host knows. It lacks the unseen steps."""
        self._unseen: deque[_Unseen] = deque()
        self._length = 0
        """The pieces of each hypothesis."""
        self._rows = np.arange(count)
        """The row of each unfinished sentence."""
        self._width = source_BS.shape[1]
        """The length of the padded sources."""
        self._may_force: list[bool] = []
        """Of each step that there is room for, whether a sentence may have but one allowed piece."""
        size = self._size_for(self._looks_every)
        packed = [model.packed(source_BS, source_lengths) for model in models]
        room = 0 if size.is_recorded else size.room  # recorded steps compute with tensors of their own
        self._whole = Beam.begin(
            [
                model.start(model.encode(source), beam=settings.beam, room=room)
                for model, source in zip(models, packed, strict=True)
            ],
            settings,
            self._looks_every,
        )
        """All the memory that there is; the steps compute with a part of it."""
        self._resize(size)

    def advance(self, before_step: Callable[[int, int], None] | None) -> None:
        """Make the steps until the next look, and look; on a GPU that records, at what the steps before chose."""
        steps = min(self._looks_every, max(self.hypotheses.limits) + 1 - self._length)
        for index in range(steps):
            if before_step is not None and self._length:
                before_step(self._size.sentences, self._length)
            if index == 0 and self._length + self._looks_every > self._size.room:
                self._resize(self._size_for(self._length + self._looks_every))
            if self._size.is_recorded and self._recordings is not None:
                self._recordings.step(self._size)
            else:
                may_force = self._may_force[self._length]
                step(self._models, self._beam, self._settings, self._length, live_BW=self._live(), may_force=may_force)
            self._length += 1
        if steps > 0:
            chosen_L3BC = begin_to_host(self._beam.chosen_L3BC[:steps].clone())
            row_of_sentence = dict(zip(self.hypotheses.sentences, self._rows.tolist(), strict=True))
            self._unseen.append(_Unseen(chosen_L3BC, row_of_sentence))
        if steps <= 0 or self._recordings is None or len(self._unseen) > 1:
            self._look()

    def _look(self) -> None:
        """Let the host record steps. Sentences that are finished leave."""
        if not self._unseen:
            raise NmtError("a search did not end at its limit: the device computes wrong numbers. Run `nmt doctor`.")
        unseen = self._unseen.popleft()
        rows = [unseen.row_of_sentence[sentence] for sentence in self.hypotheses.sentences]
        chosen_L3BC = unseen.chosen_L3BC().numpy(force=True).astype(np.float64)
        staying = self.hypotheses.look(list(chosen_L3BC[:, :, rows]))
        if len(staying) < len(self._rows):
            self.hypotheses.keep(staying)
            self._rows = self._rows[staying]
            if staying:
                self._resize(self._size_for(self._size.room))

    def _live(self) -> Tensor | None:
        """Which places are live; None if it does not pay to skip the empty ones."""
        if self._looks_every > 1:  # counting would wait for the device
            return None
        live_BW = self._beam.scores_BW > -torch.inf
        count = int(live_BW.sum())
        return live_BW if live_BW.numel() - count >= _WORTH_PACKING * live_BW.numel() else None

    def _size_for(self, length: int) -> Size:
        """The smallest size for the unfinished sentences and a number of steps."""
        return Size.of(self._models[0], self._settings.beam, len(self._rows), self._width, length)

    def _resize(self, size: Size) -> None:
        """Compute the next steps with a size that has rows for all unfinished sentences."""
        # Rows that are no longer computed move into those of finished sentences.
        outside = np.flatnonzero(self._rows >= size.sentences)
        if len(outside):
            free = np.setdiff1d(np.arange(size.sentences), self._rows)[: len(outside)]
            self._whole.used(self._length).move(self._rows[outside], free)
            self._rows[outside] = free
        if size.is_recorded and self._recordings is not None:
            self._whole = self._recordings.take_over(self._whole, size, self._length)
        elif size.room > self._whole.size.room:
            smaller = self._whole
            source = smaller.size.source  # at most the width of the padded sources
            self._whole = smaller.resized(_narrowed_or_new, Size(size.sentences, source, size.room))
            self._whole.take(smaller.narrowed(size).used(self._length))
        self._beam, self._size = self._whole.narrowed(size), size
        if size.room > len(self._may_force):
            self._look_ahead()

    def _look_ahead(self) -> None:
        """Let the device know what the host decides about the steps that there is room for."""
        steps = slice(len(self._may_force), self._size.room)
        forced_BR = self.hypotheses.forced_pieces(steps.start, steps.stop)
        self._may_force += [bool(is_forced_B.any()) for is_forced_B in (forced_BR >= 0).T]
        self._tell(forced_BR, self._beam.forced_BR[:, steps])
        if self._random_numbers is not None:
            draws = self._random_numbers.draw(self.hypotheses.sentences, steps.stop - steps.start, self._settings.beam)
            self._tell(draws, self._beam.uniform_BRW[:, steps])

    def _tell(self, of_sentences: NDArray[Any], tensor: Tensor) -> None:
        """Copy what belongs to the unfinished sentences into their rows. The other rows are computed too."""
        tensor.fill_(-1)
        rows_B = to_device(torch.from_numpy(self._rows), tensor.device)
        tensor.index_copy_(0, rows_B, to_device(torch.from_numpy(of_sentences).to(tensor.dtype), tensor.device))


def _narrowed_or_new(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The first rows of a tensor; a new one if another size changes too."""
    return tensor[: shape[0]] if tensor.shape[1:] == shape[1:] else tensor.new_empty(shape)
