"""The updates of a run in order, with this rank's micro-batches, prepared ahead by a thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from nmt.config import BatchingConfig
from nmt.data.arrays import Indices
from nmt.data.batching import Batch, EpochPlan, collate, plan_epoch, rank_micro_batches
from nmt.data.dealing import dealt_micro_batches
from nmt.data.shards import PairSource
from nmt.errors import DataError
from nmt.training.ranks.exchange import Ranks

T = TypeVar("T")

UPDATES_AHEAD = 4
"""Enough to keep the loop busy when an update is fast to compute but slow to collate."""

_POLL_SECONDS = 0.2
_SECONDS_TO_END = 5.0


@dataclass(frozen=True)
class PlannedUpdate:
    """An update of the epoch's plan."""

    epoch: int
    index: int
    """The index in the epoch's plan, from 0."""
    target_tokens: int
    """The target tokens of the whole update, over all ranks."""
    pairs: Indices
    """The indices of the update's pairs in the epoch's shards, over all ranks."""
    batches: list[Batch]
    """This rank's micro-batches."""
    micro_batch_tokens: int
    """The size that they were dealt with."""
    deal: Callable[[int], list[Batch]]
    """Deals this rank's micro-batches with another size."""

    def with_micro_batches_of(self, micro_batch_tokens: int) -> PlannedUpdate:
        """The same update in micro-batches of a size, which may have changed since they were dealt."""
        if micro_batch_tokens == self.micro_batch_tokens:
            return self
        return replace(self, batches=self.deal(micro_batch_tokens), micro_batch_tokens=micro_batch_tokens)


@dataclass(frozen=True)
class Epochs:
    """The endless sequence of epochs: their data and their plans."""

    open: Callable[[int], tuple[PairSource, Indices | None]]
    """Epoch -> its shards, and the indices of its pairs (None: each pair once)."""
    batching: BatchingConfig
    seed: int

    def updates(
        self,
        epoch: int,
        index: int,
        *,
        micro_batch_tokens: Callable[[], int],
        ranks: Ranks,
        pads: bool = True,
        prepare: Callable[[Batch], Batch] = lambda batch: batch,
    ) -> Iterator[PlannedUpdate]:
        """All updates from ``index`` of ``epoch`` on, without end. Nothing before it is replayed.

        Args:
            micro_batch_tokens: asked for the size of micro-batches at each update. It may change while updates are
                prepared ahead, so use :meth:`PlannedUpdate.with_micro_batches_of`. All ranks must use one size.
            pads: whether the model pads sentences, so that those of a micro-batch should have similar lengths.
            prepare: called with each micro-batch, in the thread that makes it.
        """
        while True:
            shards, population = self.open(epoch)
            plan = plan_epoch(
                shards.source_lengths,
                shards.target_lengths,
                pairs=population,
                update_tokens=self.batching.update_tokens,
                group_tokens=self.batching.group_tokens,
                seed=self.seed,
                epoch=epoch,
            )
            if len(plan) == 0:
                raise DataError(f"epoch {epoch + 1} has no pairs: all are longer than the maximum of the shards.")
            while index < len(plan):
                deal = partial(_dealt, shards, plan, index, ranks, pads, prepare)
                size = micro_batch_tokens()
                yield PlannedUpdate(epoch, index, plan.target_tokens(index), plan.update(index), deal(size), size, deal)
                index += 1
            epoch, index = epoch + 1, 0


def _dealt(
    shards: PairSource,
    plan: EpochPlan,
    index: int,
    ranks: Ranks,
    pads: bool,
    prepare: Callable[[Batch], Batch],
    micro_batch_tokens: int,
) -> list[Batch]:
    """One rank's micro-batches of an update."""
    shares = (rank_micro_batches if pads else dealt_micro_batches)(
        plan,
        index,
        rank=ranks.rank,
        ranks=ranks.size,
        max_tokens=micro_batch_tokens,
        source_lengths=shards.source_lengths,
        target_lengths=shards.target_lengths,
    )
    return [prepare(collate(shards, pairs)) for pairs in shares]


def prefetched(
    items: Iterator[T], depth: int = UPDATES_AHEAD, *, until: Callable[[], object] = lambda: False
) -> Generator[T]:
    """Yield the items of an iterator, which a thread makes up to ``depth`` items ahead.

    An exception of the iterator is raised here, in its place. Closing this iterator ends the thread; if the thread is
    still making an item, it ends after that item or with the process.

    Args:
        until: called while waiting for an item; this iterator ends when it returns True.
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
        # A thread that still runs when the process ends can crash the process.
        thread.join(_SECONDS_TO_END)
