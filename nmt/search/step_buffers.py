"""All tensors that a step of a search reads and writes, in places and sizes that do not change between steps.

Spare sentences fill the buffers up. They have no live hypothesis, and no other sentence sees what they hold.

Shapes: B sentences, W places of the beam, S source pieces, R steps that there is room for, X = R · W slots of pieces
written, L steps between two looks of the host, H heads, K size of a head.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.device import to_device
from nmt.model.fixed_state import FixedLayer, FixedState
from nmt.model.state import DecodingState
from nmt.search.step_sizes import Size
from nmt.special_ids import BOS

_ALIGNMENT = 256  # bytes, as torch aligns the memory of a GPU

Shape = tuple[int, ...]
Layout = Mapping[str, tuple[Shape, torch.dtype]]
"""The shape and dtype of each tensor, by name."""


@dataclass(frozen=True)
class DecoderShape:
    """What the keys and values of a model's decoder look like."""

    layers: int
    heads: int
    key_size: int
    value_size: int
    dtype: torch.dtype

    @staticmethod
    def of(start: DecodingState) -> DecoderShape:
        """The shape of a search's first state."""
        memory_key_BHSK, memory_value_BHSV = start.layers[0].memory_key_BHSK, start.layers[0].memory_value_BHSV
        key_size, value_size = memory_key_BHSK.shape[3], memory_value_BHSV.shape[3]
        return DecoderShape(len(start.layers), memory_key_BHSK.shape[1], key_size, value_size, memory_key_BHSK.dtype)


@dataclass(frozen=True)
class Content:
    """What the buffers of a size hold for some sentences. It carries a search into the buffers of another size."""

    steps: int
    of_sentences: Mapping[str, Tensor]
    """The rows of the sentences, by the names of tensors."""

    @staticmethod
    def of_start(start: DecodingState, beam: int) -> Content:
        """Nothing is written yet: a single live hypothesis per sentence."""
        mask_B11S = start.memory_mask_B11S
        count, device = len(mask_B11S), mask_B11S.device
        scores_BW = torch.full((count, beam), -torch.inf, device=device)
        scores_BW[:, 0] = 0
        tensors = {
            "tokens": torch.full((count, beam), BOS, device=device),
            "scores": scores_BW,
            "places": torch.full((count, 1), beam, device=device),
            "memory_mask": mask_B11S,
        }
        for index, layer in enumerate(start.layers):
            tensors[f"memory_key.{index}"] = layer.memory_key_BHSK
            tensors[f"memory_value.{index}"] = layer.memory_value_BHSV
        return Content(0, tensors)


class StepBuffers:
    """The tensors of one size."""

    def __init__(self, tensors: Mapping[str, Tensor], layers: int) -> None:
        """Take the tensors of a :func:`layout`, and the number of decoder layers."""
        self._tensors = tensors
        self.tokens_BW = tensors["tokens"]
        """The last piece of each hypothesis."""
        self.scores_BW = tensors["scores"]
        """The log-probability of each live hypothesis; -inf marks an empty place."""
        self.places_B1 = tensors["places"]
        """The places of the beam minus the finished hypotheses."""
        self.forced_BR = tensors["forced"]
        """The only piece that is allowed in each step; -1 where there are others."""
        self.chosen_L3BW = tensors["chosen"]
        """Of the steps since the host looked: log-probabilities, parents and pieces."""
        self.state = FixedState(
            tensors["steps"],
            tensors["past"],
            tensors["memory_mask"],
            tuple(
                FixedLayer(*(tensors[f"{name}.{index}"] for name in ("key", "value", "memory_key", "memory_value")))
                for index in range(layers)
            ),
        )

    def put(self, content: Content, forced_BR: NDArray[np.int64]) -> None:
        """Take over the sentences of another size, or of the beginning of a search.

        Args:
            forced_BR: what :attr:`forced_BR` holds for these sentences.
        """
        for name, tensor in self._tensors.items():
            # Masked slots may hold any finite number.
            tensor.fill_(_EMPTY.get(name, 0))
        for name, rows in content.of_sentences.items():
            self._tensors[name][tuple(slice(length) for length in rows.shape)] = rows
        count = len(forced_BR)
        # A spare sentence sees its empty memory: a row that sees nothing would not be finite.
        self.state.memory_mask_B11S[count:] = 0
        self.state.steps_1.fill_(content.steps)
        self.forced_BR[:count] = to_device(torch.from_numpy(forced_BR), self.forced_BR.device)

    def content(self, rows: NDArray[np.int64], steps: int) -> Content:
        """What the buffers hold for some sentences after a number of steps, copied."""
        rows_B = to_device(torch.from_numpy(rows), self.tokens_BW.device)
        slots = steps * self.tokens_BW.shape[1]
        found = {}
        for name, tensor in self._tensors.items():
            kind = name.split(".")[0]
            if kind not in _NOT_OF_SENTENCES:
                used = tensor.narrow(2, 0, slots) if kind in ("key", "value", "past") else tensor
                found[name] = used.index_select(0, rows_B)
        return Content(steps, found)


_EMPTY = {"tokens": BOS, "scores": -torch.inf, "forced": -1, "past": -torch.inf, "memory_mask": -torch.inf}
"""What the tensors hold where nothing was put, unless it is 0."""
_NOT_OF_SENTENCES = ("steps", "chosen", "forced")


def layout(size: Size, decoder: DecoderShape, looks_every: int) -> Layout:
    """The tensors of a size.

    Args:
        looks_every: steps between two looks of the host.
    """
    sentences, beam, slots, dtype = size.sentences, size.beam, size.room * size.beam, decoder.dtype
    tensors: dict[str, tuple[Shape, torch.dtype]] = {
        "steps": ((1,), torch.int64),
        "tokens": ((sentences, beam), torch.int64),
        "scores": ((sentences, beam), torch.float32),
        "places": ((sentences, 1), torch.int64),
        "forced": ((sentences, size.room), torch.int64),
        "chosen": ((looks_every, 3, sentences, beam), torch.float32),
        "past": ((sentences, beam, slots), dtype),
        "memory_mask": ((sentences, 1, 1, size.source), dtype),
    }
    for index in range(decoder.layers):
        for name, head_size in (("key", decoder.key_size), ("value", decoder.value_size)):
            tensors[f"{name}.{index}"] = (sentences, decoder.heads, slots, head_size), dtype
            tensors[f"memory_{name}.{index}"] = (sentences, decoder.heads, size.source, head_size), dtype
    return tensors


class Arena:
    """Memory for the buffers of one search at a time: those of all sizes lie in the same place."""

    def __init__(self, device: torch.device, size: int) -> None:
        """Allocate a number of bytes."""
        self._bytes = torch.empty(size, dtype=torch.uint8, device=device)

    def tensors(self, layout: Layout) -> dict[str, Tensor]:
        """The tensors of a layout that fits."""
        found, begin = {}, 0
        for name, (shape, dtype) in layout.items():
            size = prod(shape) * dtype.itemsize
            found[name] = self._bytes[begin : begin + size].view(dtype).view(shape)
            begin += _aligned(size)
        return found

    def fits(self, layout: Layout) -> bool:
        """Whether a layout fits."""
        return bytes_of(layout) <= len(self._bytes)


def bytes_of(layout: Layout) -> int:
    """The memory that the tensors of a layout take."""
    return sum(_aligned(prod(shape) * dtype.itemsize) for shape, dtype in layout.values())


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
