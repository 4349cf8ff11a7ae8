"""Where rows lie among the positions of padded sentences: heads of rows become heads of padded sentences, and back.

Shapes: B sentences, T positions of each, S slots (B · T), N rows, D any features, H heads, K size of a head; W
hypotheses of a sentence.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.machine.device import to_device


class Slots:
    """Where each row lies among the positions of padded sentences (B, T), its slots.

    Rows at the end may be spare: they have no slot, and no gradient comes from them.
    """

    def __init__(self, sentences: int, length: int, slot_N: Tensor | None = None, row_S: Tensor | None = None) -> None:
        """Take the size of the padded sentences.

        Args:
            slot_N: the slot of each row that is not spare; if None, every slot has a row, in order.
            row_S: the row of each slot; any row for an empty slot.
        """
        self.sentences = sentences
        self.length = length
        self._slot_N, self._row_S = slot_N, row_S
        self._indices: dict[tuple[int, ...], Tensor] = {}

    @staticmethod
    def of_lengths(lengths_B: NDArray[np.int64], device: torch.device) -> Slots:
        """The slots of the pieces of sentences, padded on the right to the length of the longest."""
        real_BT = np.arange(lengths_B.max(initial=0)) < lengths_B[:, None]
        sentences, length = real_BT.shape
        if real_BT.all():
            return Slots(sentences, length)
        # An empty slot takes the row before it.
        slots = np.flatnonzero(real_BT), (np.cumsum(real_BT) - 1).clip(min=0)
        slot_N, row_S = (to_device(torch.from_numpy(array), device) for array in slots)
        return Slots(sentences, length, slot_N, row_S)

    @staticmethod
    def of_live(live_BW: Tensor) -> Slots:
        """The slots of live hypotheses, counted on their device."""
        live_S, (sentences, beam) = live_BW.flatten(), live_BW.shape
        return Slots(sentences, beam, live_S.nonzero().squeeze(1), (live_S.cumsum(0) - 1).clamp_(min=0))

    @property
    def rows(self) -> int:
        """The number of rows, without spare ones."""
        return self.sentences * self.length if self._slot_N is None else len(self._slot_N)

    @cached_property
    def empty(self) -> Tensor | None:
        """True at the slots without a row (B, T); None if there is none."""
        if self._slot_N is None or self._row_S is None:
            return None
        is_empty_S = torch.ones_like(self._row_S, dtype=torch.bool)
        return is_empty_S.index_fill_(0, self._slot_N, False).view(self.sentences, self.length)

    def pack(self, x_BTD: Tensor, spare_rows: int = 0) -> Tensor:
        """The rows (N, …) of padded sentences, then spare rows of zeros."""
        x_ND = x_BTD.flatten(0, 1)
        if self._slot_N is not None:
            x_ND = x_ND.index_select(0, self._slot_N)
        return torch.cat([x_ND, x_ND.new_zeros(spare_rows, *x_ND.shape[1:])]) if spare_rows else x_ND

    def pad(self, x_ND: Tensor) -> Tensor:
        """Rows as padded sentences (B, T, D); zero at empty slots."""
        if self._slot_N is None:
            return x_ND[: self.sentences * self.length].view(self.sentences, self.length, -1)
        padded_SD = x_ND.new_zeros(self.sentences * self.length, x_ND.shape[1])
        # In place it is slower on a CPU: the allocator then returns the memory of wide rows to the system in each step.
        padded_SD = padded_SD.index_copy(0, self._slot_N, x_ND[: len(self._slot_N)])
        return padded_SD.view(self.sentences, self.length, -1)

    def spread(self, *heads_NHK: Tensor) -> tuple[Tensor, ...]:
        """Heads of rows as heads of padded sentences (B, H, T, K).

        Values at empty slots are undefined and pass on no gradient: mask them as keys, and ignore what queries find.
        """
        if self._slot_N is None and not torch.is_grad_enabled():
            shape = self.sentences, self.length
            return tuple(x[: self.rows].view(*shape, *x.shape[1:]).transpose(1, 2) for x in heads_NHK)
        spread: tuple[Tensor, ...] = _Spread.apply(self, *heads_NHK)  # type: ignore[no-untyped-call]
        return spread

    def collect(self, x_BHTK: Tensor, rows: int) -> Tensor:
        """Heads of rows (N, H, K) of heads of padded sentences: the inverse of :meth:`spread`.

        Args:
            rows: the number of rows, with spare ones.
        """
        if self._slot_N is None and not torch.is_grad_enabled() and rows == self.sentences * self.length:
            return x_BHTK.transpose(1, 2).flatten(0, 1)
        collected: Tensor = _Collect.apply(self, x_BHTK, rows)  # type: ignore[no-untyped-call]
        return collected

    def _spread(self, x_NHK: Tensor) -> Tensor:
        """In one copy, head by head, even if the heads of queries, keys and values lie side by side."""
        heads, size = x_NHK.shape[1:]
        if x_NHK.stride()[1:] != (size, 1) or x_NHK.stride(0) % size:
            x_NHK = x_NHK.contiguous()
        step = x_NHK.stride(0) // size
        # The heads of other parts lie between those of two rows.
        vectors = x_NHK.as_strided((step * (len(x_NHK) - 1) + heads, size), (size, 1), x_NHK.storage_offset())
        key = (step, heads)
        if key not in self._indices:
            row_S = self._row_S
            if row_S is None:
                row_S = torch.arange(self.sentences * self.length, device=x_NHK.device)
            row_B1T = row_S.view(self.sentences, 1, self.length)
            head_H1 = torch.arange(heads, device=x_NHK.device)[:, None]
            self._indices[key] = (row_B1T * step + head_H1).flatten()
        return vectors.index_select(0, self._indices[key]).view(self.sentences, heads, self.length, size)

    def _collect(self, x_BHTK: Tensor, rows: int) -> Tensor:
        heads, size = x_BHTK.shape[1], x_BHTK.shape[3]
        key = (heads,)
        if key not in self._indices:
            slot_N = self._slot_N
            if slot_N is None:
                slot_N = torch.arange(self.sentences * self.length, device=x_BHTK.device)
            sentence_N, position_N = slot_N // self.length, slot_N % self.length
            head_H = torch.arange(heads, device=x_BHTK.device)
            places_NH = (sentence_N[:, None] * heads + head_H) * self.length + position_N[:, None]
            self._indices[key] = places_NH.flatten()
        places = self._indices[key]
        vectors = x_BHTK.reshape(-1, size)
        if len(places) == rows * heads:
            return vectors.index_select(0, places).view(rows, heads, size)
        collected = vectors.new_empty(rows * heads, size)
        torch.index_select(vectors, 0, places, out=collected[: len(places)])
        collected[len(places) :].zero_()  # the spare rows
        return collected.view(rows, heads, size)


class _Spread(torch.autograd.Function):
    """Pad and transpose in one copy; its gradient does the inverse."""

    @staticmethod
    def forward(ctx: Any, slots: Slots, *heads_NHK: Tensor) -> tuple[Tensor, ...]:
        ctx.slots, ctx.rows = slots, len(heads_NHK[0])
        return tuple(slots._spread(x_NHK) for x_NHK in heads_NHK)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, *(ctx.slots._collect(gradient, ctx.rows) for gradient in gradients)


class _Collect(torch.autograd.Function):
    """The inverse of :class:`_Spread`."""

    @staticmethod
    def forward(ctx: Any, slots: Slots, x_BHTK: Tensor, rows: int) -> Tensor:
        ctx.slots = slots
        return slots._collect(x_BHTK, rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, None]:
        gradient_BHTK = ctx.slots._spread(gradients[0])
        if ctx.slots.empty is not None:
            gradient_BHTK.masked_fill_(ctx.slots.empty[:, None, :, None], 0)
        return None, gradient_BHTK, None
