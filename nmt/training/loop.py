"""The training loop: updates in the order of the plan, with logging, validation and checkpoints between them."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from nmt.checkpoint.run_folder import RunFolder, best_updates
from nmt.config import Config
from nmt.data.vocab import Vocabulary
from nmt.device import memory_in_use
from nmt.errors import TrainingError
from nmt.training.input.feed import Epochs, PlannedUpdate, ahead, pinned
from nmt.training.learner import Learner, Report, UpdateResult
from nmt.training.listener import Listener
from nmt.training.metrics_file import Meter, MetricsFile
from nmt.training.progress import Ending, Progress
from nmt.training.ranks.exchange import NO_OTHERS, LostPeerError, Ranks
from nmt.training.ranks.stop_signals import stop_signals
from nmt.training.saving import CheckpointWriter, telling_where_to_resume
from nmt.training.schedule import landing, learning_rate
from nmt.training.tensorboard import TensorBoardFile
from nmt.training.validation import Validator
from nmt.writing import WriteError

# Of the pairs of a skipped update, so many are named in its record.
_NAMED_PAIRS = 1_000
# A second Ctrl-C acts at once; what comes sooner than this is the first one, by another way.
_SECONDS_OF_ONE_SIGNAL = 1.0


class Trainer:
    """A run under way, on one of its ranks. Only the main one writes to the run's folder and speaks to the listener."""

    def __init__(
        self,
        run: Path,
        config: Config,
        vocab: Vocabulary,
        learner: Learner,
        epochs: Epochs,
        validator: Validator,
        listener: Listener,
        *,
        progress: Progress,
        micro_batch_tokens: int,
        ranks: Ranks = NO_OTHERS,
    ) -> None:
        self.progress = progress
        self._run = run
        self._config = config
        self._learner = learner
        self._epochs = epochs
        self._validator = validator
        self._listener = listener
        self._ranks = ranks
        self._device = next(learner.model.parameters()).device
        self._micro_batch_tokens = micro_batch_tokens
        self._metrics = MetricsFile(RunFolder(run).metrics)
        self._tensorboard = (
            TensorBoardFile(run, progress.update) if config.logging.tensorboard and ranks.is_main else None
        )
        self._writer = CheckpointWriter(run, config, vocab)
        self._saved_update = progress.update
        self._saved_seconds = progress.seconds
        self._validation_seconds = 0.0
        self._signalled: list[int] = []
        self.stopped_by: int | None = None
        """The signal that interrupted the run, where it came to this rank."""

    def train(self) -> Ending:
        """Train until a limit or a signal; what was learnt is saved whichever ends it.

        Raises:
            TrainingError: gradients stayed infinite, or a pair does not fit into memory.
            WriteError: a checkpoint or record could not be written.
            LostPeerError: another rank is gone.
        """
        # What was learnt is on disk before signals act as they did before.
        with telling_where_to_resume(self._run), _stopping_on_signals() as signalled:
            self._signalled = signalled
            try:
                ending = self._train()
            except Exception as error:
                error.add_note(f"It happened at update {self.progress.update:,}.")
                if isinstance(error, LostPeerError):
                    error.is_being_ended = bool(signalled)
                try:
                    self._writer.finish()
                except WriteError as another:
                    error.add_note(f"Besides, {another}")
                raise
            finally:
                if self._tensorboard is not None:
                    self._tensorboard.close()
            self._writer.finish()
            self._tell_of_writer()
            self.stopped_by = signalled[0] if signalled else None
            return ending

    def _train(self) -> Ending:
        config, progress, meter = self._config, self.progress, Meter()
        begin = time.perf_counter() - progress.seconds
        update_begin = time.perf_counter()
        if self._ranks.is_main:
            self._listener.started(progress.update, config.training.max_updates, config.training.max_minutes)

        def run_seconds() -> float:
            return time.perf_counter() - begin

        def report() -> Report:
            return Report(bool(self._signalled), run_seconds(), time.perf_counter() - update_begin)

        if progress.update and self._validation_is_due(progress.ending(config)):
            # The run was stopped between an update and its validation.
            self._validate(run_seconds)
            if (ending := self._next_ending(None)) is not None:
                self._save(again=True)
                return ending

        with closing(self._planned_updates()) as planned:
            for plan in planned:
                waited = time.perf_counter() - update_begin
                result = self._update(plan, report)
                meter.add(result, time.perf_counter() - update_begin, waited, memory_in_use(self._device))
                self._writer.check()
                self._tell_of_writer()
                if progress.update % config.logging.every_updates == 0:
                    self._log(meter)
                if self._ranks.is_main:
                    self._listener.progressed(progress.update, progress.seconds)

                ending = self._next_ending(result)
                if ending is not None and not meter.is_empty:
                    self._log(meter)
                if ending is not Ending.INTERRUPTED and self._validation_is_due(ending):
                    self._validate(run_seconds)
                    ending = ending or self._next_ending(None)
                if ending is Ending.MINUTES:
                    # All of the time is spent, also what was kept free for the validation and not needed: the same
                    # command again must find the run over.
                    progress.seconds = max(progress.seconds, 60 * (config.training.max_minutes or 0))
                if ending is not None or self._saving_is_due():
                    self._save()
                if ending is not None:
                    if not meter.is_empty:
                        self._log(meter)
                    return ending
                update_begin = time.perf_counter()
        # Nothing more was planned, since the signal came while the loop waited for data.
        self._save()
        return Ending.INTERRUPTED

    def _planned_updates(self) -> Generator[PlannedUpdate]:
        updates = self._epochs.updates(
            self.progress.epoch,
            self.progress.index,
            micro_batch_tokens=self._micro_batch_tokens,
            ranks=self._ranks,
        )
        updates = pinned(updates) if self._device.type == "cuda" else updates
        # Several ranks stop together, at an update; one that waits for data alone need not wait for that.
        return ahead(updates, until=lambda: self._signalled and self._ranks.size == 1)

    def _update(self, plan: PlannedUpdate, report: Callable[[], Report]) -> UpdateResult:
        progress, limit_before = self.progress, self._learner.micro_batch_limit
        progress.update += 1
        progress.epoch, progress.index = plan.epoch, plan.index + 1
        result = self._learner.update(
            plan.batches,
            update=progress.update,
            target_tokens=plan.target_tokens,
            learning_rate=self._learning_rate(),
            report=report,
        )
        progress.seconds = result.run_seconds
        scale = self._learner.loss_scale
        scale_before = progress.loss_scale
        progress.loss_scale, progress.loss_scale_good_updates = scale.value, scale.good_updates
        progress.micro_batch_limit = self._learner.micro_batch_limit
        if progress.micro_batch_limit != limit_before:
            self._tell(
                "micro-batch",
                f"A micro-batch did not fit into memory: halved, and limited to {progress.micro_batch_limit:,} padded "
                "positions from now on.",
                micro_batch_limit=progress.micro_batch_limit,
            )
        self._count_skipped(plan, result, could_be_scaled=scale_before is not None and scale_before > 1)
        return result

    def _count_skipped(self, plan: PlannedUpdate, result: UpdateResult, *, could_be_scaled: bool) -> None:
        """Note an update that changed nothing; end the run, saved, when there are too many in a row.

        Args:
            could_be_scaled: whether the loss had a scale that a next try lowers, so that this is no news: fp16 finds
                its scale by such updates.

        Raises:
            TrainingError: there are too many.
        """
        progress = self.progress
        if not result.is_skipped:
            progress.skipped_in_a_row = 0
            return
        progress.skipped += 1
        if could_be_scaled:
            return
        progress.skipped_in_a_row += 1
        self._tell(
            "skipped",
            f"Update {progress.update:,} was skipped: its gradient is not finite (epoch {plan.epoch + 1}, "
            f"update {plan.index + 1:,} of it).",
            epoch=plan.epoch,
            index=plan.index,
            pairs=plan.pairs[:_NAMED_PAIRS].tolist(),
        )
        if progress.skipped_in_a_row >= self._config.training.max_skipped:
            count, progress.skipped_in_a_row = progress.skipped_in_a_row, 0
            self._save()
            self._writer.finish()
            self._ranks.gather(None)  # the first rank to fail ends all: none does before all is saved
            raise TrainingError(
                f"{count} updates in a row had gradients that are not finite, the last one update {progress.update:,}; "
                "all were skipped, and the weights from before them are saved. Usual causes: too high a learning rate "
                "(schedule.factor, schedule.warmup), or fp16 where bf16 or fp32 is needed (--precision)."
            )

    def _learning_rate(self) -> float:
        config = self._config
        return learning_rate(self.progress.update, config.schedule, config.model.d_model, self.progress.decay_span)

    def _next_ending(self, result: UpdateResult | None) -> Ending | None:
        """Why the run ends here, if it does. After an update all ranks know of a signal to any of them; one rank alone
        looks for itself at any time."""
        is_interrupted = bool(self._signalled) if self._ranks.size == 1 else result is not None and result.wants_to_stop
        return Ending.INTERRUPTED if is_interrupted else self._ending()

    def _ending(self) -> Ending | None:
        """A limit that is reached; time for the validation at the end is kept free."""
        progress, limits = self.progress, self._config.training
        if (ending := progress.ending(self._config)) is not None:
            return ending
        if limits.max_minutes is not None:
            limit = limits.max_minutes * 60
            reserve = self._validation_seconds if self._validation_seconds < limit / 2 else 0.0
            if progress.seconds + reserve >= limit:
                return Ending.MINUTES
            schedule = self._config.schedule
            if schedule.decay == "wsd" and schedule.decay_updates is None and progress.decay_span is None:
                progress.decay_span = landing(progress.update, progress.seconds, schedule, limit - reserve)
        return None

    def _log(self, meter: Meter) -> None:
        progress = self.progress
        self._record(
            meter.record(
                progress.update, epoch=progress.epoch, learning_rate=self._learning_rate(), seconds=progress.seconds
            )
        )

    def _tell(self, event: str, message: str, **details: Any) -> None:
        """Record something out of the ordinary, and tell it to people."""
        self._record({"kind": "event", "update": self.progress.update, "event": event, "message": message} | details)
        if self._ranks.is_main:
            self._listener.noticed(message)

    def _record(self, record: dict[str, Any]) -> None:
        if self._ranks.is_main:
            self._metrics.append(record)
            if self._tensorboard is not None:
                self._tensorboard.append(record)
            self._listener.recorded(record)

    def _validation_is_due(self, ending: Ending | None) -> bool:
        update = self.progress.update
        if update in self.progress.scores:
            return False
        return ending is not None or update % self._config.validation.every_updates == 0

    def _tell_of_writer(self) -> None:
        while self._writer.warnings:
            self._tell("saving", self._writer.warnings.pop(0))

    def _validate(self, run_seconds: Callable[[], float]) -> None:
        """Measure the model on the valid set; a signal to stop ends that, and it is done when the run goes on."""
        progress = self.progress
        with self._learner.weights_in_use():
            validation = self._validator.validate(self._learner.model, until=lambda: bool(self._signalled))
        if validation is None:
            return
        progress.seconds, self._validation_seconds = self._ranks.told_by_main((run_seconds(), validation.seconds))
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

    def _save(self, *, again: bool = False) -> None:
        progress = self.progress
        if progress.update == self._saved_update and not again:
            return
        self._saved_update, self._saved_seconds = progress.update, progress.seconds
        if self._ranks.is_main:
            learner = self._learner
            self._writer.save(
                progress.update, learner.weights(), learner.training_tensors(), progress.values(), progress.scores
            )


@contextmanager
def _stopping_on_signals() -> Iterator[list[int]]:
    """Note a signal to stop and let the running update end. Later signals are left to the handler from before, which
    acts at once; but not in the seconds in which a terminal and a launcher both send the same, and not SIGHUP: it comes
    from the terminal, and again when something is written to it."""
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in stop_signals()}
    first = 0.0

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal first
        if not received:
            first = time.monotonic()
            received.append(number)
        elif number != signal.SIGHUP and time.monotonic() - first > _SECONDS_OF_ONE_SIGNAL:
            signal.signal(number, before[signal.Signals(number)])
            signal.raise_signal(number)

    for number in before:
        signal.signal(number, note)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
