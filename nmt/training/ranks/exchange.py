"""The ranks of a run: their numbers, their messages, and their errors.

A launcher (``nmt train --nproc`` or torchrun) starts the processes, and ends all of them when one fails. The error of a
failed rank names the rank, and is written to the file where torchrun looks for the cause. A rank that only lost contact
with another rank waits until the launcher ends it, because its own error would hide the cause.

Ranks exchange tensors and JSON. Data from other ranks is never unpickled.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from nmt.errors import NmtError, TrainingError
from nmt.machine.device import is_out_of_memory
from nmt.training.ranks.rendezvous import store_of_environment
from nmt.training.ranks.stop_signals import stop_signals

T = TypeVar("T")

EXCHANGE_TIMEOUT = timedelta(minutes=30)
"""How long ranks wait for a busy rank, which compiles, validates, saves or encodes."""
UPDATE_TIMEOUT = timedelta(minutes=5)
"""How long ranks on several machines wait for the next update of another rank. A rank that has died is noticed at once,
but a machine that has vanished closes no connection."""
_SECONDS_UNTIL_ENDED = 40
_POLL_SECONDS = 1.0


class LostPeerError(NmtError):
    """Another rank is gone, so this one cannot continue."""


@dataclass(frozen=True)
class Ranks:
    """This process among the ranks that train together. With a single rank, all exchanges are no-ops."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """The number among the ranks of the same machine."""
    local_size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this is the rank that writes the run's folder and reports to the user."""
        return self.rank == 0

    def allow_long_waits(self, is_allowed: bool) -> None:
        """Choose how long the exchanges that begin from now on wait for another machine: at first, long.

        Ranks of one machine always wait long, because a user may suspend all of them.
        """
        if self.size > self.local_size:
            dist.distributed_c10d._set_pg_timeout(EXCHANGE_TIMEOUT if is_allowed else UPDATE_TIMEOUT)

    def all_reduce(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all ranks."""
        if self.size > 1:
            self._together(lambda: dist.all_reduce(tensor))

    def begin_all_reduce(self, tensor: Tensor) -> Callable[[], None]:
        """Begin to replace a tensor by its sum over all ranks; the result waits until it is replaced."""
        if self.size == 1:
            return lambda: None
        begun: list[dist.Work] = []
        self._together(lambda: begun.append(dist.all_reduce(tensor, async_op=True)))
        return lambda: self._together(begun[0].wait)

    def broadcast(self, tensor: Tensor) -> None:
        """Replace a tensor by the main rank's."""
        if self.size > 1:
            self._together(lambda: dist.broadcast(tensor, src=0))

    def broadcast_object(self, value: T) -> T:
        """The main rank's value, sent as JSON; tuples arrive as lists."""
        if self.size == 1:
            return value
        message = _encoded(value)
        length = torch.tensor([len(message)])
        self.broadcast(length)
        if not self.is_main:
            message = torch.empty(int(length), dtype=torch.uint8)
        self.broadcast(message)
        return cast(T, _decoded(message))

    def gather(self, value: T) -> list[T]:
        """The values of all ranks in order, sent as JSON; tuples arrive as lists."""
        if self.size == 1:
            return [value]
        message = _encoded(value)
        lengths = torch.zeros(self.size, dtype=torch.int64)
        lengths[self.rank] = len(message)
        self.all_reduce(lengths)
        own = torch.zeros(int(lengths.max()), dtype=torch.uint8)
        own[: len(message)] = message
        messages = [torch.empty_like(own) for _ in range(self.size)]
        self._together(lambda: dist.all_gather(messages, own))
        return [cast(T, _decoded(each[:length])) for each, length in zip(messages, lengths.tolist(), strict=True)]

    def _together(self, exchange: Callable[[], object]) -> None:
        try:
            exchange()
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise TrainingError(
                    f"the memory ended while ranks exchanged tensors ({error}). Set a lower "
                    "batching.micro_batch_tokens, then run the same command: it resumes from the last checkpoint."
                ) from None
            raise LostPeerError(
                f"rank {self.rank}: lost contact with the other ranks: one has died, or its machine or network has "
                f"failed ({error})."
            ) from error


NO_OTHERS = Ranks()


def _encoded(value: object) -> Tensor:
    """JSON as bytes. It preserves floats exactly, including infinities and NaN."""
    return torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)


