"""The training loop: updates, with logging, validation and checkpoints between them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from nmt.checkpoint.scores import best_updates
from nmt.config import Config
from nmt.errors import TrainingError
from nmt.io.writing import WriteError
from nmt.machine.device import memory_in_use
from nmt.training.learner import Learner
from nmt.training.metrics_file import Meter
from nmt.training.progress import Ending, Progress
from nmt.training.ranks.message import UpdateOutcome, UpdateResult
from nmt.training.run_log import RunLog
from nmt.training.saving import CheckpointWriter
from nmt.training.stopping import Limits, StopRequest
from nmt.training.updates import MadeUpdate, Updates
from nmt.training.validation import Validator

# The record of a skipped update names no more of its pairs than this.
_NAMED_PAIRS = 1_000


class Trainer:
    """The training loop of one rank. Only the main rank writes to the run's folder and speaks to the listener."""

    def __init__(
        self,
        config: Config,
        progress: Progress,
        learner: Learner,
        updates: Updates,
        limits: Limits,
        validator: Validator,
        log: RunLog,
        writer: CheckpointWriter,
        stop: StopRequest,
    ) -> None:
        """Prepare to train with a learner, which the updates change."""
        self.progress = progress
        self._config = config
        self._learner = learner
        self._updates = updates
        self._validator = validator
        self._ranks = learner.ranks
        self._log = log
        self._writer = writer
        self._saved_state = self._state_to_save()
        self._saved_seconds = progress.seconds
        self._limits = limits
        self._stop = stop
        self._learning_rate = 0.0
        """Of the last update."""

    def train(self) -> Ending:
        """Train until a limit or a request to stop, and save.

        Raises:
            TrainingError: gradients stayed infinite, or a pair does not fit into memory.
            WriteError: a checkpoint or record could not be written.
            LostPeerError: another rank is gone.
        """
        with self._finishing(), self._log.open(), closing(self._updates.make()) as updates:
            if self.progress.update and self._validation_is_due(self.progress.ending(self._config)):
                # The run was stopped between an update and its validation.
                ending = self._validate() or self._limits.reached() or self._ending(None)
                if ending is not None:
                    return self._end(ending)

            for update in updates:
                # Another machine may encode an epoch before the update.
                self._ranks.allow_long_waits(self._config.encodes_epochs)
                self._note(update)
                ending = self._ending(update.result)
                if ending is not None:
                    self._log_updates()  # before the record of the validation
                if ending is not Ending.INTERRUPTED and self._validation_is_due(ending):
                    ending = self._validate() or ending or self._ending(None)
                if ending is not None:
                    return self._end(ending)
                if self._saving_is_due():
                    self._save()
            # A signal came while the loop waited for data.
            return self._end(Ending.INTERRUPTED)

    def _end(self, ending: Ending) -> Ending:
        """Save the run at its end, and forget the gradients of the next update."""
        if ending is Ending.MINUTES:
            self._limits.spend_the_minutes()
        self._log_updates()
        self._save()
        self._updates.drop()
        return ending

    @contextmanager
    def _finishing(self) -> Iterator[None]:
        """Wait until the last checkpoint is written, whether the body succeeds or not; say where an error happened."""
        try:
            yield
        except Exception as error:
            error.add_note(f"It happened after update {self.progress.update:,}.")
            try:
                self._writer.finish_now()
                self._log.flush()
            except WriteError as another:
                error.add_note(f"Besides, {another}")
            raise
        self._writer.finish()
        self._log_warnings()
        self._log.flush()

    def _note(self, update: MadeUpdate) -> None:
        """Count an update, and log it if it is time."""
        progress, memory = self.progress, memory_in_use(self._learner.model.device)
        self._learning_rate = update.learning_rate
        progress.unlogged.add(update.result, update.seconds, update.waited, memory)
        self._count_skipped(update)
        self._writer.check()
        self._log_warnings()
        if progress.update % self._config.logging.every_updates == 0:
            self._log_updates()
        self._log.progressed()

    def _count_skipped(self, update: MadeUpdate) -> None:
        """Note an update that changed nothing; end the run, saved, when there are too many in a row.

        Raises:
            TrainingError: there are too many.
        """
        progress, plan = self.progress, update.plan
        if update.result.outcome is UpdateOutcome.DONE:
            progress.skipped_in_a_row = 0
            return
        progress.skipped += 1
        if update.could_be_scaled:  # no news: fp16 finds its scale by such updates
            return
        progress.skipped_in_a_row += 1
        self._log.event(
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
            self._writer.finish()  # returns on all ranks together: the first to fail ends the others
            self._updates.drop()
            raise TrainingError(
                f"{count} updates in a row had gradients that are not finite, the last one update {progress.update:,}; "
                "all were skipped, and the weights from before them are saved. Usual causes: too high a learning rate "
                "(schedule.factor, schedule.warmup), or fp16 where bf16 or fp32 is needed (--precision)."
            )

    def _ending(self, result: UpdateResult | None) -> Ending | None:
        """Why the run ends here, if it does.

        Args:
            result: of the update just made, if any. With several ranks, it tells all of them that one has received a
                signal, so that all stop at the same update.
        """
        is_interrupted = bool(self._stop) if self._ranks.size == 1 else result is not None and result.wants_to_stop
        return Ending.INTERRUPTED if is_interrupted else self._limits.reached()

    def _log_updates(self) -> None:
        """Record the updates since the last such record."""
        progress, meter = self.progress, self.progress.unlogged
        if meter == Meter():
            return
        progress.unlogged = Meter()
        self._log.record(
            meter.record(
                progress.update, epoch=progress.epoch, learning_rate=self._learning_rate, seconds=progress.seconds
            )
        )

    def _log_warnings(self) -> None:
        while self._writer.warnings:
            self._log.event("saving", self._writer.warnings.pop(0))
        if (warning := self._learner.take_warning()) is not None:
            self._log.event("compiling", warning)

    def _validation_is_due(self, ending: Ending | None) -> bool:
        update = self.progress.update
        if update in self.progress.scores:
            return False
        return ending is not None or update % self._config.validation.every_updates == 0

    def _validate(self) -> Ending | None:
        """Score the model on the valid set. A signal to any rank breaks this off, which interrupts the run on all of
        them; the resumed run then begins with it."""
        progress = self.progress
        self._ranks.allow_long_waits(True)
        with self._learner.weights_in_use():
            validation = self._validator.validate(self._learner.model, until=lambda: bool(self._stop))
        if validation is None:
            return Ending.INTERRUPTED
        progress.seconds, progress.validation_seconds = self._ranks.broadcast_object(
            (self._updates.run_seconds(), validation.seconds)
        )
        progress.scores[progress.update] = validation.score
        is_best = best_updates(progress.scores, 1) == [progress.update]
        progress.validations_without_gain = 0 if is_best else progress.validations_without_gain + 1
        place = {"update": progress.update, "epoch": progress.epoch, "seconds": progress.seconds}
        self._log.record(place | validation.record())
        return None

    def _state_to_save(self) -> tuple[int, int]:
        """What changes whenever a checkpoint becomes out of date."""
        return self.progress.update, len(self.progress.scores)

    def _saving_is_due(self) -> bool:
        settings, update = self._config.checkpoints, self.progress.update
        if settings.every_updates is not None and update % settings.every_updates == 0:
            return True
        minutes = settings.every_minutes
        if minutes is not None and self.progress.seconds - self._saved_seconds >= minutes * 60:
            return True
        # One of the best is saved at any interval: its weights exist only now.
        return update in best_updates(self.progress.scores, settings.keep_best)

    def _save(self) -> None:
        progress = self.progress
        if (state := self._state_to_save()) == self._saved_state:
            return
        self._saved_state, self._saved_seconds = state, progress.seconds
        self._ranks.allow_long_waits(True)
        if self._ranks.is_main:
            weights, training = self._learner.weights(), self._learner.state_dict()
            self._writer.save(progress.update, weights, training, progress.values(), progress.scores)
