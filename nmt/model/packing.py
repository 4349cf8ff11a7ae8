"""Packed sequences: sentences one after the other, a row per piece, so that no time goes into padding.

Only attention needs to know which rows are a sentence. That of a GPU in 16 bits is told where sentences end
(nmt/kernels/sentence_attention.py, flash_attention.py). Every other attention takes padded sentences, made from the
rows and back (nmt/model/slots.py). The lengths are known on the host, so no device has to be waited for.

Shapes: B sentences, T positions of each, N rows, H heads, K size of a head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.machine.device import to_device
from nmt.model.slots import Slots
from nmt.special_ids import PAD

Lengths = Sequence[int] | NDArray[np.int64]
"""Pieces of each sentence, on the host."""

SPARE_SENTENCES = 8
# Of the size of all micro-batches: rows that matrix products read aligned, and a multiple of flash attention's tiles.
_ROWS_STEP, _LENGTH_STEP = 16, 256


def rounded_up(count: int, sizes_per_octave: int = 8) -> int:
    """The next number that is allowed; ``sizes_per_octave`` are allowed from a power of two to the next."""
    step = max(1, (1 << (count - 1).bit_length()) // (2 * sizes_per_octave))
    return -(-count // step) * step


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

    def moved(self, move: Callable[[Tensor], Tensor]) -> PackedSequences:
        """The same with other tensors, such as those on a device."""
        tokens_N, positions_N, cu_seqlens = map(move, (self.tokens_N, self.positions_N, self.cu_seqlens))
        return replace(self, tokens_N=tokens_N, positions_N=positions_N, cu_seqlens=cu_seqlens)

    def to(self, device: torch.device) -> PackedSequences:
        """The same on a device. The host does not wait for it."""
        return self.moved(lambda tensor: to_device(tensor, device))

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
    def for_all(rows: Sequence[int], sentences: int, longest: int) -> list[PackedSize]:
        """One size for each side of all micro-batches, of at most so many rows and ``sentences`` sentences, each of at
        most ``longest`` pieces.

        All sides have the same number of sentences: a sentence of one side attends to that of its number.
        """
        max_seqlen = _multiple(longest, _LENGTH_STEP)
        # Enough for spare rows alone.
        spare = SPARE_SENTENCES + -(-max(rows) // max_seqlen)
        sizes = (_multiple(of_side + spare, _ROWS_STEP) for of_side in rows)
        return [PackedSize(size, sentences + spare, max_seqlen, spare) for size in sizes]


def _multiple(count: int, step: int) -> int:
    return -(-count // step) * step


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
