"""Preflight: try the worst micro-batch before the first update, and estimate memory and time.

A run that does not fit into memory fails here, not after hours. Preflight leaves no state behind: gradients are
cleared, and the random numbers of an update derive only from its own number.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from nmt.config import Config
from nmt.data.batching import Batch
from nmt.errors import TrainingError
from nmt.machine.device import forget_peak_memory, is_out_of_memory, memory_for_use, memory_in_use, synchronize
from nmt.training.input.data_sets import TrainingData
from nmt.training.input.micro_batches import MicroBatching, Padded
from nmt.training.learner import Learner
from nmt.training.model_loss import batch_losses
from nmt.training.progress import Progress
from nmt.training.schedule import peak_update
from nmt.training.validation import VALIDATION_BATCH_TOKENS

_SMALLEST = 256
# Larger micro-batches gain nothing on a CPU: its matrix products are at full speed before, and its caches are small.
_LARGEST_ON_CPU = 4_096
# Logits: many operations of Apple's GPUs end the process where a tensor takes 4 GiB or more (pytorch#149325).
_LARGEST_ON_MPS = (1 << 30) - 1
MOST_LOGITS = 2_000_000_000
"""Of a micro-batch on a CUDA GPU, without spare rows. Kernels count up to 2^31 numbers fast, and some no more; larger
micro-batches gain nothing."""
_SHARE_OF_MEMORY = 0.85
# From one try to the next: an estimate from few positions is rough, and on a CPU a try that does not fit ends the
# process.
_MOST_DOUBLINGS = 2
# A shorter first pass was mostly warm-up, so a second pass is timed.
_WARMING_UP_SECONDS = 2.0
# Measured on an H100: compiling takes 30 to 40 seconds, and an update then takes half of the time or less.
_SECONDS_WORTH_COMPILING = 120


@dataclass(frozen=True)
class Preflight:
    """Measurements before the first update; of one rank unless stated otherwise."""

    micro_batch_tokens: int
    worst_positions: int
    """The pieces, with eos, on each side of the worst micro-batch."""
    memory_bytes: int
    """The memory in use with the worst micro-batch."""
    memory_for_use: int | None
    target_tokens_per_second: float
    """The speed of all ranks together on the worst micro-batch: long sentences, without padding."""
    seconds_left: float | None
    """The time until the run's limits: ``max_updates`` at the speed of the worst micro-batch, without validation, or
    ``max_minutes``. None if only patience ends the run."""
    ends_by_minutes: bool
    """Whether that is the limit of ``max_minutes``, which includes validation."""
    checkpoint_bytes: int
    checkpoints_bytes: int
    """The size of all checkpoints that will be kept, plus one that is being written."""
    disk_free: int
    compiles: bool = False
    """Whether one compiled graph is to compute model and loss."""
    not_compiled: str | None = None
    """Why none does on some rank."""
    within_warm_up: str | None = None
    """A warning, if the run ends before its learning rate has reached the peak."""

    @property
    def disk_warning(self) -> str | None:
        """A warning, if the checkpoints do not fit on the disk."""
        if self.checkpoints_bytes <= self.disk_free:
            return None
        return "the disk will be full before the run ends: free some room, or lower checkpoints.keep_last"


def preflight(
    learner: Learner, data: TrainingData, run: Path, progress: Progress, batching: Callable[[int], MicroBatching]
) -> Preflight:
    """Try the worst micro-batch, forward and backward, and measure.

    If ``batching.micro_batch_tokens`` is ``auto``, the largest micro-batch that fits is searched, unless an earlier
    start has found it; on a CUDA GPU a whole update is tried first. A size that does not fit is halved until it does.

    Args:
        batching: how updates are divided into micro-batches of a size.

    Raises:
        TrainingError: a single longest pair does not fit into memory.
    """
    config, hardware, ranks = data.config, learner.hardware, learner.ranks
    learner.reserve_exchange()  # else the largest micro-batch that fits would leave no memory for it
    trial = _Trial(learner, data, batching)
    tried = trial.fitting(trial.size_to_try(progress))
    # As the main rank decides. The time of the whole run counts, however often it resumes.
    whole, _ = _seconds_left(config, Progress(), tried.rate)
    compiles = ranks.gather(_is_to_compile(learner, config, progress, whole))[0]
    # All ranks try again, also where one cannot compile.
    if compiles and any(ranks.gather(learner.compile())):
        tried = trial.fitting(tried.size)
    not_compiled = next((reason for reason in ranks.gather(learner.take_warning()) if reason), None)
    worst, rate = tried.batch, tried.rate
    checkpoint = 4 * learner.checkpoint_numbers()
    there = next(folder for folder in (run, *run.absolute().parents) if folder.exists())
    seconds_left, ends_by_minutes = _seconds_left(config, progress, rate)
    return Preflight(
        micro_batch_tokens=tried.size,
        worst_positions=worst.positions,
        memory_bytes=tried.memory_bytes,
        memory_for_use=memory_for_use(hardware.device),
        target_tokens_per_second=rate,
        seconds_left=seconds_left,
        ends_by_minutes=ends_by_minutes,
        checkpoint_bytes=checkpoint,
        checkpoints_bytes=checkpoint * _checkpoints_at_once(config),
        disk_free=shutil.disk_usage(there).free,
        compiles=compiles,
        not_compiled=not_compiled,
        within_warm_up=_within_warm_up(config, progress, rate, seconds_left if ends_by_minutes else None),
    )


@dataclass(frozen=True)
class _Tried:
    """A size that fits on all ranks, and what the worst micro-batch of that size has shown."""

    size: int
    batch: Batch
    seconds: float
    memory_bytes: int
    rate: float
    """The target tokens per second of all ranks."""


class _Trial:
    """Tries micro-batches of the longest pairs, which need the most memory."""

    def __init__(self, learner: Learner, data: TrainingData, batching: Callable[[int], MicroBatching]) -> None:
        self._learner, self._data, self._batching = learner, data, batching
        self._device, self._ranks = learner.hardware.device, learner.ranks
        self._pieces = min(data.config.data.vocab_size, data.config.data.target_pieces)  # that both sides have
        self._largest = math.ceil(data.max_positions() / self._ranks.size)
        """No update has more positions than this for a rank."""

    def size_to_try(self, progress: Progress) -> int:
        """The size of micro-batches that an earlier start has found, that is asked for, or that ``auto`` chooses."""
        config, kind = self._data.config, self._device.type
        asked, pieces = config.batching.micro_batch_tokens, config.data.target_pieces
        known = progress.micro_batch_tokens or asked
        if asked == "auto" and known != "auto":
            return known
        if kind == "cuda" or self._learner.model.packed_attention is not None:  # reports when its memory is full
            return min(self._largest, MOST_LOGITS // pieces) if known == "auto" else known
        limits = {"cpu": _LARGEST_ON_CPU, "mps": _LARGEST_ON_MPS // pieces}
        if known == "auto":
            return self._estimate(min(self._largest, limits[kind]))
        if kind == "mps":
            return min(known, limits[kind])
        fitting = self._estimate(limit := min(known, self._largest))
        return fitting if fitting < limit else known

    def _estimate(self, limit: int) -> int:
        """Estimate the largest size that fits into memory, up to ``limit``.

        Memory is a constant plus a part proportional to the positions. Two small micro-batches give an estimate;
        trying that size gives a better one, and so on.
        """
        longest, ranks, is_cpu = self._data.longest, self._ranks, self._device.type == "cpu"
        # Two sizes of different numbers of rows, however long the longest pair is.
        size = min(max(_SMALLEST, 2 * longest), limit)
        first = self._memory_with(size // 2) if size < limit else None
        # The main rank copies what it saves. The first checkpoint allocates this memory.
        reserved = 4 * self._learner.checkpoint_numbers() if is_cpu and ranks.is_main else 0
        while size < limit and first is not None and (now := self._memory_with(size)) is not None:
            (used, positions), (first_used, first_positions) = now, first
            per_position = max((used - first_used) / (positions - first_positions), 1.0)
            usable = memory_for_use(self._device)
            if usable is None:
                times = 2.0
            else:
                more = _SHARE_OF_MEMORY * (usable // ranks.local_size if is_cpu else usable) - used - reserved
                times = (more / per_position + positions) / size
            if times < 2:
                break
            size = min(size * 2 ** min(math.floor(math.log2(times)), _MOST_DOUBLINGS), limit)
        return size

    def _memory_with(self, size: int) -> tuple[int, int] | None:
        """The memory in use with micro-batches of a size, and their positions, which are whole rows; None if one does
        not fit."""
        forget_peak_memory(self._device)
        batch = Padded(size).full_of(self._data.longest, self._pieces)
        return (memory_in_use(self._device), batch.positions) if self._learner.fits(batch) else None

    def fitting(self, size: int) -> _Tried:
        """Halve a size until micro-batches fit on all ranks."""
        size = min(self._ranks.gather(size))  # all ranks divide alike
        while True:
            divided = self._batching(min(size, self._largest))
            batch = divided.prepared(divided.full_of(self._data.longest, self._pieces))
            is_compiled = self._learner.is_compiled  # until the first pass, if compiling fails
            # Not in each pass: a graph that runs again allocates nothing, but its memory is still in use.
            forget_peak_memory(self._device)
            seconds, memory = self._seconds(batch), memory_in_use(self._device)
            # A short first pass was mostly warm-up. With a compiler, the first pass compiles and the second records a
            # graph.
            for _ in range(2 if is_compiled else int((seconds or math.inf) < _WARMING_UP_SECONDS)):
                seconds = seconds and self._seconds(batch)
            if all(self._ranks.gather(seconds is not None and self._leaves_room_to_validate(size))):
                assert seconds is not None
                return _Tried(size, batch, seconds, memory, batch.target_tokens / seconds * self._ranks.size)
            size = divided.tokens // 2
            if self._learner.is_compiled:
                self._learner.compile()  # anew, because graphs of another size keep their memory

    def _leaves_room_to_validate(self, size: int) -> bool:
        """Whether a batch of validation fits beside the memory that graphs keep for themselves, by trying it."""
        learner = self._learner
        if not learner.is_compiled:
            return True
        batch = Padded(min(size, VALIDATION_BATCH_TOKENS)).full_of(self._data.longest, self._pieces)
        try:
            with torch.inference_mode():
                batch_losses(learner.model, batch, 0.0, learner.hardware)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            return False
        return True

    def _seconds(self, batch: Batch) -> float | None:
        """The duration of the passes over a micro-batch; None if it does not fit into memory."""
        begin = time.perf_counter()
        if not self._learner.fits(batch):
            return None
        synchronize(self._device)
        return time.perf_counter() - begin


def _within_warm_up(config: Config, progress: Progress, rate: float, seconds_left: float | None) -> str | None:
    """A warning, if the run is too short for its warm-up: by its last update, or by the seconds left if given."""
    last, warmup, about = config.training.max_updates, config.schedule.warmup, ""
    if seconds_left is not None:
        last, about = progress.update + round(seconds_left * rate / config.batching.update_tokens), "about "
    if last is None or (highest := peak_update(config.schedule, last)) >= warmup:
        return None
    shorter = max(highest // 2, 1)
    factor = config.schedule.factor * (shorter / warmup) ** 0.5  # the peak is factor · (d_model · warmup)^-0.5
    return (
        f"the run ends at {about}update {last:,}, and the learning rate grows until update {highest:,}, within its "
        f"warm-up of {warmup:,} updates: it does not reach its peak. Train longer, or reach the same peak sooner: "
        f"--set schedule.warmup={shorter} --set schedule.factor={factor:.3g}"
    )


def _is_to_compile(learner: Learner, config: Config, progress: Progress, seconds: float | None) -> bool:
    """Whether to compile model and loss, by the time that the run takes without compiling."""
    asked = config.training.compile
    if asked != "auto":
        return asked
    if progress.compiles is not None:
        return progress.compiles
    can_be = learner.hardware.device.type == "cuda" and learner.why_not_compiled is None
    return can_be and (seconds is None or seconds >= _SECONDS_WORTH_COMPILING)


def _seconds_left(config: Config, progress: Progress, rate: float) -> tuple[float | None, bool]:
    """The seconds until the run's limits, and whether ``max_minutes`` is the first of them."""
    training = config.training
    by_updates = by_minutes = math.inf
    if training.max_updates is not None:
        by_updates = (training.max_updates - progress.update) * config.batching.update_tokens / rate
    if training.max_minutes is not None:
        by_minutes = training.max_minutes * 60 - progress.seconds
    left = min(by_updates, by_minutes)
    return None if left == math.inf else max(0.0, left), by_minutes < by_updates


def _checkpoints_at_once(config: Config) -> int:
    settings, updates = config.checkpoints, config.training.max_updates
    every = updates // settings.keep_every if settings.keep_every is not None and updates is not None else 0
    return settings.keep_last + settings.keep_best + every + 1


def check_disk(found: Preflight) -> None:
    """Refuse to start if the disk has no room for a single checkpoint.

    Raises:
        TrainingError: the disk is too full.
    """
    if found.disk_free < found.checkpoint_bytes:
        raise TrainingError(
            f"a checkpoint takes {found.checkpoint_bytes / 1e9:.1f} GB, but the run's disk has only "
            f"{found.disk_free / 1e9:.1f} GB free. Make room, or name a folder on another disk with --out."
        )
