"""Packed sequences: sentences one after the other, a row per piece, so that no time goes into padding.

Only attention needs to know which rows are a sentence. Flash attention is told where sentences end
(nmt/kernels/flash_attention.py). Every other attention takes padded sentences, made from the rows and back
(:class:`Slots`). The lengths are known on the host, so no device has to be waited for.

Shapes: B sentences, T positions of each, N rows, H heads, K size of a head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.device import to_device
from nmt.special_ids import PAD

Lengths = Sequence[int] | NDArray[np.int64]
"""Pieces of each sentence, on the host."""

SPARE_SENTENCES = 8
# Of compiled sizes: a multiple of the tiles of matrix products, and of flash attention's tiles.
_ROWS_STEP, _LENGTH_STEP = 128, 256


def rounded_up(count: int, sizes_per_octave: int = 8) -> int:
    """The next number that is allowed; ``sizes_per_octave`` are allowed from a power of two to the next."""
    step = max(1, (1 << (count - 1).bit_length()) // (2 * sizes_per_octave))
    return -(-count // step) * step


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


@dataclass(frozen=True, eq=False)
class PackedSequences:
    """Sentences one after the other. Rows at the end may be spare: they hold padding and count for nothing."""

    tokens_N: Tensor
    positions_N: Tensor
    """The position of each row in its sentence; 0 for spare rows."""
    cu_seqlens: Tensor
    """0, then where each sentence ends (int32). Spare rows are sentences too; sentences at the end may be empty."""
    max_seqlen: int
    """At least the number of rows of the longest sentence."""
    lengths_B: NDArray[np.int64]
    """Pieces of each sentence, on the host; without spare sentences."""

    @staticmethod
    def of(tokens_N: NDArray[np.int64], lengths_B: Lengths, size: PackedSize) -> PackedSequences:
        """Sentences on the host, filled up to a size."""
        return _packed(filled(tokens_N, size.rows), np.asarray(lengths_B, np.int64), size)

    @staticmethod
    def of_padded(tokens_BT: Tensor, lengths_B: Lengths, size: PackedSize) -> PackedSequences:
        """The rows of padded sentences, which are on their device, filled up to a size."""
        lengths_B = np.asarray(lengths_B, np.int64)
        slots = Slots.of_lengths(lengths_B, tokens_BT.device)
        sequences = _packed(slots.pack(tokens_BT[:, : slots.length], size.rows - slots.rows), lengths_B, size)
        vars(sequences)["slots"] = slots  # as cached_property keeps them
        return sequences

    def to(self, device: torch.device) -> PackedSequences:
        """The same on a device. The host does not wait for it."""
        return self._with(lambda tensor: to_device(tensor, device))

    def pinned(self) -> PackedSequences:
        """The same in memory that a GPU reads while the host goes on."""
        return self._with(Tensor.pin_memory)

    def _with(self, move: Callable[[Tensor], Tensor]) -> PackedSequences:
        tokens_N, positions_N, cu_seqlens = map(move, (self.tokens_N, self.positions_N, self.cu_seqlens))
        return replace(self, tokens_N=tokens_N, positions_N=positions_N, cu_seqlens=cu_seqlens)

    @cached_property
    def slots(self) -> Slots:
        """Where the rows lie among the positions of padded sentences."""
        return Slots.of_lengths(self.lengths_B, self.tokens_N.device)


PackedAttention = Callable[[Tensor, Tensor, Tensor, PackedSequences, PackedSequences, bool], Tensor]
"""Equation 1 within each sentence: a function of queries (N, H, K), keys (M, H, K), values (M, H, K), the sequences of
the queries, those of the keys, and whether a query attends only to itself and the keys before it; (N, H, K)."""


@dataclass(frozen=True)
class PackedSize:
    """The size of packed sequences. Compilers and libraries prepare for each size that they see: let these be few."""

    rows: int
    sentences: int
    """With spare ones."""
    max_seqlen: int
    spare_sentences: int = 0
    """Those that spare rows form. Each has at least one row: flash attention needs a key."""

    @staticmethod
    def of(lengths_B: Lengths, *, rows_per_octave: int | None = None, spare_sentences: int = 0) -> PackedSize:
        """The size of sentences.

        Args:
            rows_per_octave: the number of rows is rounded up, if given; see :func:`rounded_up`.
            spare_sentences: the sentences that spare rows form, if there may be spare rows.
        """
        lengths_B = np.asarray(lengths_B, np.int64)
        rows, longest = int(lengths_B.sum()), int(lengths_B.max(initial=0))
        if rows_per_octave is None:
            return PackedSize(rows, len(lengths_B), longest)
        full = rounded_up(rows + spare_sentences, rows_per_octave)
        longest_spare = -(-(full - rows) // spare_sentences) if spare_sentences else 0
        return PackedSize(full, len(lengths_B) + spare_sentences, max(longest, longest_spare), spare_sentences)

    @staticmethod
    def for_all(rows: int, sentences: int, longest: int) -> PackedSize:
        """One size for all micro-batches of at most ``rows`` rows and ``sentences`` sentences, each of at most
        ``longest`` pieces. What exceeds it gets a doubled size: see :meth:`holding`."""
        max_seqlen = _multiple(longest, _LENGTH_STEP)
        # Enough for spare rows alone.
        spare_sentences = SPARE_SENTENCES + -(-rows // max_seqlen)
        return PackedSize(
            _multiple(rows + spare_sentences, _ROWS_STEP), sentences + spare_sentences, max_seqlen, spare_sentences
        )

    @property
    def real_rows(self) -> int:
        """The rows that are not needed for spare sentences."""
        return self.rows - self.spare_sentences

    def with_rows(self, rows: int) -> PackedSize:
        """The size that :meth:`for_all` gives for fewer rows; sentences become fewer in proportion."""
        sentences = self.sentences - self.spare_sentences
        return PackedSize.for_all(rows, -(-sentences * rows // self.real_rows), self.max_seqlen)

    def holding(self, lengths_B: Lengths) -> PackedSize:
        """This size, doubled where sentences do not fit."""
        lengths_B, spare = np.asarray(lengths_B, np.int64), self.spare_sentences
        rows = _doubled(self.rows, int(lengths_B.sum()) + spare)
        max_seqlen = _doubled(self.max_seqlen, max(int(lengths_B.max(initial=0)), -(-rows // max(spare, 1))))
        return PackedSize(rows, _doubled(self.sentences, len(lengths_B) + spare), max_seqlen, spare)


def _multiple(count: int, step: int) -> int:
    return -(-count // step) * step


def _doubled(size: int, least: int) -> int:
    while size < least:
        size *= 2
    return size


def filled(tokens_N: NDArray[np.int64], rows: int) -> Tensor:
    """Tokens, filled up with padding."""
    tokens = np.full(rows, PAD, np.int64)
    tokens[: len(tokens_N)] = tokens_N
    return torch.from_numpy(tokens)


def _packed(tokens_N: Tensor, lengths_B: NDArray[np.int64], size: PackedSize) -> PackedSequences:
    real, count = int(lengths_B.sum()), len(lengths_B)
    # Spare sentences are as long as each other, as far as possible; the first ones are the longest.
    spare = size.spare_sentences
    spare_lengths = (size.rows - real + np.arange(spare)[::-1]) // max(spare, 1)
    ends = np.full(size.sentences + 1, size.rows if spare else real, np.int32)
    ends[0] = 0
    ends[1 : count + spare + 1] = np.cumsum(np.concatenate([lengths_B, spare_lengths]))
    positions = np.zeros(size.rows, np.int64)
    positions[:real] = np.arange(real) - np.repeat(ends[:count], lengths_B)
    positions_N, cu_seqlens = (to_device(torch.from_numpy(array), tokens_N.device) for array in (positions, ends))
    return PackedSequences(tokens_N, positions_N, cu_seqlens, size.max_seqlen, lengths_B)
