"""The updates of a run in order, with this rank's micro-batches, prepared ahead by a thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import torch

from nmt.config import BatchingConfig
from nmt.data.arrays import Indices
from nmt.data.batching import Batch, EpochPlan, collate, plan_epoch
from nmt.data.dealing import fitting_limits
from nmt.data.shards import PairSource
from nmt.errors import DataError
from nmt.model.transformer import Transformer
from nmt.training.input.micro_batches import Filled, MicroBatching, Padded
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
    batching: MicroBatching
    """By which the update was divided."""
    divide: Callable[[MicroBatching], list[Batch]]
    """This rank's micro-batches by another one."""

    def divided_by(self, batching: MicroBatching) -> PlannedUpdate:
        """The same update in other micro-batches, if they have changed since it was divided."""
        return self if batching == self.batching else replace(self, batches=self.divide(batching), batching=batching)


@dataclass(frozen=True)
class Epochs:
    """The endless sequence of epochs: their data and their plans."""

    open: Callable[[int, int], tuple[PairSource, Indices | None]]
    """Epoch, and the number of updates before it -> its shards, and the indices of its pairs (None: each once)."""
    batching: BatchingConfig
    seed: int
    ends: tuple[int, ...] = ()
    """Numbers of updates of the run after which an epoch ends, whatever is left of its plan."""

    def plan(self, epoch: int, start: int = 0) -> tuple[PairSource, EpochPlan]:
        """The shards and the plan of an epoch that begins after ``start`` updates."""
        shards, population = self.open(epoch, start)
        plan = plan_epoch(
            shards.source_lengths,
            shards.target_lengths,
            pairs=population,
            update_tokens=self.batching.update_tokens,
            group_tokens=self.batching.group_tokens,
            seed=self.seed,
            epoch=epoch,
        )
        return shards, plan

    def micro_batching(
        self, model: Transformer, device: torch.device, ranks: Ranks, longest: int
    ) -> Callable[[int], MicroBatching]:
        """How updates are divided into micro-batches of a maximum of tokens, for the attention of a model.

        Where that needs no padding, all epochs get the size that suits the first one.

        Args:
            longest: the pieces of the longest sentence of any epoch, with eos.
        """
        if model.packed_attention is None:
            return lambda tokens: Padded(tokens, model.size_of, device)
        shards, plan = self.plan(0)
        sides = shards.source_lengths, shards.target_lengths

        def filled(tokens: int) -> MicroBatching:
            limits = fitting_limits(plan, *sides, ranks=ranks.size, max_tokens=tokens, longest=longest)
            return Filled.within(limits, longest, device)

        return filled

    def updates(
        self,
        epoch: int,
        index: int,
        *,
        start: int = 0,
        batching: Callable[[], MicroBatching],
        ranks: Ranks,
    ) -> Iterator[PlannedUpdate]:
        """All updates from ``index`` of ``epoch`` on, without end. Nothing before it is replayed.

        Args:
            start: the number of updates of the run before ``epoch``.
            batching: asked at each update how it is divided. That may change while updates are prepared ahead, so use
                :meth:`PlannedUpdate.divided_by`. All ranks must divide alike.
        """
        while True:
            shards, plan = self.plan(epoch, start)
            if len(plan) == 0:
                raise DataError(f"epoch {epoch + 1} has no pairs: all are longer than the maximum of the shards.")
            size = min([len(plan), *(end - start for end in self.ends if end > start)])
            while index < size:
                divide = partial(_divided, shards, plan, index, ranks)
                now = batching()
                yield PlannedUpdate(
                    epoch, index, plan.target_tokens(index), plan.update(index), divide(now), now, divide
                )
                index += 1
            epoch, index, start = epoch + 1, 0, start + index


def _divided(shards: PairSource, plan: EpochPlan, index: int, ranks: Ranks, batching: MicroBatching) -> list[Batch]:
    """One rank's micro-batches of an update."""
    lengths = shards.source_lengths, shards.target_lengths
    return [batching.prepared(collate(shards, pairs)) for pairs in batching.of(plan, index, ranks, lengths)]


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
