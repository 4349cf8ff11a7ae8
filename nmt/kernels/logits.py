"""What a search needs of all logits, from one reading of them by a GPU, in Triton.

In torch, logits of 16 bits are copied to fp32, and the copy is read and written several times: for the largest number
of each row, its exponentials, their sum, and the largest number of each block.

Shapes: N rows, V vocabulary, X blocks of a row; in the kernel P blocks at a time of B numbers each.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCKS_AT_A_TIME, _WARPS = 64, 4
"""With blocks of 64, a thread holds 32 numbers."""


def summarize_logits(logits_NV: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """A :data:`~nmt.model.transformer.LogitsSummary` by one program per row."""
    logits_NV = logits_NV if logits_NV.stride(1) == 1 else logits_NV.contiguous()
    rows, vocabulary = logits_NV.shape
    normalizer_N1 = logits_NV.new_empty(rows, 1, dtype=torch.float32)
    largest_NX = logits_NV.new_empty(rows, vocabulary // block, dtype=torch.float32)
    with torch.cuda.device_of(logits_NV):  # type: ignore[no-untyped-call]
        _summarize[(rows,)](
            normalizer_N1, largest_NX, logits_NV, logits_NV.stride(0), vocabulary, largest_NX.shape[1],
            BLOCK=block, BLOCKS=_BLOCKS_AT_A_TIME, num_warps=_WARPS,
        )  # fmt: skip
    return normalizer_N1, largest_NX


@triton.jit
def _summarize(normalizer, largest, logits, row_stride, vocabulary, blocks, BLOCK: tl.constexpr, BLOCKS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits += row * row_stride
    largest += row * blocks
    block_P = tl.arange(0, BLOCKS)
    place_PB = block_P[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    # Sums are relative to the highest number so far of their place among the blocks, or to 0 before there is one.
    highest_P = tl.full([BLOCKS], float("-inf"), tl.float32)
    total_P = tl.full([BLOCKS], 0.0, tl.float32)
    for first in range(0, vocabulary, BLOCKS * BLOCK):
        number_PB = tl.load(logits + first + place_PB, mask=first + place_PB < vocabulary, other=float("-inf"))
        number_PB = number_PB.to(tl.float32)
        of_block_P = tl.max(number_PB, 1)
        block = first // BLOCK + block_P
        tl.store(largest + block, of_block_P, mask=block < blocks)
        before_P, highest_P = highest_P, tl.maximum(highest_P, of_block_P)
        base_P = tl.where(highest_P == float("-inf"), 0.0, highest_P)
        total_P = total_P * tl.exp(before_P - base_P) + tl.sum(tl.exp(number_PB - base_P[:, None]), 1)
    highest = tl.max(highest_P, 0)
    total = tl.sum(total_P * tl.exp(highest_P - highest), 0)
    tl.store(normalizer + row, highest + tl.log(total))
