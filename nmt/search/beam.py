"""The tensors of a search, which its steps read and change in place, and their sizes.

Shapes: B sentences, S source pieces, W places of the beam (live or empty), C extensions that a step keeps, R steps that
there is room for, L steps between two looks of the host.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.machine.device import to_device
from nmt.model.packing import rounded_up
from nmt.model.state import DecodingState, Resize, narrow
from nmt.model.transformer import Transformer
from nmt.search.settings import SearchSettings
from nmt.special_ids import BOS

MAX_RECORDED_ROWS = 16_384
"""Hypotheses of the largest search whose steps are recorded."""
# The mask of a search has as many rows as hypotheses, and each is as long as those of a sentence together: a recorded
# one, which has room for many steps and for sentences that there are not, must not take gigabytes.
_MAX_RECORDED_MASK = 1 << 18
# Where steps are recorded, sizes are few, so that a recording is used again.
_SIZES_PER_OCTAVE, _SOURCE_STEP, _MIN_ROOM = 2, 16, 32
# A GPU makes a step for eight sentences in the time of a step for one.
_MIN_SENTENCES = 8


@dataclass(frozen=True)
class Size:
    """The part of the tensors that a step computes with."""

    sentences: int
    source: int
    """Source pieces of the longest sentence."""
    room: int
    """The number of steps that there is room for."""
    is_recorded: bool = False
    """Whether steps of this size are recorded."""

    @staticmethod
    def of(model: Transformer, beam: int, sentences: int, source: int, length: int) -> Size:
        """The smallest size for sentences, source pieces and a number of steps.

        Sizes of recorded steps are rounded up to few ones. Others compute nothing for sentences that there are not.
        """
        mask = max(sentences, _MIN_SENTENCES) * beam * beam
        if model.recorder is None or sentences * beam > MAX_RECORDED_ROWS or mask > _MAX_RECORDED_MASK:
            # A target is about as long as its source, so few searches need more room than twice that.
            return Size(sentences, source, _doubled(2 * source, length))
        sentences = max(_MIN_SENTENCES, rounded_up(sentences, _SIZES_PER_OCTAVE))
        source = -(-source // _SOURCE_STEP) * _SOURCE_STEP
        return Size(sentences, source, _doubled(_MIN_ROOM, max(source, length)), is_recorded=True)

    def is_within(self, other: Size) -> bool:
        """Whether another size has memory for this one."""
        return self.sentences <= other.sentences and self.source <= other.source and self.room <= other.room

    def joined(self, other: Size) -> Size:
        """The smallest size that has memory for both."""
        sentences, source = max(self.sentences, other.sentences), max(self.source, other.source)
        return Size(sentences, source, max(self.room, other.room))

    def positions(self, beam: int) -> int:
        """The number of positions whose keys and values there are."""
        return self.sentences * (beam * self.room + self.source)


@dataclass(frozen=True)
class Beam:
    """The beams of all sentences."""

    tokens_BW: Tensor
    """The last piece of each hypothesis."""
    scores_BW: Tensor
    """The log-probability of each live hypothesis; -inf marks an empty place."""
    places_B1: Tensor
    """The number of extensions that the next step keeps: where places stay empty, fewer by the finished hypotheses."""
    forced_BR: Tensor
    """The only piece that is allowed in each step; -1 where there are others."""
    uniform_BRW: Tensor
    """The random numbers of each step, if the search samples."""
    written_BWR: Tensor
    """The pieces of each hypothesis so far, if n-grams must not repeat."""
    states: tuple[DecodingState, ...]
    """The KV cache of each model."""
    chosen_L3BC: Tensor
    """Of the steps since the host looked: log-probabilities, parents and pieces."""

    @staticmethod
    def begin(states: Sequence[DecodingState], settings: SearchSettings, looks_every: int) -> Beam:
        """Each sentence begins with one hypothesis without a piece; with one per place if it samples.

        Args:
            looks_every: steps between two looks of the host.
        """
        (count, beam, slots), device = states[0].past_BWX.shape, states[0].past_BWX.device
        room = slots // beam
        is_sampled, keeps_pieces = settings.sampling is not None, bool(settings.no_repeat_ngram)
        scores_BW = torch.full((count, beam), -torch.inf, device=device)
        scores_BW[:, :: 1 if is_sampled else beam] = 0
        return Beam(
            tokens_BW=torch.full((count, beam), BOS, device=device),
            scores_BW=scores_BW,
            places_B1=torch.full((count, 1), settings.kept, device=device),
            forced_BR=torch.empty(count, room, dtype=torch.int64, device=device),
            # Some GPUs (MPS) have no float64.
            uniform_BRW=torch.empty(
                count,
                room,
                beam if is_sampled else 0,
                dtype=torch.float32 if device.type == "mps" else torch.float64,
                device=device,
            ),
            written_BWR=torch.empty(count, beam if keeps_pieces else 0, room, dtype=torch.int64, device=device),
            states=tuple(states),
            chosen_L3BC=torch.empty(looks_every, 3, count, settings.kept, device=device),
        )

    @property
    def size(self) -> Size:
        """The size that there is memory for."""
        mask_B11S = self.states[0].memory_mask_B11S
        return Size(len(mask_B11S), mask_B11S.shape[3], self.forced_BR.shape[1])

    def resized(self, resize: Resize, size: Size) -> Beam:
        """A beam of tensors that ``resize`` makes."""
        sentences, beam = size.sentences, self.tokens_BW.shape[1]
        return Beam(
            resize(self.tokens_BW, (sentences, beam)),
            resize(self.scores_BW, (sentences, beam)),
            resize(self.places_B1, (sentences, 1)),
            resize(self.forced_BR, (sentences, size.room)),
            resize(self.uniform_BRW, (sentences, size.room, self.uniform_BRW.shape[2])),
            resize(self.written_BWR, (sentences, self.written_BWR.shape[1], size.room)),
            tuple(state.resized(resize, sentences, size.source, size.room) for state in self.states),
            resize(self.chosen_L3BC, (len(self.chosen_L3BC), 3, sentences, self.chosen_L3BC.shape[3])),
        )

    def narrowed(self, size: Size) -> Beam:
        """A part of the same tensors, as far as they reach."""
        return self.resized(narrow, size)

    def used(self, length: int) -> Beam:
        """The same tensors without the slots of the caches that nothing is written into yet.

        Args:
            length: the number of pieces so far.
        """
        size = self.size
        states = (state.resized(narrow, size.sentences, size.source, length) for state in self.states)
        return dataclasses.replace(self, states=tuple(states))

    def tensors(self) -> Iterator[Tensor]:
        """The tensors that hold something of each sentence."""
        yield from (self.tokens_BW, self.scores_BW, self.places_B1)
        yield from (self.forced_BR, self.uniform_BRW, self.written_BWR)
        for state in self.states:
            yield from state.tensors()

    def take(self, other: Beam) -> None:
        """Copy what a smaller one holds."""
        for mine, theirs in zip(self.tensors(), other.tensors(), strict=True):
            mine[tuple(slice(length) for length in theirs.shape)] = theirs

    def move(self, rows: NDArray[np.int64], into: NDArray[np.int64]) -> None:
        """Copy what is held of some sentences over that of others."""
        rows_B, into_B = (to_device(torch.from_numpy(each), self.tokens_BW.device) for each in (rows, into))
        for tensor in self.tensors():
            tensor.index_copy_(0, into_B, tensor.index_select(0, rows_B))


def _doubled(size: int, least: int) -> int:
    while size < least:
        size *= 2
    return size
