"""Rows for everything that is computed position by position, padded sentences for attention.

By default every position is a row, padding included (:class:`Packing`). Where only the pieces are rows, one after the
other, no time goes into padding (:class:`PiecesOnly`). Their number is known from the lengths of the sentences on the
host, so no GPU has to be waited for. A compiler wants shapes that do not depend on the content of a batch.

Shapes: B sentences, T positions of each, N rows, D any features, P parts of a projection, H heads, K size of a head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Lengths = Sequence[int] | NDArray[np.int64]
"""Pieces of each sentence of a batch, on the host."""


class Packing:
    """Every position of a batch (B, T) is a row."""

    positions: int | Tensor = 0
    """The position of the first piece of every sentence, or of each piece (T) where a line holds several sentences."""

    def __init__(self, sentences: int, length: int, *, rows: int | None = None, has_spare_rows: bool = False) -> None:
        """Take the size of a padded batch.

        Args:
            rows: the number of rows; None if every position is a row.
            has_spare_rows: round the number of rows up, by meaningless rows at the end. A library that compiles and
                keeps a product for each number of rows then sees few numbers. No gradient comes from these rows.
        """
        self.sentences = sentences
        self.length = length
        self.rows = sentences * length if rows is None else rows
        """The number of rows, without spare rows."""
        self._has_spare_rows = has_spare_rows
        self._spare_rows = rounded_up(self.rows) - self.rows if has_spare_rows else 0

    def pack(self, x_BTD: Tensor) -> Tensor:
        """The rows (N, D) of padded sentences."""
        return self._with_spare(x_BTD.flatten(0, 1))

    def pad(self, x_ND: Tensor) -> Tensor:
        """Rows as padded sentences (B, T, D); zero at padding that has no rows."""
        return self._without_spare(x_ND).view(self.sentences, self.length, -1)

    def split_heads(self, x_NX: Tensor, heads: int, sizes: Sequence[int]) -> tuple[Tensor, ...]:
        """Split rows into parts of the given sizes, and each part into heads of padded sentences (B, H, T, K).

        Values at padding are undefined and pass on no gradient: mask them as keys, and ignore the result of queries.
        """
        if len(set(sizes)) > 1:
            parts = torch.split(x_NX, list(sizes), dim=-1)
            return tuple(self._split_evenly(part, heads, 1)[0] for part in parts)
        return self._split_evenly(x_NX, heads, len(sizes))

    def merge_heads(self, x_BHTK: Tensor) -> Tensor:
        """Rows (N, H · K) of heads of padded sentences: the inverse of :meth:`split_heads`."""
        return self._with_spare(x_BHTK.transpose(1, 2).flatten(2).flatten(0, 1))

    def pad_product(self, multiply: Callable[[Tensor], Tensor], x_ND: Tensor) -> Tensor:
        """Apply ``multiply`` to each row; the result as padded sentences."""
        if self._has_spare_rows and not torch.is_grad_enabled():
            return self.pad(multiply(x_ND))
        # The product may be much wider than the rows, so pad the rows before it. In training, a few products that are
        # compiled for this batch alone take less time than copies of all logits.
        return multiply(self.pad(x_ND))

    def _split_evenly(self, x_NX: Tensor, heads: int, parts: int) -> tuple[Tensor, ...]:
        x_BTPHK = self.pad(x_NX).view(self.sentences, self.length, parts, heads, -1)
        return x_BTPHK.permute(2, 0, 3, 1, 4).unbind()

    def _with_spare(self, x_ND: Tensor) -> Tensor:
        return torch.cat([x_ND, x_ND.new_zeros(self._spare_rows, x_ND.shape[1])]) if self._spare_rows else x_ND

    def _without_spare(self, x_ND: Tensor) -> Tensor:
        return x_ND[: self.rows] if self._spare_rows else x_ND


class PiecesOnly(Packing):
    """The positions that hold a piece are rows; padding has none."""

    def __init__(self, real_BT: Tensor, device: torch.device | None = None, *, has_spare_rows: bool = False) -> None:
        """Number the pieces, where ``real_BT`` lies: on the host, no other device has to be waited for.

        Args:
            real_BT: true at the positions that hold a piece.
            device: of the rows; that of ``real_BT`` if not given.
            has_spare_rows: as for :class:`Packing`.
        """
        sentences, length = real_BT.shape
        real_X = real_BT.flatten()
        position_N = real_X.nonzero().squeeze(1)
        super().__init__(sentences, length, rows=len(position_N), has_spare_rows=has_spare_rows)
        # Padding repeats the piece before it.
        row_BT = (real_X.cumsum(0) - 1).clamp_(min=0).view(sentences, length)
        self._has_padding = len(position_N) < len(real_X)
        self._real_BT, self._position_N, self._row_BT = (
            tensor.to(device, non_blocking=True) for tensor in (real_BT, position_N, row_BT)
        )
        self._indices: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}

    @staticmethod
    def of_lengths(
        lengths_B: Lengths, length: int, device: torch.device, *, has_spare_rows: bool = False
    ) -> PiecesOnly:
        """The rows of sentences of known lengths, padded on the right.

        Args:
            lengths_B: pieces of each sentence, on the host.
            length: of a padded sentence.
        """
        real_BT = torch.arange(length) < torch.as_tensor(lengths_B)[:, None]
        return PiecesOnly(real_BT, device, has_spare_rows=has_spare_rows)

    def pack(self, x_BTD: Tensor) -> Tensor:
        """As :meth:`Packing.pack`."""
        x_XD = x_BTD.flatten(0, 1)
        return self._with_spare(x_XD.index_select(0, self._position_N) if self._has_padding else x_XD)

    def pad(self, x_ND: Tensor) -> Tensor:
        """As :meth:`Packing.pad`."""
        x_ND = self._without_spare(x_ND)
        if self._has_padding:
            positions = self.sentences * self.length
            x_ND = x_ND.new_zeros(positions, x_ND.shape[1]).index_copy(0, self._position_N, x_ND)
        return x_ND.view(self.sentences, self.length, -1)

    def merge_heads(self, x_BHTK: Tensor) -> Tensor:
        """As :meth:`Packing.merge_heads`."""
        merged: Tensor = _MergeHeads.apply(x_BHTK, self)  # type: ignore[no-untyped-call]
        return self._with_spare(merged)

    def _split_evenly(self, x_NX: Tensor, heads: int, parts: int) -> tuple[Tensor, ...]:
        split: tuple[Tensor, ...] = _SplitHeads.apply(x_NX, self, parts, heads)  # type: ignore[no-untyped-call]
        return split

    def _head_indices(self, parts: int, heads: int) -> tuple[Tensor, Tensor]:
        """The row in (N, P, H) of each place in (P, B, H, T), and the place of each row."""
        if (parts, heads) not in self._indices:
            part, head = (torch.arange(number, device=self._row_BT.device) for number in (parts, heads))
            rows = (self._row_BT[:, None, :] * parts + part[:, None, None, None]) * heads + head[:, None]
            sentence_N, time_N = self._position_N // self.length, self._position_N % self.length
            sentences = part[:, None] * self.sentences + sentence_N[:, None, None]
            places = (sentences * heads + head) * self.length + time_N[:, None, None]
            self._indices[parts, heads] = rows.flatten(), places.flatten()
        return self._indices[parts, heads]


def rounded_up(count: int, sizes_per_octave: int = 8) -> int:
    """The next number that is allowed; ``sizes_per_octave`` are allowed from a power of two to the next."""
    step = max(1, (1 << (count - 1).bit_length()) // (2 * sizes_per_octave))
    return -(-count // step) * step


class _SplitHeads(torch.autograd.Function):
    """Pad, split and transpose in one copy, head by head; its gradient does the same."""

    @staticmethod
    def forward(ctx: Any, x_NX: Tensor, packing: PiecesOnly, parts: int, heads: int) -> tuple[Tensor, ...]:
        ctx.packing, ctx.parts, ctx.heads, ctx.all_rows = packing, parts, heads, len(x_NX)
        rows, _ = packing._head_indices(parts, heads)
        split = x_NX.reshape(len(x_NX) * parts * heads, -1).index_select(0, rows)
        return split.view(parts, packing.sentences, heads, packing.length, -1).unbind()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        _, places = ctx.packing._head_indices(ctx.parts, ctx.heads)
        gradient = torch.stack(gradients) if len(gradients) > 1 else gradients[0]
        gradient_XK = gradient.reshape(-1, gradient.shape[-1])
        rows = gradient_XK.new_empty(ctx.all_rows * ctx.parts * ctx.heads, gradient_XK.shape[1])
        torch.index_select(gradient_XK, 0, places, out=rows[: len(places)])
        rows[len(places) :].zero_()  # the spare rows
        return rows.view(ctx.all_rows, -1), None, None, None


class _MergeHeads(torch.autograd.Function):
    """The inverse of :class:`_SplitHeads`."""

    @staticmethod
    def forward(ctx: Any, x_BHTK: Tensor, packing: PiecesOnly) -> Tensor:
        ctx.packing, ctx.shape = packing, x_BHTK.shape
        _, places = packing._head_indices(1, x_BHTK.shape[1])
        rows = x_BHTK.reshape(-1, x_BHTK.shape[-1]).index_select(0, places)
        return rows.view(packing.rows, -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        heads, size = ctx.shape[1], ctx.shape[3]
        rows, _ = ctx.packing._head_indices(1, heads)
        gradient_BHTK = gradients[0].reshape(-1, size).index_select(0, rows).view(ctx.shape)
        if ctx.packing._has_padding:
            gradient_BHTK.mul_(ctx.packing._real_BT[:, None, :, None])
        return gradient_BHTK, None