def _decoded(message: Tensor) -> object:
    return json.loads(message.numpy().tobytes())


def is_launched() -> bool:
    """Whether a launcher (``nmt train --nproc`` or torchrun) started this process as a rank."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def ranks_of_environment() -> Ranks:
    """This process's rank, from the launcher's environment variables; a single rank without a launcher."""
    if not is_launched():
        return Ranks()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    return Ranks(rank, size, int(os.environ.get("LOCAL_RANK", rank)), int(os.environ.get("LOCAL_WORLD_SIZE", size)))


def _never() -> bool:
    return False


@contextmanager
def process_group(ranks: Ranks, device: torch.device, is_stopping: Callable[[], bool] = _never) -> Iterator[None]:
    """Connect to the other ranks while the body runs: with NCCL between GPUs, otherwise with gloo.

    Args:
        is_stopping: whether this rank has received a signal to stop, which its handlers only noted.
    """
    if ranks.size == 1:
        yield
        return
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    store = store_of_environment(ranks.size, EXCHANGE_TIMEOUT)
    if store is None:
        dist.init_process_group(backend, timeout=EXCHANGE_TIMEOUT)
    else:
        dist.init_process_group(backend, timeout=EXCHANGE_TIMEOUT, store=store, rank=ranks.rank, world_size=ranks.size)
    with _failures_named(ranks, is_stopping):
        yield
        # No rank disconnects while another still needs it.
        ranks.gather(None)
    # Only here: under NCCL it waits for the other ranks, and these may be waiting for one that has failed.
    dist.destroy_process_group()


@contextmanager
def saving_when_orphaned(is_stopping: Callable[[], bool]) -> Iterator[None]:
    """While the body runs, send this rank a signal to stop if the process that started it is gone.

    Otherwise an orphaned rank would continue unseen, and would block the same command.

    Args:
        is_stopping: as for :func:`process_group`. A second signal would end a rank that is saving.
    """
    parent, is_over = os.getppid(), threading.Event()

    def watch() -> None:
        while not is_over.wait(_POLL_SECONDS):
            if os.getppid() != parent:
                if not is_stopping():
                    os.kill(os.getpid(), signal.SIGTERM)
                return

    thread = threading.Thread(target=watch, name="parent", daemon=True)
    if is_launched():
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        if thread.ident is not None:
            thread.join()


@contextmanager
def _failures_named(ranks: Ranks, is_stopping: Callable[[], bool]) -> Iterator[None]:
    try:
        yield
    except LostPeerError:
        if ranks.local_size > 1:  # else no rank of this launcher has failed before
            _wait_to_be_ended(is_stopping)
        raise
    except NmtError as error:
        _report_to_torchrun(error)
        error.args = (f"rank {ranks.rank}: {error}",)
        raise
    except Exception as error:
        _report_to_torchrun(error)
        error.add_note(f"This was rank {ranks.rank} of {ranks.size}.")
        raise


def _wait_to_be_ended(is_stopping: Callable[[], bool]) -> None:
    """Wait for the launcher's signal, so that the launcher sees the rank that failed first end first."""
    for number in stop_signals():
        signal.signal(number, signal.SIG_DFL)
    if is_stopping():  # the signal has come before, and was only noted
        signal.raise_signal(signal.SIGTERM)
    time.sleep(_SECONDS_UNTIL_ENDED)


def _report_to_torchrun(error: Exception) -> None:
    if "TORCHELASTIC_ERROR_FILE" in os.environ:
        from torch.distributed.elastic.multiprocessing.errors import get_error_handler

        get_error_handler().record_exception(error)
