"""What the decoder attends to: keys and values of the target so far, and of the encoded source (the memory).

In training the whole target is there at once (:class:`WholeTarget`). In a search it grows by a piece per step
(:class:`DecodingState`): all hypotheses of a sentence share the keys and values of every piece that any of them ever
wrote, and a mask tells each hypothesis which of them are its own past. To follow another hypothesis is to take over a
row of that mask; no key or value is copied.

Shapes: B sentences, W hypotheses of each (the beam), S source pieces, X pieces written by all hypotheses of a sentence
together, H heads, K size of a head's queries and keys, V size of a head's values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from nmt.model.attention import MultiHeadAttention
from nmt.model.masks import AdditiveMask, Mask, PaddedRows, additive_mask
from nmt.model.packing import PackedSequences
from nmt.model.slots import Slots


class Past(Protocol):
    """What a decoder layer attends to."""

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Mask]:
        """Keys and values of the target so far, the given ones included, and their mask."""
        ...

    def memory(self, attention: MultiHeadAttention) -> tuple[Tensor, Tensor, Mask]:
        """Keys and values of the encoded source, and their mask."""
        ...


class SearchState(Protocol):
    """The state of a search: the input of :meth:`Transformer.step` beside the next pieces."""

    @property
    def position(self) -> int | Tensor:
        """The position of the pieces that a step reads."""
        ...

    def begin_step(self, hypotheses: Slots, neighbours: int | None) -> tuple[Sequence[Past], Self]:
        """What each layer attends to in a step, and the state after it but for the pieces that the layers write.

        Args:
            hypotheses: where the rows lie among the places of all beams (B, W).
            neighbours: how many steps back a piece attends; None if to all.
        """
        ...

    def end_step(self, pasts: Sequence[Any]) -> Self:
        """The state after a step, with what its layers wrote."""
        ...


@dataclass(frozen=True)
class Encoded:
    """The encoder's output for a batch of sentences."""

    memory_MD: Tensor
    source: PackedSequences


@dataclass(frozen=True)
class WholeTarget:
    """The past of a whole target: each piece attends to itself and to those before it."""

    encoded: Encoded
    target_mask: Mask
    """Forbids attention to later pieces."""
    memory_mask: Mask

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Mask]:
        """As :meth:`Past.extend`."""
        return key, value, self.target_mask

    def memory(self, attention: MultiHeadAttention) -> tuple[Tensor, Tensor, Mask]:
        """As :meth:`Past.memory`."""
        return *attention.project_memory(self.encoded.memory_MD), self.memory_mask


@dataclass(frozen=True)
class Growing:
    """Grows along X as by ``torch.cat``. Appending writes into the memory of this value: append to each value once."""

    buffer_BHXK: Tensor
    """Filled up to :attr:`length`."""
    length: int = 0

    def last(self, positions: int) -> Tensor:
        """The positions appended last (B, H, X, K)."""
        return self.buffer_BHXK[:, :, self.length - positions : self.length]

    def append(self, new_BHWK: Tensor, room: int) -> Growing:
        """Add positions.

        Args:
            room: further positions to make room for, if there is no room for the new ones.
        """
        buffer_BHXK, length = self.buffer_BHXK, self.length + new_BHWK.shape[2]
        if length > buffer_BHXK.shape[2]:
            sentences, heads, _, size = new_BHWK.shape
            buffer_BHXK = new_BHWK.new_empty(sentences, heads, length + room, size)
            buffer_BHXK[:, :, : self.length] = self.last(self.length)
        buffer_BHXK[:, :, self.length : length] = new_BHWK
        return Growing(buffer_BHXK, length)

    def select(self, sentences_B: Tensor) -> Growing:
        """Keep only some sentences."""
        return Growing(self.buffer_BHXK.index_select(0, sentences_B), self.length)


@dataclass(frozen=True)
class LayerState:
    """Keys and values of one decoder layer: of the pieces written so far, and of the memory."""

    key: Growing
    value: Growing
    memory_key_BHSK: Tensor
    memory_value_BHSV: Tensor

    @staticmethod
    def begin(memory_key_BHSK: Tensor, memory_value_BHSV: Tensor) -> LayerState:
        """Nothing is written yet."""
        key, value = Growing(memory_key_BHSK[:, :, :0]), Growing(memory_value_BHSV[:, :, :0])
        return LayerState(key, value, memory_key_BHSK.contiguous(), memory_value_BHSV.contiguous())

    def append(self, key_BHWK: Tensor, value_BHWV: Tensor) -> LayerState:
        """Add keys and values of the pieces that are written now."""
        # A target is about as long as its source: with twice that, few searches make room more than twice.
        room = 2 * self.memory_key_BHSK.shape[2] * key_BHWK.shape[2]
        key, value = self.key.append(key_BHWK, room), self.value.append(value_BHWV, room)
        return LayerState(key, value, self.memory_key_BHSK, self.memory_value_BHSV)

    def select(self, sentences_B: Tensor) -> LayerState:
        """Keep only some sentences."""
        key, value = self.key.select(sentences_B), self.value.select(sentences_B)
        memory = (tensor.index_select(0, sentences_B) for tensor in (self.memory_key_BHSK, self.memory_value_BHSV))
        return LayerState(key, value, *memory)


