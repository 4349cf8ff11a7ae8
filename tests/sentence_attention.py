"""Checks of the kernel for sentences: in Triton's interpreter on a CPU (tests/kernels), and on a GPU (tests/gpu).

Shapes: N query rows, M key rows, H heads, K size of a head.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

triton = pytest.importorskip("triton", reason="Triton is for Linux alone")
from nmt.kernels import sentence_attention as module  # noqa: E402

ALLOWED = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 5e-3}
"""Differences from float64 relative to its norm."""

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Case:
    """One attention."""

    query_lengths: Sequence[int]
    key_lengths: Sequence[int] | None = None
    """None: each query attends to itself and the pieces before it."""
    heads: int = 2
    size: int = 16
    is_sliced: bool = False
    """Whether queries, keys and values are parts of larger tensors, with numbers of others between them."""
    rows_behind: int = 0
    """Rows behind the last sentence on both sides, computed as one more sentence."""


BORDERS = (
    Case([0, 1, 63, 64, 65], heads=1),
    Case([129, 2], size=8),
    Case([65, 0, 3, 64, 1], [1, 4, 0, 128, 66], heads=1),
    Case([], rows_behind=3),
    Case([3, 70], [67, 5], heads=1, size=72, rows_behind=2, is_sliced=True),
    Case([20], heads=1, size=256, is_sliced=True),
)
"""Empty sentences, borders of blocks, and sizes of heads that are no power of two."""


def drawn(seed: int, *, sentences: int = 3) -> Case:
    """A case with random sizes."""
    draw = np.random.default_rng(seed)
    sides = [draw.choice([0, *draw.integers(1, 150, 2), *draw.integers(1, 30, 4)], sentences) for _ in "QK"]
    return Case(
        sides[0].tolist(),
        sides[1].tolist() if draw.integers(2) else None,
        heads=int(draw.integers(1, 3)),
        size=8 * int(draw.integers(1, 9)),
        is_sliced=bool(draw.integers(2)),
        rows_behind=int(draw.choice([0, 5])),
    )


def differences(case: Case, dtype: torch.dtype, device: torch.device) -> dict[str, float]:
    """How far the result and the gradients are from float64, which is computed sentence by sentence."""
    lengths = [list(case.query_lengths if side is None else side) for side in (case.query_lengths, case.key_lengths)]
    parts = [[*side, case.rows_behind] for side in lengths]
    ends = [torch.tensor(np.cumsum([0, *side]), dtype=torch.int32, device=device) for side in lengths]
    is_causal = case.key_lengths is None

    def kernel(query_NHK: Tensor, key_MHK: Tensor, value_MHK: Tensor) -> Tensor:
        mixed_NHK: Tensor = torch.ops.nmt.sentence_attention(query_NHK, key_MHK, value_MHK, *ends, is_causal)[0]
        return mixed_NHK

    def exact(query_NHK: Tensor, key_MHK: Tensor, value_MHK: Tensor) -> Tensor:
        sides = query_NHK.split(parts[0]), key_MHK.split(parts[1]), value_MHK.split(parts[1])
        return torch.cat([_alone(*sentence, is_causal=is_causal) for sentence in zip(*sides, strict=True)])

    sizes = ((sum(rows), case.heads, case.size) for rows in (parts[0], parts[1], parts[1], parts[0]))
    inputs = [torch.randn(size).to(device, dtype) for size in sizes]
    makers = {name: _without_numbers(getattr(module, name)) for name in ("_empty_results", "_empty_gradients")}
    with mock.patch.multiple(module, **makers):
        found = _with_gradients(kernel, *inputs, is_sliced=case.is_sliced)
    expected = _with_gradients(exact, *(x.double() for x in inputs), is_sliced=False)
    names = "result", "gradient of queries", "gradient of keys", "gradient of values"
    return {
        name: float((x.double() - y).norm() / max(float(y.norm()), 1.0))
        for name, x, y in zip(names, found, expected, strict=True)
    }


def _without_numbers(make_empty: Callable[..., tuple[Tensor, ...]]) -> Callable[..., tuple[Tensor, ...]]:
    """New memory that shows where nothing was written."""
    return lambda *arguments: tuple(x.fill_(torch.nan) for x in make_empty(*arguments))


def _with_gradients(
    attend: Attend, query_NHK: Tensor, key_MHK: Tensor, value_MHK: Tensor, gradient_NHK: Tensor, *, is_sliced: bool
) -> list[Tensor]:
    leaves = [x.clone().requires_grad_() for x in (query_NHK, key_MHK, value_MHK)]
    inputs = leaves
    if is_sliced:  # each with other strides
        size = query_NHK.shape[2]
        padded = (F.pad(x, (8, 8 * index), value=torch.nan) for index, x in enumerate(leaves))
        inputs = [x[:, :, 8 : 8 + size] for x in padded]
    mixed = attend(*inputs)
    return [mixed.detach(), *torch.autograd.grad(mixed, leaves, gradient_NHK)]


def _alone(query_NHK: Tensor, key_MHK: Tensor, value_MHK: Tensor, *, is_causal: bool) -> Tensor:
    """Equation 1 for one sentence; zeros if it has no keys."""
    scores_HNM = torch.einsum("nhk,mhk->hnm", query_NHK, key_MHK) / query_NHK.shape[2] ** 0.5
    if is_causal:
        later_NM = torch.ones(scores_HNM.shape[1:], dtype=torch.bool, device=scores_HNM.device).triu(1)
        scores_HNM = scores_HNM.masked_fill(later_NM, -torch.inf)
    return torch.einsum("hnm,mhk->nhk", scores_HNM.softmax(dim=2), value_MHK)


def shared_memory(architecture: int, sizes: Sequence[int]) -> int:
    """The most bytes of shared memory that a program takes in 16 bits on a GPU that there need not be.

    Args:
        architecture: 10 times the compute capability.
        sizes: sizes of heads.
    """
    found = 0
    for kernel, size in itertools.product((module._forward, module._backward), sizes):
        rows = torch.empty(1, 1, size, dtype=torch.bfloat16)
        ends = torch.zeros(2, dtype=torch.int32)
        _, constants = module._inputs(rows, rows, rows, ends, ends, True)
        warps = constants.pop("num_warps")
        types = {name: _type_of(name) for name in kernel.arg_names if name not in constants}
        whole = [index for index, name in enumerate(types) if types[name][0] == "*" or name.endswith("_stride")]
        source = triton.compiler.ASTSource(
            fn=kernel,
            signature=types | dict.fromkeys(constants, "constexpr"),
            constexprs={(kernel.arg_names.index(name),): value for name, value in constants.items()},
            attrs={(index,): [["tt.divisibility", 16]] for index in whole},
        )
        compiled = triton.compile(
            source, target=triton.backends.compiler.GPUTarget("cuda", architecture, 32), options={"num_warps": warps}
        )
        found = max(found, compiled.metadata.shared)
    return found


def _type_of(name: str) -> str:
    kinds = {"scale": "fp32", "log_total": "*fp32"}
    ends = {"ends": "*i32", "rows": "i32", "stride": "i32"}
    return kinds.get(name) or ends.get(name.rpartition("_")[2], "*bf16")
