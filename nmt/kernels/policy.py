"""Which implementation a model computes with, wherever there is more than one: chosen once, for a device.

Every choice gives what the plain one gives, within rounding; tests run with each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from nmt.kernels.attention import fused_attention, two_product_attention
from nmt.kernels.dropout import Dropout
from nmt.kernels.packing import PAD, Lengths, Packing, PiecesAlone

AttentionKernel = Callable[[Tensor, Tensor, Tensor, Tensor | None, float], Tensor]


@dataclass(frozen=True)
class Kernels:
    """One implementation for each place. The default is the plain one throughout."""

    attention: AttentionKernel | None = None
    """Has the arguments of :func:`nmt.model.attention.attention`, which is the plain one."""
    dropout: Callable[[float], nn.Module] = nn.Dropout
    """Makes a module that drops with a probability."""
    packs_pieces: bool = False
    """Whether only pieces are rows; compiled models keep a row for every position."""
    has_spare_rows: bool = False
    """Whether the number of rows is rounded up, as :class:`Packing` says."""

    def packing(self, tokens_BT: Tensor, lengths_B: Lengths | None = None) -> Packing:
        """The rows of a batch that is padded on the right.

        Args:
            lengths_B: pieces of each sentence; counted on the device of the tokens if not given.
        """
        if not self.packs_pieces or torch.compiler.is_compiling():
            return Packing(*tokens_BT.shape, has_spare_rows=self.has_spare_rows)
        if lengths_B is None:
            return PiecesAlone(tokens_BT != PAD, has_spare_rows=self.has_spare_rows)
        length, device = tokens_BT.shape[1], tokens_BT.device
        return PiecesAlone.of_lengths(lengths_B, length, device, has_spare_rows=self.has_spare_rows)

    def packing_of_hypotheses(self, tokens_BW: Tensor, live_BW: Tensor | None) -> Packing:
        """The rows of a step: of all hypotheses or, where told which go on, of those alone."""
        if live_BW is not None:
            return PiecesAlone(live_BW, has_spare_rows=self.has_spare_rows)
        return Packing(*tokens_BW.shape, has_spare_rows=self.has_spare_rows)

    def for_products(self, device: torch.device, dtype: torch.dtype) -> Kernels:
        """The same with weights that are laid out for products of a type, see :mod:`nmt.kernels.linear`."""
        # oneDNN compiles its products for each number of rows, and keeps half a megabyte of each for ever.
        return replace(self, has_spare_rows=device.type == "cpu" and dtype != torch.int8)


PLAIN = Kernels()


def choose_kernels(device: torch.device | None) -> Kernels:
    """The fastest for a device that is known; None means a CPU."""
    if device is None or device.type == "cpu":
        return Kernels(two_product_attention, Dropout, packs_pieces=True)
    if device.type == "cuda":
        return Kernels(fused_attention)
    return Kernels(two_product_attention)
