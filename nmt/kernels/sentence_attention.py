"""Attention within packed sentences (equation 1) by one program of a GPU per sentence and head, in Triton.

Flash attention computes tiles of 128 queries, but most sentences have some 30 pieces. Here a block has at most 64
queries or keys. A program computes the blocks of its sentence one after the other, so every number has one writer and
is the same each time.

Shapes: N and M rows of queries and keys, one per piece of all sentences; H heads, K size of a head. In a kernel: Q
queries and S keys of one block (B either of them), K the size of a head rounded up to a power of two.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from nmt.model.packing import PackedSequences

_LOG2_E = tl.constexpr(math.log2(math.e))
FEWEST_ROWS, MOST_ROWS = 16, 64
"""Rows of a block: Triton multiplies at least 16. For heads of 64, an H100 is faster with 64 than with 32."""
_BLOCK_BYTES = 8_192
"""Size of a block, for heads of any size. In 16 bits the backward pass holds up to 11 blocks in shared memory, and some
sums: 88.5 KiB on Ampere, Ada and RTX Blackwell, which have at least 99 KiB per program, 80.5 KiB of the 227 on Hopper,
and 114.6 KiB of the 227 on other Blackwells."""
_WARPS = 4
_LARGEST_STRIDE = 1 << 24
"""Numbers from row to row. Times the rows of a block, it fits into 32 bits."""


def sentence_attention(
    query_NHK: Tensor,
    key_MHK: Tensor,
    value_MHK: Tensor,
    queries: PackedSequences,
    keys: PackedSequences,
    is_causal: bool,
) -> Tensor:
    """A :data:`~nmt.model.packing.PackedAttention` for sentences of any length, in bf16, fp16 or fp32.

    Queries of a sentence without keys get zeros. Rows behind the last sentence are computed as one more sentence.
    """
    mixed_NHK: Tensor
    mixed_NHK, _ = torch.ops.nmt.sentence_attention(
        query_NHK, key_MHK, value_MHK, queries.cu_seqlens, keys.cu_seqlens, is_causal
    )
    return mixed_NHK


# The operations of torch. Not by torch.library.custom_op, whose operations import torch._dynamo when they are first
# called, nor by triton_op, which imports torch._inductor: seconds that translating has no use for.

_INPUTS = "Tensor query, Tensor key, Tensor value, Tensor query_ends, Tensor key_ends, bool is_causal"
_FORWARD, _BACKWARD = "nmt::sentence_attention", "nmt::sentence_attention_backward"
for _name, _schema in (
    (_FORWARD, f"({_INPUTS}) -> (Tensor, Tensor)"),
    (_BACKWARD, f"(Tensor gradient, Tensor mixed, Tensor log_total, {_INPUTS}) -> (Tensor, Tensor, Tensor)"),
):
    torch.library.define(_name, _schema, tags=torch.Tag.pt2_compliant_tag)


@torch.library.impl(_FORWARD, "default")
def _attend(
    query_NHK: Tensor, key_MHK: Tensor, value_MHK: Tensor, query_ends: Tensor, key_ends: Tensor, is_causal: bool
) -> tuple[Tensor, Tensor]:
    """The result, and for the gradient the logarithm to base 2 of each query's sum of exponentials, per head (H, N)."""
    results = _empty_results(query_NHK, key_MHK, value_MHK, query_ends, key_ends, is_causal)
    inputs, sizes = _inputs(query_NHK, key_MHK, value_MHK, query_ends, key_ends, is_causal)
    with torch.cuda.device_of(query_NHK):  # type: ignore[no-untyped-call]
        _forward[_programs(query_NHK, query_ends, key_ends)](*results, *inputs, **sizes)
    return results


def _empty_results(query_NHK: Tensor, *others: Tensor | bool) -> tuple[Tensor, Tensor]:
    rows, heads, _ = query_NHK.shape
    return query_NHK.new_empty(query_NHK.shape), query_NHK.new_empty((heads, rows), dtype=torch.float32)


