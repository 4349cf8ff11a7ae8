"""How many kernels an operation launches on a GPU, and how much memory they need while they run.

An operation that computes counts as one kernel, a view as none. Those that take lists of tensors count as torch divides
them: a kernel takes up to 2,240 blocks of 65,536 numbers, and a number of tensors that depends on how many lists there
are. Some operations launch further small kernels of libraries (sorting, sums in two steps), which are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

_aten = torch.ops.aten

_BLOCK_NUMBERS, _BLOCKS = 65_536, 2_240
_TENSORS = {1: 770, 2: 448, 3: 336, 4: 252, 5: 210}
"""Tensors of a kernel, by the number of lists (torch's MultiTensorApply.cuh)."""

# These only take memory, or describe it in another way.
_NOTHING = (
    "aten.empty", "aten.new_empty", "aten.detach", "aten.lift_fresh", "aten._unsafe_view", "aten._reshape_alias",
    "aten.set_", "aten.resize_", "aten.is_same_size", "aten.alias", "aten._local_scalar_dense", "prim.",
)  # fmt: skip
_SEVERAL = {
    "aten.slice_backward": 2,  # zeros, and a copy
    "torch_attn._varlen_attn": 2,  # and the state of a generator
    "torch_attn._varlen_attn_backward": 3,  # sums of the gradient; the gradients; the cast of that of the queries
}


def kernels_of(operation: Any, arguments: Sequence[Any], result: Any) -> dict[str, int]:
    """Kernels of an operation by its name."""
    name = str(operation.overloadpacket)
    if _is_view(operation) or name.startswith(_NOTHING):
        return {}
    if name.startswith("aten._foreach") or name == "aten._fused_adam_":
        lists = [argument for argument in arguments if isinstance(argument, list) and argument]
        depth = 4 if name == "aten._fused_adam_" else sum(isinstance(one[0], Tensor) for one in lists)
        return {name: _kernels_of_lists(lists[0], depth)}
    made = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
    if made and all(tensor.numel() == 0 for tensor in made):
        return {}
    if name == "aten._to_copy" and arguments[0].device != made[0].device:
        return {"copy": 1}
    return {name: _SEVERAL.get(name, 1)}


def _is_view(operation: Any) -> bool:
    returns = operation._schema.returns
    return bool(returns) and all(found.alias_info is not None and not found.alias_info.is_write for found in returns)


def _kernels_of_lists(tensors: Sequence[Tensor], depth: int) -> int:
    kernels = blocks = held = 0
    for tensor in tensors:
        held += 1
        left = -(-tensor.numel() // _BLOCK_NUMBERS)
        while left:
            taken = min(left, _BLOCKS - blocks)
            left, blocks = left - taken, blocks + taken
            if blocks == _BLOCKS or (not left and held == _TENSORS[depth]):
                kernels, blocks, held = kernels + 1, 0, int(bool(left))
    return kernels + bool(blocks)


def workspace(operation: Any, arguments: Sequence[Any]) -> int:
    """Bytes that kernels need while they run."""
    if str(operation.overloadpacket) != "torch_attn._varlen_attn_backward":
        return 0
    query_NHK, ends_X = arguments[1], arguments[6]
    # The gradient of the queries is summed in fp32, with 128 rows between sentences.
    rows = len(query_NHK) + 128 * (len(ends_X) - 1)
    return rows * query_NHK.shape[1] * -(-query_NHK.shape[2] // 32) * 32 * 4
