"""The training loop: updates in the order of the plan, with logging, validation and checkpoints between them."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.checkpoint.bundle import TrainingState, save_bundle
from nmt.checkpoint.run import METRICS_FILE, best_updates, checkpoint_folder, prune, update_links
from nmt.config import Config
from nmt.data.batching import EpochPlan, collate, plan_epoch, rank_micro_batches
from nmt.data.shards import ParallelShards
from nmt.data.vocab import Vocabulary
from nmt.device import Hardware
from nmt.model.transformer import Transformer
from nmt.training.metrics import Listener, Meter, MetricsFile
from nmt.training.schedule import learning_rate
from nmt.training.step import UpdateResult, make_optimizer, optimizer_tensors, restore_optimizer, take_update
from nmt.training.validation import Validator


class Ending(Enum):
    """Why a run ended."""

    UPDATES = "the updates that were asked for are made"
    MINUTES = "the time that was given is over"
    PATIENCE = "validation has not improved for long enough"
    INTERRUPTED = "it was interrupted"


@dataclass
class Progress:
    """Where a run stands. What is here goes into each checkpoint."""

    update: int = 0
    epoch: int = 0
    index: int = 0
    """The next update of the epoch's plan."""
    seconds: float = 0.0
    """Spent in the loop, all resumes together."""
    scores: dict[int, float] = field(default_factory=dict)
    """Of each validation by update, more is better."""
    validations_without_gain: int = 0

    def values(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "update": self.update,
            "epoch": self.epoch,
            "index": self.index,
            "seconds": self.seconds,
            "scores": {str(update): score for update, score in self.scores.items()},
            "validations_without_gain": self.validations_without_gain,
        }

    @staticmethod
    def from_values(values: dict[str, Any]) -> Progress:
        """Read what :meth:`values` wrote."""
        scores = {int(update): score for update, score in values["scores"].items()}
        return Progress(**(values | {"scores": scores}))

    def ending(self, config: Config) -> Ending | None:
        """Whether the run is over by its limits."""
        training = config.training
        if training.max_updates is not None and self.update >= training.max_updates:
            return Ending.UPDATES
        if training.max_minutes is not None and self.seconds >= training.max_minutes * 60:
            return Ending.MINUTES
        if training.patience is not None and self.validations_without_gain >= training.patience:
            return Ending.PATIENCE
        return None


