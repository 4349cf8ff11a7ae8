"""A fake GPU: tensors on ``cuda`` whose shapes, dtypes and devices torch checks, and counters of what the GPU would do.

Tensors on ``cuda`` are torch's fake tensors. An operation on them fails where that of a real GPU would: it mixes
devices, or takes a wrong shape or dtype. Tensors on the host are real. With ``computes``, each fake tensor also has a
value on the host, computed by the CPU's kernels, so that the host reads the numbers that a GPU would have computed.
Without, the host reads zeros, and models of any size take no memory.
"""

from __future__ import annotations

import traceback
import warnings
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from tests.fake_gpu.attention import COMPUTED_ON_HOST
from tests.fake_gpu.launches import kernels_of, workspace
from tests.host_waits import INDEXED, reason_to_wait

CUDA = torch.device("cuda", 0)

_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
_aten = torch.ops.aten
_TO_FLOAT = (_aten._softmax.default, _aten._log_softmax.default)
_FROM_FLOAT = (_aten._softmax_backward_data.default, _aten._log_softmax_backward_data.default)
# torch's allocator gives multiples of this.
_BLOCK = 512


class FakeGpu(TorchDispatchMode):
    """Runs what is on ``cuda``; see :meth:`installed`."""

    current: FakeGpu | None = None

    def __init__(self, *, computes: bool = True) -> None:
        super().__init__()
        self._computes = computes
        self._fake = FakeTensorMode(allow_non_fake_inputs=True)
        self._sizes: dict[int, int] = {}
        self.waits: list[str] = []
        """Each time that the host waited for the GPU: the operation, and the line of ``nmt`` that asked for it."""
        self.unpinned: list[str] = []
        """Each copy from or to memory that is not pinned. The driver may wait for the GPU before it."""
        self.launched: Counter[str] = Counter()
        """Kernels by operation (:mod:`tests.fake_gpu.launches`)."""
        self.warns = False
        """Whether each wait is a warning, as torch's debug mode has it."""
        self.used = 0
        """Bytes of the tensors on the GPU."""
        self.peak = 0
        """The largest :attr:`used` since :meth:`forget`, with what kernels need while they run."""

    @contextmanager
    def installed(self) -> Iterator[FakeGpu]:
        """Be the GPU of this process while the body runs."""
        # Else torch.tensor(..., device="cuda") copies to the GPU where no mode sees it.
        torch._C._set_only_lift_cpu_tensors(True)
        FakeGpu.current = self
        try:
            with self:
                yield self
        finally:
            FakeGpu.current = None
            torch._C._set_only_lift_cpu_tensors(False)

    def forget(self) -> None:
        """Count from here on."""
        self.waits.clear()
        self.unpinned.clear()
        self.launched.clear()
        self.peak = self.used

    def note_wait(self, why: str) -> None:
        """The host waits for the GPU."""
        self.waits.append(f"{why} at {_line_of_ours()}")
        if self.warns:
            warnings.warn("called a synchronizing CUDA operation", stacklevel=2)

    def __torch_dispatch__(self, operation: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        options = options or {}
        if options.get("pin_memory"):
            pinned = operation(*arguments, **(options | {"pin_memory": False}))
            pinned.is_in_pinned_memory = True
            return pinned
        given = [leaf for leaf in tree_leaves((arguments, options)) if isinstance(leaf, Tensor)]
        device = options.get("device")
        goes_to = None if device is None else torch.device(device).type
        if goes_to != "cuda" and all(tensor.device.type != "cuda" for tensor in given):
            return operation(*arguments, **options)
        # In inference mode, operations that consist of others arrive here before these.
        if torch.is_inference_mode_enabled() and _is_composite(operation):
            with self:
                return operation._op_dk(_COMPOSITE, *arguments, **options)
        self._look_for_waits(operation, arguments, options, given)
        is_read = operation is _aten.copy_.default and arguments[0].device.type == "cpu"
        if is_read or operation is _aten._local_scalar_dense.default or goes_to == "cpu":
            return self._to_host(operation, arguments, options)
        return self._run(operation, arguments, options)

    def _run(self, operation: Any, arguments: Any, options: Any) -> Any:
        fakes, fake_options = tree_map(self._faked, (arguments, options))
        try:
            with self._fake:
                result = operation(*fakes, **fake_options)
        except DynamicOutputShapeException:
            if not self._computes:
                raise
            values = self._computed(operation, arguments, options, None)
            with self._fake:
                result = tree_map(lambda x: torch.empty_like(x, device=CUDA) if isinstance(x, Tensor) else x, values)
        else:
            values = self._computed(operation, arguments, options, result) if self._computes else None
        if self._computes:
            for fake, value in zip(tree_leaves(result), tree_leaves(values), strict=True):
                if isinstance(fake, FakeTensor):
                    assert (fake.shape, fake.dtype) == (value.shape, value.dtype), operation
                    fake.on_host = value
        self.launched.update(kernels_of(operation, arguments, result))
        for made in tree_leaves(result):
            if isinstance(made, FakeTensor):
                self._hold(made)
        self.peak = max(self.peak, self.used + workspace(operation, arguments))
        return result

    def _faked(self, leaf: Any) -> Any:
        is_real = isinstance(leaf, Tensor) and not isinstance(leaf, FakeTensor)
        return self._fake.from_tensor(leaf.detach(), static_shapes=True) if is_real else leaf

    def _computed(self, operation: Any, arguments: Any, options: Any, result: Any) -> Any:
        """What a CPU computes from the values."""
        arguments, options = tree_map(_on_host, (arguments, options))
        if operation in _TO_FLOAT and arguments[2]:  # a CPU has no such kernel
            return operation(arguments[0].float(), arguments[1], False)
        if operation in _FROM_FLOAT and arguments[3] != arguments[0].dtype:
            return operation(*arguments[:3], arguments[0].dtype).to(arguments[3])
        if operation in COMPUTED_ON_HOST:
            # In the memory order of the GPU's kernel, on which later views depend.
            values = tree_map(_zeros_like, result)
            for value, computed in zip(values, COMPUTED_ON_HOST[operation](*arguments, **options), strict=False):
                value.copy_(computed)
            return values
        return operation(*arguments, **options)

    def _to_host(self, operation: Any, arguments: Any, options: Any) -> Any:
        if self._computes:
            read = self._computed(operation, arguments, options, None)
            return read.clone() if isinstance(read, Tensor) and operation is not _aten.copy_.default else read
        if operation is _aten.copy_.default:
            return arguments[0].zero_()
        zeros = torch.zeros(arguments[0].shape, dtype=options.get("dtype") or arguments[0].dtype)
        return zeros.item() if operation is _aten._local_scalar_dense.default else zeros

    def _look_for_waits(self, operation: Any, arguments: Any, options: Any, given: list[Tensor]) -> None:
        name, kind = str(operation), operation.overloadpacket
        if (why := reason_to_wait(operation, arguments, options)) is not None:
            self.note_wait(why)
        elif kind in INDEXED:
            if any(tensor.device.type == "cpu" and tensor.dim() for tensor in given):
                self.note_wait(f"{name} with indices of the host")
        elif kind in (_aten._to_copy, _aten.copy_):
            target, source = (CUDA, arguments[0]) if kind is _aten._to_copy else (arguments[0].device, arguments[1])
            if kind is _aten._to_copy:
                target = torch.device(options.get("device") or source.device)
            if target.type == source.device.type:
                return
            non_blocking = options.get("non_blocking", arguments[2] if len(arguments) > 2 else False)
            if not non_blocking:
                self.note_wait(f"{name} that blocks")
                return
            # A new tensor of the host that a GPU writes to without waiting is pinned by torch.
            on_host = source if source.device.type == "cpu" else arguments[0] if kind is _aten.copy_ else None
            if on_host is not None and not getattr(on_host, "is_in_pinned_memory", False):
                self.unpinned.append(f"{name} at {_line_of_ours()}")

    def _hold(self, tensor: FakeTensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._sizes or tensor.device.type != "cuda":
            return
        self._sizes[key] = size = -(-storage.nbytes() // _BLOCK) * _BLOCK
        self.used += size
        weakref.finalize(storage, self._release, key)

    def _release(self, key: int) -> None:
        self.used -= self._sizes.pop(key)


def _on_host(leaf: Any) -> Any:
    """What a CPU takes in the place of an argument."""
    if isinstance(leaf, FakeTensor):
        return leaf.on_host
    return torch.device("cpu") if isinstance(leaf, torch.device) and leaf.type == "cuda" else leaf


def _is_composite(operation: Any) -> bool:
    is_ours = operation.namespace == "aten"
    return is_ours and torch._C._dispatch_has_kernel_for_dispatch_key(operation.name(), _COMPOSITE)


def _zeros_like(leaf: Any) -> Any:
    if not isinstance(leaf, Tensor):
        return leaf
    return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype).zero_()


def _line_of_ours() -> str:
    """The line of ``nmt`` that is running."""
    for frame in reversed(traceback.extract_stack()):
        if "/nmt/" in frame.filename and "site-packages" not in frame.filename:
            return f"{frame.filename.rpartition('/nmt/')[2]}:{frame.lineno}"
    return "a line outside of nmt"