@dataclass(frozen=True)
class DecodingState:
    """The input of :meth:`Transformer.step` beside the next pieces.

    A step writes into the memory of its state, so use each state for one step only.
    """

    length: int
    """Pieces that each hypothesis has read."""
    layers: tuple[LayerState, ...]
    memory_mask_B11S: Tensor
    past_BWX: Tensor
    """0 where a piece is a hypothesis' own past, -inf where it belongs to others. It may lack the first pieces."""
    beams: tuple[int, ...] = ()
    """Hypotheses of each step whose pieces are in ``past_BWX``."""

    def select(self, parents_BW: Tensor, sentences_B: Tensor | None = None) -> DecodingState:
        """Continue each hypothesis from another one of its sentence.

        Args:
            parents_BW: the parent of each new hypothesis, as its place in the beam. The beam may grow or shrink.
            sentences_B: indices of the sentences to keep, in the order of ``parents_BW``; all if None.
        """
        layers, mask_B11S, past_BWX = self.layers, self.memory_mask_B11S, self.past_BWX
        if sentences_B is not None:
            layers = tuple(layer.select(sentences_B) for layer in layers)
            mask_B11S, past_BWX = mask_B11S.index_select(0, sentences_B), past_BWX.index_select(0, sentences_B)
        past_BWX = past_BWX.gather(1, parents_BW[:, :, None].expand(-1, -1, past_BWX.shape[2]))
        return replace(self, layers=layers, memory_mask_B11S=mask_B11S, past_BWX=past_BWX)

    @property
    def position(self) -> int:
        """As :attr:`SearchState.position`."""
        return self.length

    def begin_step(self, hypotheses: Slots, neighbours: int | None) -> tuple[list[StepPast], DecodingState]:
        """As :meth:`SearchState.begin_step`."""
        recent, beam = self.recent(neighbours), hypotheses.length
        past_BWX = recent.past_and_present(beam)
        past_mask = PaddedRows(hypotheses, None, AdditiveMask(past_BWX[:, None]))
        memory_mask = PaddedRows(hypotheses, None, AdditiveMask(self.memory_mask_B11S))
        pasts = [StepPast(layer, hypotheses, past_BWX.shape[2], past_mask, memory_mask) for layer in self.layers]
        beams = (*recent.beams, beam)
        return pasts, replace(self, length=self.length + 1, past_BWX=past_BWX, beams=beams)

    def end_step(self, pasts: Sequence[StepPast]) -> DecodingState:
        """As :meth:`SearchState.end_step`."""
        return replace(self, layers=tuple(past.layer for past in pasts))

    def recent(self, steps: int | None) -> DecodingState:
        """The state in which hypotheses attend to the last steps alone (restricted self-attention); to all if None."""
        if steps is None or len(self.beams) <= steps:
            return self
        far = sum(self.beams[:-steps])
        return replace(self, past_BWX=self.past_BWX[:, :, far:], beams=self.beams[-steps:])

    def past_and_present(self, beam: int) -> Tensor:
        """The mask (B, W, X + W) of a step in which every hypothesis writes a piece and attends to its own ones."""
        others_WW = ~torch.eye(beam, dtype=torch.bool, device=self.past_BWX.device)
        present_WW = additive_mask(others_WW, self.past_BWX.dtype)
        return torch.cat([self.past_BWX, present_WW.expand(len(self.past_BWX), -1, -1)], dim=2)


@dataclass
class StepPast:
    """The past of one layer in one step; :attr:`layer` becomes its state after the step."""

    layer: LayerState
    hypotheses: Slots
    attended: int
    """The number of pieces, written last, that the mask is about; those before them are too far away."""
    past_mask: Mask
    memory_mask: Mask

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Mask]:
        """As :meth:`Past.extend`."""
        self.layer = self.layer.append(*self.hypotheses.spread(key, value))
        return self.layer.key.last(self.attended), self.layer.value.last(self.attended), self.past_mask

    def memory(self, attention: MultiHeadAttention) -> tuple[Tensor, Tensor, Mask]:
        """As :meth:`Past.memory`."""
        return self.layer.memory_key_BHSK, self.layer.memory_value_BHSV, self.memory_mask
