"""A double of the recorder of CUDA graphs (nmt/kernels/recording.py), which records on a CPU.

As a CUDA graph does, it repeats the operations that were recorded, with the very tensors and the very numbers that they
took: what the host computed then is never computed again. After each run, what the work computed outside of the tensors
that it was given is lost. Reads of the host that are no operations, such as ``tolist``, go unnoticed here;
tests/training/test_host_reads.py notices them.
"""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nmt.kernels.recording import without_cached_casts
from tests.host_waits import reason_to_wait


class DoubleOfRecorder:
    """Records work on the CPU, as :class:`nmt.kernels.recording.Recorder`."""

    def __init__(self, device: torch.device | None = None) -> None:
        self.recordings: list[Recording] = []
        self.replays = 0
        self.failure: str | None = None

    def record(self, work: Any) -> Any:
        with without_cached_casts():
            work()
            with Recording() as recording:
                work()
        recording.undo()
        self.recordings.append(recording)

        def replay() -> None:
            self.replays += 1
            recording.replay()

        return replay


class Recording(TorchDispatchMode):
    """The operations of one recorded work."""

    def __init__(self) -> None:
        super().__init__()
        self._operations: list[tuple[Any, Any, Any, list[torch.Tensor]]] = []
        self._own: dict[int, torch.Tensor] = {}
        self._before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __len__(self) -> int:
        return len(self._operations)

    def __torch_dispatch__(self, operation: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        options = options or {}
        why = reason_to_wait(operation, arguments, options)
        if str(operation).startswith("aten.lift_fresh"):
            why = f"{operation}: a tensor is made from the host's numbers"
        assert why is None, f"cannot be recorded: {why}"
        given = _tensors((arguments, options))
        written = _written(operation, arguments, options)
        for tensor in written:
            self._keep(tensor)
        result = operation(*arguments, **options)
        made = [] if written else _tensors(result)
        known = {_address(tensor) for tensor in given}
        if not written and made and all(_address(tensor) in known for tensor in made):
            return result  # a view, which stays valid
        for tensor in made:
            self._own[_address(tensor)] = tensor
        self._operations.append((operation, arguments, options, made))
        return result

    def undo(self) -> None:
        """Recording runs nothing."""
        for tensor, before in self._before.values():
            tensor.copy_(before)
        self._forget()

    def replay(self) -> None:
        # What is recorded is not cast again, whatever surrounds the replay.
        with torch._C._AutoDispatchBelowAutograd(), torch.autocast("cpu", enabled=False):
            for operation, arguments, options, made in self._operations:
                result = operation(*arguments, **options)
                for tensor, again in zip(made, _tensors(result), strict=bool(made)):
                    tensor.copy_(again)
        self._forget()

    def _keep(self, tensor: torch.Tensor) -> None:
        address = _address(tensor)
        if address not in self._own and address not in self._before:
            whole = _whole(tensor)
            self._before[address] = whole, whole.clone()

    def _forget(self) -> None:
        for tensor in self._own.values():
            _whole(tensor).fill_(0xFF)  # NaN, or -1


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    """All bytes of the memory that a tensor lies in."""
    storage = tensor.untyped_storage()
    return torch.empty(0, dtype=torch.uint8).set_(storage, 0, (len(storage),))


def _written(operation: Any, arguments: Any, options: Any) -> list[torch.Tensor]:
    """The arguments that an operation writes to."""
    parameters = operation._schema.arguments
    values = [*zip(parameters, arguments, strict=False)]
    values += [(parameter, options[parameter.name]) for parameter in parameters if parameter.name in options]
    return [
        tensor
        for parameter, value in values
        if parameter.alias_info is not None and parameter.alias_info.is_write
        for tensor in _tensors(value)
    ]