class Trainer:
    """A run under way."""

    def __init__(
        self,
        run: Path,
        config: Config,
        data: Path,
        model: Transformer,
        vocab: Vocabulary,
        hardware: Hardware,
        listener: Listener,
        resume: TrainingState | None = None,
    ) -> None:
        self.progress = Progress() if resume is None else Progress.from_values(dict(resume.values))
        self._run = run
        self._config = config
        self._model = model.to(hardware.device).train()
        self._vocab = vocab
        self._hardware = hardware
        self._listener = listener
        self._shards = ParallelShards.open(data, "train")
        self._validator = Validator(data, config, vocab, hardware)
        self._optimizer = make_optimizer(self._model, config.optimizer)
        if resume is not None:
            restore_optimizer(self._model, self._optimizer, resume.tensors, self.progress.update)
        self._metrics = MetricsFile(run / METRICS_FILE)
        self._metrics.cut_back(self.progress.update)
        self._saved_update = self.progress.update if resume is not None else -1
        self._saved_seconds = self.progress.seconds
        self._validation_seconds = 0.0
        self.stopped_by: int | None = None
        """The signal that interrupted the run."""

    def train(self) -> Ending:
        """Train until a limit or a signal; what was learnt is saved whichever ends it."""
        config, progress, meter = self._config, self.progress, Meter()
        self._listener.started(progress.update, config.training.max_updates, config.training.max_minutes)
        begin = time.perf_counter() - progress.seconds
        update_begin = time.perf_counter()
        with _stopping_on_signals() as signalled:
            for plan, pairs in self._updates():
                result = self._take_update(plan, pairs)
                progress.seconds = time.perf_counter() - begin
                meter.add(result, time.perf_counter() - update_begin)
                if progress.update % config.logging.every_updates == 0:
                    self._log(meter)
                self._listener.progressed(progress.update, progress.seconds)

                ending = Ending.INTERRUPTED if signalled else self._ending()
                if ending is not Ending.INTERRUPTED:
                    if self._validation_is_due(ending):
                        self._validate()
                    progress.seconds = time.perf_counter() - begin
                    ending = ending or self._ending()
                if ending is Ending.MINUTES:
                    # All of the time is spent, also what was kept free for the validation and not needed: the same
                    # command again must find the run over.
                    progress.seconds = max(progress.seconds, 60 * (config.training.max_minutes or 0))
                if ending is not None or self._saving_is_due():
                    self._save()
                if ending is not None:
                    self.stopped_by = signalled[0] if signalled else None
                    return ending
                update_begin = time.perf_counter()
        raise AssertionError("the updates of a plan never end")

    def _updates(self) -> Iterator[tuple[EpochPlan, NDArray[np.integer[Any]]]]:
        """The pairs of one update after another, from where the run stands, epoch by epoch for ever."""
        shards, batching, progress = self._shards, self._config.batching, self.progress
        while True:
            plan = plan_epoch(
                shards.source_lengths,
                shards.target_lengths,
                update_tokens=batching.update_tokens,
                group_tokens=batching.group_tokens,
                seed=self._config.training.seed,
                epoch=progress.epoch,
            )
            while progress.index < len(plan):
                progress.index += 1
                progress.update += 1
                yield plan, plan.update(progress.index - 1)
            progress.epoch += 1
            progress.index = 0

    def _take_update(self, plan: EpochPlan, pairs: NDArray[np.integer[Any]]) -> UpdateResult:
        config, update = self._config, self.progress.update
        micro_batches = rank_micro_batches(
            plan,
            self.progress.index - 1,
            rank=0,
            ranks=1,
            max_tokens=config.batching.micro_batch_tokens,
            source_lengths=self._shards.source_lengths,
            target_lengths=self._shards.target_lengths,
        )
        return take_update(
            self._model,
            self._optimizer,
            [collate(self._shards, indices) for indices in micro_batches],
            update=update,
            learning_rate=learning_rate(update, config.schedule, config.model.d_model),
            label_smoothing=config.training.label_smoothing,
            seed=config.training.seed,
            hardware=self._hardware,
        )

    def _ending(self) -> Ending | None:
        """A limit that is reached; time for the validation at the end is kept free."""
        ending = self.progress.ending(self._config)
        minutes = self._config.training.max_minutes
        if ending is None and minutes is not None:
            reserve = self._validation_seconds if self._validation_seconds < minutes * 60 / 2 else 0.0
            if self.progress.seconds + reserve >= minutes * 60:
                return Ending.MINUTES
        return ending

    def _log(self, meter: Meter) -> None:
        update = self.progress.update
        rate = learning_rate(update, self._config.schedule, self._config.model.d_model)
        record = meter.record(update, epoch=self.progress.epoch, learning_rate=rate, seconds=self.progress.seconds)
        self._record(record)

    def _record(self, record: dict[str, Any]) -> None:
        self._metrics.append(record)
        self._listener.recorded(record)

    def _validation_is_due(self, ending: Ending | None) -> bool:
        update = self.progress.update
        if update in self.progress.scores:
            return False
        return ending is not None or update % self._config.validation.every_updates == 0

    def _validate(self) -> None:
        progress = self.progress
        validation = self._validator.validate(self._model)
        self._validation_seconds = validation.seconds
        best = max(progress.scores.values(), default=-float("inf"))
        progress.validations_without_gain = 0 if validation.score > best else progress.validations_without_gain + 1
        progress.scores[progress.update] = validation.score
        place = {"update": progress.update, "epoch": progress.epoch, "seconds": progress.seconds}
        self._record(place | validation.record())

    def _saving_is_due(self) -> bool:
        settings, update = self._config.checkpoints, self.progress.update
        if settings.every_updates is not None and update % settings.every_updates == 0:
            return True
        minutes = settings.every_minutes
        if minutes is not None and self.progress.seconds - self._saved_seconds >= minutes * 60:
            return True
        # One of the best is saved whatever the interval, since it will not come back.
        return update in best_updates(self.progress.scores, settings.keep_best)

    def _save(self) -> None:
        """Write a checkpoint, then move the links to it, then delete what need not be kept: in this order a crash
        at any moment leaves whole checkpoints and links that lead to one."""
        progress = self.progress
        if progress.update == self._saved_update:
            return
        folder = checkpoint_folder(self._run, progress.update)
        state = TrainingState(optimizer_tensors(self._model, self._optimizer), progress.values())
        save_bundle(folder, self._model.state_dict(), self._config, self._vocab, training=state)
        self._saved_update, self._saved_seconds = progress.update, progress.seconds
        update_links(self._run, progress.scores)
        prune(self._run, progress.scores, self._config.checkpoints)


@contextmanager
def _stopping_on_signals() -> Iterator[list[int]]:
    """SIGTERM and SIGINT let the update under way end, and are noted; a second one acts at once."""
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, note)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