@torch.library.impl(_BACKWARD, "default")
def _gradients(
    gradient_NHK: Tensor, mixed_NHK: Tensor, log_total_HN: Tensor,
    query_NHK: Tensor, key_MHK: Tensor, value_MHK: Tensor, query_ends: Tensor, key_ends: Tensor, is_causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of queries, keys and values."""
    made = gradient_NHK.contiguous(), mixed_NHK.contiguous(), log_total_HN.contiguous()
    gradients = _empty_gradients(*made, query_NHK, key_MHK, value_MHK, query_ends, key_ends, is_causal)
    inputs, sizes = _inputs(query_NHK, key_MHK, value_MHK, query_ends, key_ends, is_causal)
    with torch.cuda.device_of(query_NHK):  # type: ignore[no-untyped-call]
        _backward[_programs(query_NHK, query_ends, key_ends)](*gradients, *made, *inputs, **sizes)
    return gradients


def _empty_gradients(
    gradient_NHK: Tensor, mixed_NHK: Tensor, log_total_HN: Tensor,
    query_NHK: Tensor, key_MHK: Tensor, value_MHK: Tensor, *others: Tensor | bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    of_query, of_key, of_value = (x.new_empty(x.shape) for x in (query_NHK, key_MHK, value_MHK))
    return of_query, of_key, of_value


def _keep_for_gradients(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.is_causal = inputs
    ctx.save_for_backward(*output, *tensors)
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)  # else zeros are filled in for it


def _apply_gradients(ctx: Any, gradient_NHK: Tensor, _: None) -> tuple[Tensor | None, ...]:
    operation = torch.ops.nmt.sentence_attention_backward
    return (*operation(gradient_NHK, *ctx.saved_tensors, ctx.is_causal), None, None, None)


torch.library.register_fake(_FORWARD, _empty_results)
torch.library.register_fake(_BACKWARD, _empty_gradients)
torch.library.register_autograd(_FORWARD, _apply_gradients, setup_context=_keep_for_gradients)


def _programs(query_NHK: Tensor, query_ends: Tensor, key_ends: Tensor) -> tuple[int, int]:
    """One per sentence and head; and per head one for the rows behind the last sentence.

    Raises:
        ValueError: the sides differ in sentences, so a program would read where no end is.
    """
    if len(query_ends) != len(key_ends):
        raise ValueError(f"queries of {len(query_ends) - 1} sentences, but keys of {len(key_ends) - 1}")
    return len(query_ends), query_NHK.shape[1]


def _inputs(
    query_NHK: Tensor, key_MHK: Tensor, value_MHK: Tensor, query_ends: Tensor, key_ends: Tensor, is_causal: bool
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that both kernels share, and their constants."""
    size, (rounded, block) = query_NHK.shape[2], block_sizes(query_NHK)
    constants = {"HEAD": size, "K": rounded, "BLOCK": block}
    heads = [_readable(x) for x in (query_NHK, key_MHK, value_MHK)]
    ends = query_ends.contiguous(), key_ends.contiguous()
    strides = (stride for x in heads for stride in x.stride()[:2])
    inputs = *heads, *ends, len(query_NHK), len(key_MHK), *strides, 1 / math.sqrt(size)
    return inputs, constants | {"IS_CAUSAL": is_causal, "num_warps": _WARPS}


def block_sizes(heads: Tensor) -> tuple[int, int]:
    """The size of a head (the last of the tensor's) rounded up, and the rows of a block."""
    rounded = max(triton.next_power_of_2(heads.shape[-1]), FEWEST_ROWS)
    rows = _BLOCK_BYTES // (rounded * heads.element_size())
    return rounded, min(max(rows, FEWEST_ROWS), MOST_ROWS)


def _readable(x_NHK: Tensor) -> Tensor:
    """The tensor, or a copy if its numbers lie apart."""
    return x_NHK if x_NHK.stride(2) == 1 and x_NHK.stride(0) < _LARGEST_STRIDE else x_NHK.contiguous()


# The kernels.


@triton.jit
def _rows_of(sentence, ends, all_rows):
    """The first row of a sentence and the number of its rows."""
    first = tl.load(ends + sentence)
    # The last program has the rows behind the last sentence, so that no row of a result is left as it was.
    end = tl.load(ends + sentence + 1, mask=sentence + 1 < tl.num_programs(0), other=all_rows)
    return first.to(tl.int64), end - first


@triton.jit
def _block(first_row, row, rows, row_stride, HEAD: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr):
    """Pointers to a sentence's rows from one on, and which of their numbers are its own.

    Addresses of blocks have 64 bits; within a block, 32 suffice.
    """
    row_B, number_K = tl.arange(0, BLOCK), tl.arange(0, K)
    is_own_BK = (row + row_B < rows)[:, None]
    if HEAD < K:
        is_own_BK = is_own_BK & (number_K < HEAD)[None, :]
    first_of_block = first_row + tl.cast(row, tl.int64) * row_stride
    return first_of_block + (row_B * row_stride)[:, None] + number_K[None, :], is_own_BK


@triton.jit
def read_rows(first_row, row, rows, row_stride, HEAD: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr):
    """A sentence's rows from one on; zeros behind its end."""
    pointers_BK, is_own_BK = _block(first_row, row, rows, row_stride, HEAD, K, BLOCK)
    return tl.load(pointers_BK, mask=is_own_BK, other=0.0)


@triton.jit
def write_rows(x_BK, first_row, row, rows, row_stride, HEAD: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr):
    """Write a sentence's rows from one on."""
    pointers_BK, is_own_BK = _block(first_row, row, rows, row_stride, HEAD, K, BLOCK)
    tl.store(pointers_BK, x_BK.to(first_row.dtype.element_ty), mask=is_own_BK)


@triton.jit
def _scores(query_QK, key_SK, q, s, keys, scale, BLOCK: tl.constexpr, IS_CAUSAL: tl.constexpr):
    """Scores of the queries from q and the keys from s on, as exponents of 2; -inf for keys that are not seen."""
    key_S = s + tl.arange(0, BLOCK)
    is_seen_QS = (key_S < keys)[None, :]
    if IS_CAUSAL:
        is_seen_QS = is_seen_QS & (key_S[None, :] <= (q + tl.arange(0, BLOCK))[:, None])
    scores_QS = tl.dot(query_QK, tl.trans(key_SK), input_precision="ieee") * (scale * _LOG2_E)
    return tl.where(is_seen_QS, scores_QS, float("-inf"))


# The numbers of rows differ from batch to batch: none of them gets a kernel of its own.
@triton.jit(do_not_specialize=["query_rows", "key_rows"])
def _forward(
    mixed, log_total, query, key, value, query_ends, key_ends, query_rows, key_rows,
    query_row_stride, query_head_stride, key_row_stride, key_head_stride, value_row_stride, value_head_stride, scale,
    HEAD: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr, IS_CAUSAL: tl.constexpr,
):  # fmt: skip
    sentence, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    first_query, queries = _rows_of(sentence, query_ends, query_rows)
    first_key, keys = _rows_of(sentence, key_ends, key_rows)
    query += first_query * query_row_stride + head * query_head_stride
    key += first_key * key_row_stride + head * key_head_stride
    value += first_key * value_row_stride + head * value_head_stride
    row_stride = tl.num_programs(1) * HEAD
    mixed += first_query * row_stride + head * HEAD
    log_total += head * query_rows + first_query
    for q in range(0, queries, BLOCK):
        query_QK = read_rows(query, q, queries, query_row_stride, HEAD, K, BLOCK)
        highest_Q = tl.full([BLOCK], float("-inf"), tl.float32)
        total_Q = tl.full([BLOCK], 0.0, tl.float32)
        mixed_QK = tl.full([BLOCK, K], 0.0, tl.float32)
        seen = keys
        if IS_CAUSAL:
            seen = tl.minimum(keys, q + BLOCK)
        for s in range(0, seen, BLOCK):
            key_SK = read_rows(key, s, keys, key_row_stride, HEAD, K, BLOCK)
            value_SK = read_rows(value, s, keys, value_row_stride, HEAD, K, BLOCK)
            scores_QS = _scores(query_QK, key_SK, q, s, keys, scale, BLOCK, IS_CAUSAL)
            # Sums are relative to the highest score so far, which is finite: each query sees the first key.
            before_Q = highest_Q
            highest_Q = tl.maximum(before_Q, tl.max(scores_QS, 1))
            weights_QS = tl.exp2(scores_QS - highest_Q[:, None])
            fade_Q = tl.exp2(before_Q - highest_Q)
            total_Q = total_Q * fade_Q + tl.sum(weights_QS, 1)
            product_QK = tl.dot(weights_QS.to(value_SK.dtype), value_SK, input_precision="ieee")
            mixed_QK = mixed_QK * fade_Q[:, None] + product_QK
        total_Q = tl.where(keys > 0, total_Q, 1.0)
        write_rows(mixed_QK / total_Q[:, None], mixed, q, queries, row_stride, HEAD, K, BLOCK)
        query_Q = q + tl.arange(0, BLOCK)
        tl.store(log_total + query_Q, highest_Q + tl.log2(total_Q), mask=query_Q < queries)


@triton.jit
def _weights_and_gradients(
    query_QK, key_SK, value_SK, gradient_QK, mixed, log_total, q, s, queries, keys, row_stride, scale,
    HEAD: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr, IS_CAUSAL: tl.constexpr,
):  # fmt: skip
    """The weights of the queries from q and the keys from s on, and the gradients of their scores."""
    query_Q = q + tl.arange(0, BLOCK)
    log_total_Q = tl.load(log_total + query_Q, mask=query_Q < queries, other=float("inf"))
    # The sum over all keys of the weights times their gradients.
    mixed_QK = read_rows(mixed, q, queries, row_stride, HEAD, K, BLOCK)
    sum_Q = tl.sum(mixed_QK.to(tl.float32) * gradient_QK.to(tl.float32), 1)
    weights_QS = tl.exp2(_scores(query_QK, key_SK, q, s, keys, scale, BLOCK, IS_CAUSAL) - log_total_Q[:, None])
    of_weights_QS = tl.dot(gradient_QK, tl.trans(value_SK), input_precision="ieee")
    of_scores_QS = weights_QS * (of_weights_QS - sum_Q[:, None])
    return weights_QS.to(query_QK.dtype), of_scores_QS.to(query_QK.dtype)


@triton.jit(do_not_specialize=["query_rows", "key_rows"])
def _backward(
    of_query, of_key, of_value, gradient, mixed, log_total,
    query, key, value, query_ends, key_ends, query_rows, key_rows,
    query_row_stride, query_head_stride, key_row_stride, key_head_stride, value_row_stride, value_head_stride, scale,
    HEAD: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr, IS_CAUSAL: tl.constexpr,
):  # fmt: skip
    sentence, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    first_query, queries = _rows_of(sentence, query_ends, query_rows)
    first_key, keys = _rows_of(sentence, key_ends, key_rows)
    query += first_query * query_row_stride + head * query_head_stride
    key += first_key * key_row_stride + head * key_head_stride
    value += first_key * value_row_stride + head * value_head_stride
    row_stride = tl.num_programs(1) * HEAD
    gradient += first_query * row_stride + head * HEAD
    mixed += first_query * row_stride + head * HEAD
    log_total += head * query_rows + first_query
    of_query += first_query * row_stride + head * HEAD
    of_key += first_key * row_stride + head * HEAD
    of_value += first_key * row_stride + head * HEAD
    is_one_block = (keys > 0) & (keys <= BLOCK)
    for s in range(0, keys, BLOCK):
        key_SK = read_rows(key, s, keys, key_row_stride, HEAD, K, BLOCK)
        value_SK = read_rows(value, s, keys, value_row_stride, HEAD, K, BLOCK)
        of_key_SK = tl.full([BLOCK, K], 0.0, tl.float32)
        of_value_SK = tl.full([BLOCK, K], 0.0, tl.float32)
        earliest = 0
        if IS_CAUSAL:
            earliest = s
        for q in range(earliest, queries, BLOCK):
            query_QK = read_rows(query, q, queries, query_row_stride, HEAD, K, BLOCK)
            gradient_QK = read_rows(gradient, q, queries, row_stride, HEAD, K, BLOCK)
            weights_QS, of_scores_QS = _weights_and_gradients(
                query_QK, key_SK, value_SK, gradient_QK, mixed, log_total, q, s, queries, keys, row_stride, scale,
                HEAD, K, BLOCK, IS_CAUSAL,
            )  # fmt: skip
            of_value_SK += tl.dot(tl.trans(weights_QS), gradient_QK, input_precision="ieee")
            of_key_SK += tl.dot(tl.trans(of_scores_QS), query_QK, input_precision="ieee")
            if is_one_block:
                of_query_QK = tl.dot(of_scores_QS, key_SK, input_precision="ieee")
                write_rows(of_query_QK * scale, of_query, q, queries, row_stride, HEAD, K, BLOCK)
        write_rows(of_key_SK * scale, of_key, s, keys, row_stride, HEAD, K, BLOCK)
        write_rows(of_value_SK, of_value, s, keys, row_stride, HEAD, K, BLOCK)
    # A query's gradient is a sum over all keys. Where these are several blocks, their scores are computed once more.
    if not is_one_block:
        for q in range(0, queries, BLOCK):
            query_QK = read_rows(query, q, queries, query_row_stride, HEAD, K, BLOCK)
            gradient_QK = read_rows(gradient, q, queries, row_stride, HEAD, K, BLOCK)
            of_query_QK = tl.full([BLOCK, K], 0.0, tl.float32)
            seen = keys
            if IS_CAUSAL:
                seen = tl.minimum(keys, q + BLOCK)
            for s in range(0, seen, BLOCK):
                key_SK = read_rows(key, s, keys, key_row_stride, HEAD, K, BLOCK)
                value_SK = read_rows(value, s, keys, value_row_stride, HEAD, K, BLOCK)
                _, of_scores_QS = _weights_and_gradients(
                    query_QK, key_SK, value_SK, gradient_QK, mixed, log_total, q, s, queries, keys, row_stride, scale,
                    HEAD, K, BLOCK, IS_CAUSAL,
                )  # fmt: skip
                of_query_QK += tl.dot(of_scores_QS, key_SK, input_precision="ieee")
            write_rows(of_query_QK * scale, of_query, q, queries, row_stride, HEAD, K, BLOCK)
