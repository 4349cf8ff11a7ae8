"""The state of a search in tensors that keep their places and sizes, so that a GPU can record its steps.

As in :mod:`nmt.model.state`, the hypotheses of a sentence share the keys and values of every piece that any of them
wrote, and a mask tells each hypothesis which of them are its own past. Here there is room for a number of steps: the
pieces of step t lie in the slots from t · W on. A step changes the state in place, and counts steps on the device.

Shapes: B sentences, W hypotheses of each (the beam), S source pieces, R steps that there is room for, X = R · W slots,
H heads, K size of a head's queries and keys, V size of a head's values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.model.attention import MultiHeadAttention
from nmt.model.masks import AdditiveMask, Mask, PaddedRows, additive_mask
from nmt.model.slots import Slots


@dataclass(frozen=True)
class FixedLayer:
    """Keys and values of one decoder layer: of the pieces in each slot, and of the memory."""

    key_BHXK: Tensor
    value_BHXV: Tensor
    memory_key_BHSK: Tensor
    memory_value_BHSV: Tensor


@dataclass(frozen=True)
class FixedState:
    """The input of :meth:`~nmt.model.transformer.Transformer.step` beside the next pieces, which a step changes."""

    steps_1: Tensor
    """The number of pieces that each hypothesis has read."""
    past_BWX: Tensor
    """0 where a piece is a hypothesis' own past, -inf where it belongs to others or is not written yet."""
    memory_mask_B11S: Tensor
    """0 at source pieces, -inf elsewhere."""
    layers: tuple[FixedLayer, ...]
    """Keys and values. Those that the masks hide are finite."""

    @property
    def position(self) -> Tensor:
        """The position of the pieces that a step reads (1)."""
        return self.steps_1

    def begin_step(self, hypotheses: Slots, neighbours: int | None) -> tuple[list[FixedPast], FixedState]:
        """As :meth:`nmt.model.state.DecodingState.begin_step`; restricted self-attention has no such state."""
        assert neighbours is None
        beam = hypotheses.length
        slots_W = self.steps_1 * beam + torch.arange(beam, device=self.steps_1.device)
        others_WW = ~torch.eye(beam, dtype=torch.bool, device=self.steps_1.device)
        present_WW = additive_mask(others_WW, self.past_BWX.dtype)
        self.past_BWX.index_copy_(2, slots_W, present_WW.expand(len(self.past_BWX), -1, -1))
        past_mask = PaddedRows(hypotheses, None, AdditiveMask(self.past_BWX[:, None]))
        memory_mask = PaddedRows(hypotheses, None, AdditiveMask(self.memory_mask_B11S))
        return [FixedPast(layer, hypotheses, slots_W, past_mask, memory_mask) for layer in self.layers], self

    def end_step(self, pasts: Sequence[FixedPast]) -> FixedState:
        """As :meth:`nmt.model.state.DecodingState.end_step`."""
        self.steps_1.add_(1)
        return self

    def select(self, parents_BW: Tensor) -> None:
        """Continue each hypothesis from another one of its sentence, its parent."""
        self.past_BWX.copy_(self.past_BWX.gather(1, parents_BW[:, :, None].expand_as(self.past_BWX)))


@dataclass(frozen=True)
class FixedPast:
    """What one layer attends to in one step."""

    layer: FixedLayer
    hypotheses: Slots
    slots_W: Tensor
    """Where the pieces of the step lie."""
    past_mask: Mask
    memory_mask: Mask

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Mask]:
        """As :meth:`nmt.model.state.Past.extend`."""
        key_BHWK, value_BHWV = self.hypotheses.spread(key, value)
        self.layer.key_BHXK.index_copy_(2, self.slots_W, key_BHWK)
        self.layer.value_BHXV.index_copy_(2, self.slots_W, value_BHWV)
        return self.layer.key_BHXK, self.layer.value_BHXV, self.past_mask

    def memory(self, attention: MultiHeadAttention) -> tuple[Tensor, Tensor, Mask]:
        """As :meth:`nmt.model.state.Past.memory`."""
        return self.layer.memory_key_BHSK, self.layer.memory_value_BHSV, self.memory_mask
