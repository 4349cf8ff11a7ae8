"""What makes the host wait for a GPU: values that it reads, and sizes that depend on values."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

_aten = torch.ops.aten
_VALUES = (_aten._local_scalar_dense, _aten.equal)
_SIZES = (_aten.nonzero, _aten.masked_select, _aten._unique2, _aten.unique_dim, _aten.unique_consecutive)
INDEXED = (_aten.index, _aten.index_put, _aten.index_put_, _aten._unsafe_index)


def reason_to_wait(operation: Any, arguments: Sequence[Any], options: Mapping[str, Any] | None) -> str | None:
    """Why the host waits for an operation that a dispatch mode sees; None if it does not."""
    kind = operation.overloadpacket
    if kind in _VALUES:
        return f"{operation}: the host reads a value"
    if kind in _SIZES:
        return f"{operation}: the host waits for a size"
    if kind in INDEXED and any(index is not None and index.dtype == torch.bool for index in arguments[1]):
        return f"{operation} with a mask: the host waits for a size"
    if operation is _aten.repeat_interleave.Tensor and (options or {}).get("output_size") is None:
        return f"{operation} without output_size: the host waits for a size"
    return None
