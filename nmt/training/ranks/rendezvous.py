"""How the ranks of one machine find each other: by a file in a private folder, and only over loopback.

torch's default store listens on every address, answers everyone who connects, and holds pickled objects, so that anyone
who reaches it can run code. Only torchrun uses it, because it is needed when several machines train together.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from torch.distributed import FileStore  # type: ignore[attr-defined]

from nmt.errors import TrainingError

_FILE_VARIABLE = "NMT_RENDEZVOUS"
_FILE_NAME = "store"
_LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"


@contextmanager
def private_rendezvous() -> Iterator[Path]:
    """The rendezvous file, in a temporary folder that only this user can enter (mode 0700). Removed at the end.

    Raises:
        TrainingError: no temporary folder can be made.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix="nmt-ranks-", ignore_cleanup_errors=True)
    except OSError as error:
        raise TrainingError(
            f"The ranks need a temporary folder to find each other, but none can be made ({error}). Set TMPDIR to a "
            "writable folder."
        ) from None
    with folder as path:
        yield Path(path) / _FILE_NAME


def environment_of_rank(rank: int, size: int, rendezvous: Path) -> dict[str, str]:
    """The environment of one of ``size`` ranks on this machine.

    gloo and NCCL are bound to loopback, even if the caller's variables say otherwise for training on several machines.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "NCCL_COMM_ID"}  # an address to listen on
    return inherited | {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(size),
        _FILE_VARIABLE: str(rendezvous),
        "GLOO_SOCKET_IFNAME": _LOOPBACK,
        "NCCL_SOCKET_IFNAME": f"={_LOOPBACK}",  # exactly this one: a bare name is a prefix
    }


def store_of_environment(size: int, timeout: timedelta) -> FileStore | None:
    """The store in the file that :func:`environment_of_rank` named; None under torchrun, which has its own store.

    Args:
        timeout: the maximum time that a rank waits for a value of another rank.
    """
    if (path := os.environ.get(_FILE_VARIABLE)) is None:
        return None
    store = FileStore(path, size)
    store.set_timeout(timeout)
    return store
