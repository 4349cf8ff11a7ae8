"""Modules whose parameters hold no numbers yet."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class Unfilled(TorchFunctionMode):
    """Parameters that are made within it hold no numbers: theirs come from a file, and random ones would take half a
    second for a model of the base sizes."""

    _FILLING = frozenset(
        {Tensor.uniform_, Tensor.normal_, Tensor.zero_, Tensor.fill_}
        | {nn.init.uniform_, nn.init.normal_, nn.init.constant_, nn.init.kaiming_uniform_}
    )

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in self._FILLING:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
