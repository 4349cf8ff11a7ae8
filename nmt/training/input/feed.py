"""What the loop eats: the updates of a run in their order, with this rank's micro-batches, made ahead by a thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import torch

from nmt.config import BatchingConfig
from nmt.data.arrays import Indices
from nmt.data.batching import Batch, collate, plan_epoch, rank_micro_batches
from nmt.data.shards import PairSource
from nmt.errors import DataError
from nmt.training.ranks.exchange import Ranks

T = TypeVar("T")

UPDATES_AHEAD = 4
"""Enough that an update which is quick to compute and slow to collate does not stop the loop."""

_POLL_SECONDS = 0.2
_SECONDS_TO_END = 5.0


@dataclass(frozen=True)
class PlannedUpdate:
    """An update that is to be made."""

    epoch: int
    index: int
    """In the epoch's plan, counted from 0."""
    target_tokens: int
    """Of the whole update, over all ranks."""
    pairs: Indices
    """Indices of its pairs in the epoch's shards, over all ranks."""
    batches: list[Batch]
    """This rank's micro-batches."""


@dataclass(frozen=True)
class Epochs:
    """The endless row of epochs: what each one holds, and how it is planned."""

    open: Callable[[int], tuple[PairSource, Indices | None]]
    """The shards of an epoch, and which pairs it takes of them; each once where None."""
    batching: BatchingConfig
    seed: int

    def updates(self, epoch: int, index: int, *, micro_batch_tokens: int, ranks: Ranks) -> Iterator[PlannedUpdate]:
        """All updates from a place in the plan on, for ever. Seeks there at once; replays nothing."""
        while True:
            shards, population = self.open(epoch)
            lengths = shards.source_lengths, shards.target_lengths
            plan = plan_epoch(
                *lengths,
                pairs=population,
                update_tokens=self.batching.update_tokens,
                group_tokens=self.batching.group_tokens,
                seed=self.seed,
                epoch=epoch,
            )
            if len(plan) == 0:
                raise DataError(f"epoch {epoch + 1} holds no pair: all of them are longer than the shards allow.")
            while index < len(plan):
                shares = rank_micro_batches(
                    plan,
                    index,
                    rank=ranks.rank,
                    ranks=ranks.size,
                    max_tokens=micro_batch_tokens,
                    source_lengths=lengths[0],
                    target_lengths=lengths[1],
                )
                batches = [collate(shards, pairs) for pairs in shares]
                yield PlannedUpdate(epoch, index, plan.target_tokens(index), plan.update(index), batches)
                index += 1
            epoch, index = epoch + 1, 0


def pinned(updates: Iterator[PlannedUpdate]) -> Iterator[PlannedUpdate]:
    """The same, in memory that a GPU copies from on its own, without stopping anyone."""
    for update in updates:
        yield replace(update, batches=[_pinned(batch) for batch in update.batches])


def _pinned(batch: Batch) -> Batch:
    # A pinned tensor and its view as an array share memory; as_tensor makes a tensor of the same memory again.
    source, target_input, target_output = (
        torch.from_numpy(side).pin_memory().numpy()
        for side in (batch.source_BS, batch.target_input_BT, batch.target_output_BT)
    )
    return replace(batch, source_BS=source, target_input_BT=target_input, target_output_BT=target_output)


def ahead(
    items: Iterator[T], depth: int = UPDATES_AHEAD, *, until: Callable[[], object] = lambda: False
) -> Generator[T]:
    """Serve what an iterator serves, made by a thread up to ``depth`` items ahead.

    What the iterator raises is raised here, in its place. Closing this iterator ends the thread, unless the thread
    still waits for an item: then it ends with the process, or when that comes.

    Args:
        until: asked while an item is waited for; this iterator ends when it says yes.
    """
    made: queue.Queue[tuple[T] | BaseException | None] = queue.Queue(depth)
    is_over = threading.Event()

    def put(item: tuple[T] | BaseException | None) -> None:
        while not is_over.is_set():
            try:
                made.put(item, timeout=_POLL_SECONDS)
                return
            except queue.Full:
                continue

    def make() -> None:
        try:
            for item in items:
                put((item,))
                if is_over.is_set():
                    return
            put(None)
        except BaseException as error:
            put(error)

    thread = threading.Thread(target=make, name="batches", daemon=True)
    thread.start()
    try:
        while True:
            try:
                item = made.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                if until():
                    return
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item[0]
    finally:
        is_over.set()
        # A thread that is cut off by the end of the process can take the process down with it.
        thread.join(_SECONDS_TO_END)
