"""The implementations that a model computes with, where there are several: chosen once, for a device.

Each gives the result of the plain one within rounding; tests run with every choice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from nmt.kernels.attention import cpu_attention, fused_attention, two_product_attention
from nmt.kernels.dropout import Dropout
from nmt.kernels.int8 import may_use_onednn
from nmt.kernels.packing import Lengths, Packing, PiecesOnly
from nmt.kernels.recording import Recorder, cuda_recorder_if_possible
from nmt.kernels.sentence_rows import SentenceAttention, SentenceRows, flash_attention_if_possible
from nmt.special_ids import PAD

# On a GPU.
_STEPS_PER_LOOK = 8

AttentionKernel = Callable[[Tensor, Tensor, Tensor, Tensor | None, float], Tensor]


@dataclass(frozen=True)
class Kernels:
    """One implementation for each place; by default the plain ones."""

    attention: AttentionKernel | None = None
    """Equation 1, called as :func:`nmt.model.attention.attention`; None for that function."""
    sentence_attention: SentenceAttention | None = None
    """Equation 1 for sentences that lie one after the other as rows; None if they are padded."""
    dropout: Callable[[float], nn.Module] = nn.Dropout
    """Makes a dropout module for a probability."""
    packs_pieces: bool = False
    """Whether only pieces are rows."""
    has_spare_rows: bool = False
    """Whether the number of rows is rounded up; see :class:`~nmt.kernels.packing.Packing`."""
    steps_per_look: int = 1
    """Steps of a search after which the host looks at its pieces; it waits for the device then."""
    recorder: Callable[[], Recorder] | None = None
    """Makes a recorder of work that the device then runs whole; None if the device has none."""

    def packing(self, tokens_BT: Tensor, lengths_B: Lengths | SentenceRows | None = None) -> Packing:
        """The rows of a batch that is padded on the right, or of a single line of many sentences.

        Args:
            lengths_B: pieces of each sentence, or the places of the sentences in the line; counted on the device of the
                tokens if not given.
        """
        if isinstance(lengths_B, SentenceRows):
            return lengths_B
        if not self.packs_pieces:
            return Packing(*tokens_BT.shape, has_spare_rows=self.has_spare_rows)
        if lengths_B is None:
            return PiecesOnly(tokens_BT != PAD, has_spare_rows=self.has_spare_rows)
        length, device = tokens_BT.shape[1], tokens_BT.device
        return PiecesOnly.of_lengths(lengths_B, length, device, has_spare_rows=self.has_spare_rows)

    def packing_of_hypotheses(self, tokens_BW: Tensor, live_BW: Tensor | None) -> Packing:
        """The rows of a step: one per hypothesis, or one per live hypothesis."""
        if live_BW is not None:
            return PiecesOnly(live_BW, has_spare_rows=self.has_spare_rows)
        return Packing(*tokens_BW.shape, has_spare_rows=self.has_spare_rows)

    def for_compiled_layers(self) -> Kernels:
        """The same with a row for every position: a compiler wants few kinds of rows."""
        return replace(self, packs_pieces=False, has_spare_rows=False)


PLAIN = Kernels()


def choose_kernels(
    device: torch.device | None, products: torch.dtype | None = None, *, deterministic: bool = False
) -> Kernels:
    """The fastest kernels for a device; None means a CPU.

    Args:
        products: the dtype that weights are prepacked for (:func:`nmt.kernels.linear.prepack`), or that of autocast;
            None if products are plain.
        deterministic: choose only kernels that give the same bits every time.
    """
    if device is None or device.type == "cpu":
        # oneDNN compiles a product for each number of rows, in bf16 or with prepacked weights. This takes milliseconds,
        # and with prepacked weights half a megabyte that is never freed.
        is_by_onednn = products is not None and (products != torch.int8 or may_use_onednn())
        return Kernels(cpu_attention, dropout=Dropout, packs_pieces=True, has_spare_rows=is_by_onednn)
    # The gradient of a GPU's fused attention with a mask is summed in an order that differs.
    is_fused = device.type == "cuda" and not deterministic
    return Kernels(
        fused_attention if is_fused else two_product_attention,
        sentence_attention=flash_attention_if_possible(device, products) if is_fused else None,
        steps_per_look=_STEPS_PER_LOOK,
        recorder=cuda_recorder_if_possible(device) if device.type == "cuda" else None,
    )
