"""What the decoder attends to: keys and values of the target so far, and of the encoded source (the memory).

In training the whole target is there at once (:class:`WholeTarget`). In a search it grows by a piece per step
(:class:`DecodingState`): all hypotheses of a sentence share the keys and values of every piece that any of them ever
wrote, and a mask tells each hypothesis which of them are its own past. To follow another hypothesis is to take over a
row of that mask; no key or value is copied.

Shapes: B sentences, W hypotheses of each (the beam), S source pieces, R steps that there is room for, X = R · W slots
of written pieces, H heads, K size of a head's queries and keys, V size of a head's values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from nmt.model.attention import MultiHeadAttention
from nmt.model.masks import AdditiveMask, Mask, PaddedMask, PaddedRows, SoFarMask, StepAttention, additive_mask
from nmt.model.packing import PackedSequences
from nmt.model.slots import Slots

Length = int | Tensor
"""The number of pieces that each hypothesis has; on the device (1) if a GPU records the step."""
Resize = Callable[[Tensor, tuple[int, ...]], Tensor]
"""Makes a tensor of a shape from one of another shape."""


class Past(Protocol):
    """What a decoder layer attends to."""

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Mask]:
        """Keys and values of the target so far, the given ones included, and their mask."""
        ...

    def memory(self, attention: MultiHeadAttention) -> tuple[Tensor, Tensor, Mask]:
        """Keys and values of the encoded source, and their mask."""
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
class LayerCache:
    """Keys and values of one decoder layer."""

    written: tuple[Tensor, Tensor]
    """Of the pieces in each slot: (B, H, X, K) and (B, H, X, V)."""
    memory: tuple[Tensor, Tensor]
    """Of the encoded source: (B, H, S, K) and (B, H, S, V)."""

    @staticmethod
    def begin(memory: tuple[Tensor, ...], slots: int) -> LayerCache:
        """Nothing is written yet.

        Args:
            memory: keys (B, H, S, K) and values (B, H, S, V) of the encoded source.
            slots: the number of slots.
        """
        key, value = (each.new_empty(*each.shape[:2], slots, each.shape[3]) for each in memory)
        memory_key, memory_value = (each.contiguous() for each in memory)
        return LayerCache((key, value), (memory_key, memory_value))

    def resized(self, resize: Resize, sentences: int, source: int, slots: int) -> LayerCache:
        """As :meth:`DecodingState.resized`."""

        def pair(tensors: tuple[Tensor, Tensor], length: int) -> tuple[Tensor, Tensor]:
            key, value = (resize(each, (sentences, each.shape[1], length, each.shape[3])) for each in tensors)
            return key, value

        return LayerCache(pair(self.written, slots), pair(self.memory, source))


@dataclass(frozen=True)
class DecodingState:
    """The KV cache of a search, with room for a number of steps. Steps change it in place.

    The pieces of step t lie in the slots from t · W on.
    """

    past_BWX: Tensor
    """0 where a piece is a hypothesis' own past, -inf where it belongs to others. A step whose length is on the device
    may read all slots: those that are not written yet hold -inf, and their keys and values are finite."""
    own_WW: Tensor
    """Of the pieces that a step writes, 0 at a hypothesis' own one, -inf at others."""
    memory_mask_B11S: Tensor
    """0 at source pieces, -inf elsewhere."""
    layers: tuple[LayerCache, ...]

    @staticmethod
    def begin(memory_mask_B11S: Tensor, layers: tuple[LayerCache, ...], beam: int, room: int) -> DecodingState:
        """Nothing is written yet.

        Args:
            room: the number of steps.
        """
        others_WW = ~torch.eye(beam, dtype=torch.bool, device=memory_mask_B11S.device)
        past_BWX = memory_mask_B11S.new_empty(len(memory_mask_B11S), beam, room * beam)
        return DecodingState(past_BWX, additive_mask(others_WW, past_BWX.dtype), memory_mask_B11S, layers)

    def begin_step(
        self,
        length: Length,
        hypotheses: Slots,
        neighbours: int | None,
        step_attention: StepAttention | None,
    ) -> list[StepPast]:
        """What each layer attends to in a step.

        Args:
            length: the number of pieces before the step.
            hypotheses: where the rows lie among the places of all beams (B, W).
            neighbours: how many steps back a piece attends; None if to all.
            step_attention: attends where the length is on the device; None if the usual attention does, to all slots.
        """
        beam = hypotheses.length
        written: slice | Tensor
        if isinstance(length, int):
            begin, end = length * beam, (length + 1) * beam
            written = slice(begin, end)
            attended = slice(0 if neighbours is None else max(0, length - neighbours) * beam, end)
        else:
            slot_X = torch.arange(self.past_BWX.shape[2], device=length.device)
            written, attended = length * beam + slot_X[:beam], slice(None)
            if neighbours is not None:
                self.past_BWX.masked_fill_(slot_X < (length - neighbours) * beam, -torch.inf)
        self.past_BWX[:, :, written] = self.own_WW
        past_BWX = self.past_BWX[:, :, attended]
        if attended.start:
            past_BWX = past_BWX.contiguous()  # a GPU's fused attention reads masks from aligned addresses
        so_far: PaddedMask = AdditiveMask(past_BWX[:, None])
        if step_attention is not None and not isinstance(length, int):
            so_far = SoFarMask(step_attention, past_BWX, length)
        past_mask = PaddedRows(hypotheses, None, so_far)
        memory_mask = PaddedRows(hypotheses, None, AdditiveMask(self.memory_mask_B11S))
        return [StepPast(layer, hypotheses, written, attended, past_mask, memory_mask) for layer in self.layers]

    def follow(self, length: Length, parents_BW: Tensor) -> None:
        """After a step, continue each hypothesis from another one of its sentence, its parent.

        Args:
            length: the number of pieces before the step.
        """
        beam = parents_BW.shape[1]
        if beam > 1:
            past_BWX = self.past_BWX[:, :, : (length + 1) * beam] if isinstance(length, int) else self.past_BWX
            past_BWX.copy_(past_BWX.gather(1, parents_BW[:, :, None].expand_as(past_BWX)))

    def resized(self, resize: Resize, sentences: int, source: int, room: int) -> DecodingState:
        """A state of tensors that ``resize`` makes, for numbers of sentences, source pieces and steps."""
        slots = room * self.past_BWX.shape[1]
        return DecodingState(
            resize(self.past_BWX, (sentences, self.past_BWX.shape[1], slots)),
            self.own_WW,
            resize(self.memory_mask_B11S, (sentences, 1, 1, source)),
            tuple(layer.resized(resize, sentences, source, slots) for layer in self.layers),
        )

    def tensors(self) -> Iterator[Tensor]:
        """The tensors that hold something of each sentence."""
        yield from (self.past_BWX, self.memory_mask_B11S)
        for layer in self.layers:
            yield from (*layer.written, *layer.memory)


@dataclass(frozen=True)
class StepPast:
    """What one layer attends to in one step."""

    layer: LayerCache
    hypotheses: Slots
    written: slice | Tensor
    """The slots of the pieces of the step."""
    attended: slice
    """The slots that the mask is about."""
    past_mask: Mask
    memory_mask: Mask

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Mask]:
        """As :meth:`Past.extend`."""
        key_BHXK, value_BHXV = self.layer.written
        key_BHXK[:, :, self.written], value_BHXV[:, :, self.written] = self.hypotheses.spread(key, value)
        return key_BHXK[:, :, self.attended], value_BHXV[:, :, self.attended], self.past_mask

    def memory(self, attention: MultiHeadAttention) -> tuple[Tensor, Tensor, Mask]:
        """As :meth:`Past.memory`."""
        return *self.layer.memory, self.memory_mask


def narrow(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The first of each dimension, as far as there are so many: a view."""
    return tensor[tuple(map(slice, shape))]
