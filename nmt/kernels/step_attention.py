"""Self-attention of a recorded step of a search over the pieces so far, in Triton.

Recorded work has fixed shapes, so torch's attention reads all slots that a search has room for. This kernel reads the
number of pieces from the device's memory, and ends its loop there.

Shapes: B sentences, W hypotheses of each (the beam), X slots of written pieces, H heads, K size of a head; in the
kernel Q queries and S slots of one block, K rounded up to a power of two.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from nmt.kernels.sentence_attention import FEWEST_ROWS, MOST_ROWS, block_sizes, read_rows, write_rows

_WARPS = 4


def step_attention(
    query_BHWK: Tensor, key_BHXK: Tensor, value_BHXK: Tensor, mask_BWX: Tensor, length_1: Tensor
) -> Tensor:
    """A :data:`~nmt.model.masks.StepAttention` by one program per sentence and head, for up to 64 hypotheses each."""
    query_BHWK, key_BHXK, value_BHXK, mask_BWX = (
        x if x.stride(-1) == 1 else x.contiguous() for x in (query_BHWK, key_BHXK, value_BHXK, mask_BWX)
    )
    sentences, heads, beam, size = query_BHWK.shape
    mixed_BHWK = query_BHWK.new_empty(sentences, beam, heads, size).transpose(1, 2)
    rounded, block = block_sizes(key_BHXK)
    queries = min(max(triton.next_power_of_2(beam), FEWEST_ROWS), MOST_ROWS)
    tensors = mixed_BHWK, query_BHWK, key_BHXK, value_BHXK
    strides = (stride for x in tensors for stride in x.stride()[:3])
    with torch.cuda.device_of(query_BHWK):  # type: ignore[no-untyped-call]
        _attend[(sentences, heads, triton.cdiv(beam, queries))](
            *tensors, mask_BWX, length_1, beam, *strides, *mask_BWX.stride()[:2], 1 / math.sqrt(size),
            HEAD=size, K=rounded, QUERIES=queries, SLOTS=block, num_warps=_WARPS,
        )  # fmt: skip
    return mixed_BHWK


@triton.jit
def _attend(
    mixed, query, key, value, mask, length, beam,
    mixed_sentence, mixed_head, mixed_row, query_sentence, query_head, query_row,
    key_sentence, key_head, key_row, value_sentence, value_head, value_row, mask_sentence, mask_row, scale,
    HEAD: tl.constexpr, K: tl.constexpr, QUERIES: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    sentence, head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    first = tl.program_id(2) * QUERIES
    mixed += sentence * mixed_sentence + head * mixed_head
    query += sentence * query_sentence + head * query_head
    key += sentence * key_sentence + head * key_head
    value += sentence * value_sentence + head * value_head
    mask += sentence * mask_sentence
    slots = (tl.load(length).to(tl.int32) + 1) * beam
    query_QK = read_rows(query, first, beam, query_row, HEAD, K, QUERIES)
    row_Q = first + tl.arange(0, QUERIES)
    highest_Q = tl.full([QUERIES], float("-inf"), tl.float32)
    total_Q = tl.full([QUERIES], 0.0, tl.float32)
    mixed_QK = tl.full([QUERIES, K], 0.0, tl.float32)
    for s in range(0, slots, SLOTS):
        key_SK = read_rows(key, s, slots, key_row, HEAD, K, SLOTS)
        value_SK = read_rows(value, s, slots, value_row, HEAD, K, SLOTS)
        slot_S = s + tl.arange(0, SLOTS)
        is_own_QS = (row_Q < beam)[:, None] & (slot_S < slots)[None, :]
        mask_QS = tl.load(mask + (row_Q * mask_row)[:, None] + slot_S[None, :], mask=is_own_QS, other=float("-inf"))
        scores_QS = tl.dot(query_QK, tl.trans(key_SK), input_precision="ieee") * scale + mask_QS.to(tl.float32)
        # Sums are relative to the highest score so far; a block may have no piece of a hypothesis' own past.
        before_Q, highest_Q = highest_Q, tl.maximum(highest_Q, tl.max(scores_QS, 1))
        base_Q = tl.where(highest_Q == float("-inf"), 0.0, highest_Q)
        weights_QS = tl.exp(scores_QS - base_Q[:, None])
        fade_Q = tl.exp(before_Q - base_Q)
        total_Q = total_Q * fade_Q + tl.sum(weights_QS, 1)
        product_QK = tl.dot(weights_QS.to(value_SK.dtype), value_SK, input_precision="ieee")
        mixed_QK = mixed_QK * fade_Q[:, None] + product_QK
    # Rows of a block that are no hypothesis have no weight at all.
    total_Q = tl.where(row_Q < beam, total_Q, 1.0)
    write_rows(mixed_QK / total_Q[:, None], mixed, first, beam, mixed_row, HEAD, K, QUERIES)
