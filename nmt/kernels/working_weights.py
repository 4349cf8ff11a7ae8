"""16-bit copies of the weights that matrix products take, made once per update.

The weights that learn stay in fp32 (Micikevicius et al. 2018, Mixed Precision Training, section 3.1). Autocast alone
casts each of them in every forward pass, and its gradient back in every backward pass. Here products take the copies,
and their gradients are summed in fp32 as they arrive. The numbers are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from nmt.kernels.private import copy_all

ALL_ROWS = slice(None)


class MakeCopy(Protocol):
    """Makes the copy of a parameter."""

    def __call__(self, parameter: Tensor, *, rows: slice = ALL_ROWS, is_all: bool = True) -> Tensor:
        """Copy a parameter, or some of its rows.

        Args:
            is_all: only copies take part in training, never the parameter itself.
        """
        ...


@runtime_checkable
class TakesCopies(Protocol):
    """A module that multiplies by copies of its parameters in training."""

    def take_copies(self, copy: MakeCopy) -> None:
        """Multiply by copies from now on, in training."""
        ...


class WorkingWeights:
    """The copies of a model's weights. Gradients of a copy are added to the ``grad`` of its parameter."""

    def __init__(self, model: nn.Module, dtype: torch.dtype | None) -> None:
        """Give copies to all modules of a model that take them; to none if there is no dtype.

        The copies hold no values before :meth:`refresh`.
        """
        self._dtype = dtype
        self._originals: list[tuple[Tensor, slice]] = []
        self._copies: list[Tensor] = []
        self._sources: dict[Tensor, list[Tensor]] = {}
        for module in model.modules() if dtype is not None else ():
            if isinstance(module, TakesCopies):
                module.take_copies(self._copy)

    def refresh(self) -> None:
        """Copy the weights, which have changed."""
        if self._copies:
            copy_all(self._copies, [_part(parameter.detach(), rows) for parameter, rows in self._originals])

    def sources(self, parameter: Tensor) -> Sequence[Tensor]:
        """The leaves of the graph whose gradients make up that of a parameter, each once per backward pass."""
        return self._sources.get(parameter, [parameter])

    def _copy(self, parameter: Tensor, *, rows: slice = ALL_ROWS, is_all: bool = True) -> Tensor:
        copy = torch.empty_like(_part(parameter, rows), dtype=self._dtype, requires_grad=parameter.requires_grad)
        if parameter.requires_grad:
            add = partial(_add_gradient, parameter, rows)
            copy.register_post_accumulate_grad_hook(add)  # type: ignore[no-untyped-call]
        self._originals.append((parameter, rows))
        self._copies.append(copy.detach())
        self._sources.setdefault(parameter, [] if is_all else [parameter]).append(copy)
        return copy


def _add_gradient(parameter: Tensor, rows: slice, copy: Tensor) -> None:
    # Taken first: if the sum does not fit into memory, the next backward pass must not find it.
    gradient, copy.grad = copy.grad, None
    assert parameter.grad is not None and gradient is not None
    _part(parameter.grad, rows).add_(gradient)


def _part(tensor: Tensor, rows: slice) -> Tensor:
    return tensor if rows is ALL_ROWS else tensor[rows]
