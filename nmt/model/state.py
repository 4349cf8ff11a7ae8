"""The past that a decoder looks at: keys and values of what was written, and of what the encoder read.

Of a whole target all is there at once. Step by step it grows, and is held once for a whole beam: all hypotheses of a
sentence look at the same keys and values, those of every piece that any of them ever wrote; a mask tells each which
pieces are its own past. To follow another hypothesis is then to take over a row of that mask, and nothing is copied,
however long the past.

Shapes: B sentences, W hypotheses of each (the beam), S source pieces, X pieces written by all hypotheses of a sentence
together, H heads, K size of a head's queries and keys, V size of a head's values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from nmt.kernels.packing import Packing
from nmt.model.attention import Attention


class Past(Protocol):
    """What a layer of the decoder looks at."""

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Keys and values of all that is written, with those that are written now, and the mask of who sees what."""
        ...

    def memory(self, attention: Attention) -> tuple[Tensor, Tensor, Tensor]:
        """Keys and values of what the encoder read, and its mask."""
        ...


@dataclass(frozen=True)
class Encoded:
    """What the encoder made of a batch of sentences."""

    memory_MD: Tensor
    packing: Packing
    mask_B11S: Tensor
    """0 at pieces, -inf at padding."""


@dataclass(frozen=True)
class WholeTarget:
    """The past where all of a target is there at once: each piece sees those before it."""

    encoded: Encoded
    causal_TT: Tensor
    """-inf where a piece would look ahead."""

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As :meth:`Past.extend`."""
        return key, value, self.causal_TT

    def memory(self, attention: Attention) -> tuple[Tensor, Tensor, Tensor]:
        """As :meth:`Past.memory`."""
        return *attention.project_memory(self.encoded.memory_MD, self.encoded.packing), self.encoded.mask_B11S


@dataclass(frozen=True)
class LayerState:
    """Keys and values of one decoder layer: of the pieces written so far, with room for more, and of the memory."""

    self_key_BHXK: Tensor
    self_value_BHXV: Tensor
    memory_key_BHSK: Tensor
    memory_value_BHSV: Tensor

    @staticmethod
    def begin(memory_key_BHSK: Tensor, memory_value_BHSV: Tensor) -> LayerState:
        """Nothing is written yet."""
        key, value = memory_key_BHSK[:, :, :0], memory_value_BHSV[:, :, :0]
        return LayerState(key, value, memory_key_BHSK.contiguous(), memory_value_BHSV.contiguous())

    def append(self, written: int, key_BHWK: Tensor, value_BHWV: Tensor) -> LayerState:
        """Write keys and values behind the first ``written``, in place where there is room."""
        # Targets are about as long as their sources, so this makes room twice at most, but for a few.
        room = 2 * self.memory_key_BHSK.shape[2] * key_BHWK.shape[2]
        return LayerState(
            _appended(self.self_key_BHXK, written, key_BHWK, room),
            _appended(self.self_value_BHXV, written, value_BHWV, room),
            self.memory_key_BHSK,
            self.memory_value_BHSV,
        )

    def keep(self, sentences_B: Tensor) -> LayerState:
        """The rows of some sentences alone."""
        return LayerState(
            self.self_key_BHXK.index_select(0, sentences_B),
            self.self_value_BHXV.index_select(0, sentences_B),
            self.memory_key_BHSK.index_select(0, sentences_B),
            self.memory_value_BHSV.index_select(0, sentences_B),
        )


def _appended(held_BHXK: Tensor, written: int, new_BHWK: Tensor, room: int) -> Tensor:
    needed = written + new_BHWK.shape[2]
    if needed > held_BHXK.shape[2]:
        sentences, heads, _, size = new_BHWK.shape
        roomy_BHXK = new_BHWK.new_empty(sentences, heads, needed + room, size)
        roomy_BHXK[:, :, :written] = held_BHXK[:, :, :written]
        held_BHXK = roomy_BHXK
    held_BHXK[:, :, written:needed] = new_BHWK
    return held_BHXK


@dataclass(frozen=True)
class DecodingState:
    """All that :meth:`Transformer.step` needs to go on.

    A step writes into the room behind what was written, so go on from each state only once.
    """

    length: int
    """Pieces that each hypothesis has read."""
    layers: tuple[LayerState, ...]
    memory_mask_B11S: Tensor
    past_BWX: Tensor
    """0 where a piece is a hypothesis' own past, -inf where it belongs to others."""

    @property
    def written(self) -> int:
        """Pieces whose keys and values are held, of all hypotheses of a sentence."""
        return self.past_BWX.shape[2]

    def select(self, parents_BW: Tensor, sentences_B: Tensor | None = None) -> DecodingState:
        """Make each hypothesis go on where another of its sentence stood; keep only some sentences where given.

        Args:
            parents_BW: for each new hypothesis its place among the present ones, of the sentences that stay. The beam
                may grow or shrink by it.
            sentences_B: indices of the sentences that stay, in the order of ``parents_BW``; all if None.
        """
        layers, mask_B11S, past_BWX = self.layers, self.memory_mask_B11S, self.past_BWX
        if sentences_B is not None:
            layers = tuple(layer.keep(sentences_B) for layer in layers)
            mask_B11S, past_BWX = mask_B11S.index_select(0, sentences_B), past_BWX.index_select(0, sentences_B)
        past_BWX = past_BWX.gather(1, parents_BW[:, :, None].expand(-1, -1, past_BWX.shape[2]))
        return DecodingState(self.length, layers, mask_B11S, past_BWX)

    def past_and_present(self, beam: int) -> Tensor:
        """The mask (B, W, X + W) of a step in which every hypothesis writes one more piece, and sees its own alone."""
        others_WW = ~torch.eye(beam, dtype=torch.bool, device=self.past_BWX.device)
        present_WW = additive(others_WW, self.past_BWX.dtype)
        return torch.cat([self.past_BWX, present_WW.expand(len(self.past_BWX), -1, -1)], dim=2)


class StepPast:
    """The past of one layer in one step; :attr:`layer` is what the next step goes on from."""

    def __init__(self, layer: LayerState, state: DecodingState, past_B1WX: Tensor) -> None:
        self.layer = layer
        self._state = state
        self._past_B1WX = past_B1WX

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As :meth:`Past.extend`."""
        self.layer = self.layer.append(self._state.written, key, value)
        written = self._past_B1WX.shape[-1]
        return self.layer.self_key_BHXK[:, :, :written], self.layer.self_value_BHXV[:, :, :written], self._past_B1WX

    def memory(self, attention: Attention) -> tuple[Tensor, Tensor, Tensor]:
        """As :meth:`Past.memory`."""
        return self.layer.memory_key_BHSK, self.layer.memory_value_BHSV, self._state.memory_mask_B11S


def additive(forbidden: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask to add to scores: 0 where allowed, -inf where forbidden."""
    return torch.zeros(forbidden.shape, dtype=dtype, device=forbidden.device).masked_fill_(forbidden, -torch.inf)
