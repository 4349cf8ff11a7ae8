"""A double of NCCL on top of gloo: what a rank sees of the others is as between GPUs.

gloo raises an error in the collective itself when another rank is gone. Under NCCL the collective only starts, and the
rank waits for a device that never finishes: in C, where no handler of a signal in Python runs, so only SIGKILL ends
it. Destroying the process group waits for all ranks.

Tensors on the host (whole numbers here) are exchanged by gloo between GPUs too, so they keep its behaviour.
"""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch.distributed as dist
from torch import Tensor

_SECONDS = 3_600


def behave_like_nccl() -> None:
    """Change torch's collectives for the rest of this process."""
    dist.all_reduce = _silent(dist.all_reduce)
    dist.broadcast = _silent(dist.broadcast)
    destroy = dist.destroy_process_group

    def destroy_together() -> None:
        store, rank, ranks = dist.distributed_c10d._get_default_store(), dist.get_rank(), dist.get_world_size()
        store.add("destroying", 1)
        while store.add("destroying", 0) < ranks:
            _sleep(1)
        store.add("destroyed", 1)
        while rank == 0 and store.add("destroyed", 0) < ranks:  # this rank keeps the store
            _sleep(1)
        destroy()

    dist.destroy_process_group = destroy_together


def _silent(collective: Callable[..., Any]) -> Callable[..., Any]:
    def call(tensor: Tensor, **options: Any) -> Any:
        begun = _silently(lambda: collective(tensor, **options), tensor)
        if begun is None:
            return None
        return SimpleNamespace(wait=lambda: _silently(begun.wait, tensor))

    return call


def _silently(exchange: Callable[[], Any], tensor: Tensor) -> Any:
    try:
        return exchange()
    except RuntimeError:
        if not tensor.is_floating_point():
            raise
        while True:
            _sleep(_SECONDS)


def _sleep(seconds: int) -> None:
    """Sleep as C code does: no signal but SIGKILL ends it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    ctypes.CDLL(None).sleep(seconds)
