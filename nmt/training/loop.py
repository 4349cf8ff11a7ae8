"""The training loop: updates in the order of the plan, with logging, validation and checkpoints between them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from nmt.checkpoint.scores import best_updates
from nmt.config import Config
from nmt.errors import TrainingError
from nmt.io.writing import WriteError
from nmt.machine.device import memory_in_use
from nmt.training.input.feed import Epochs, PlannedUpdate, prefetched
from nmt.training.input.micro_batches import MicroBatching
from nmt.training.learner import WITHOUT_LONG_PAIRS, Gradients, Learner, Step
from nmt.training.metrics_file import Meter
from nmt.training.progress import Ending, Progress
from nmt.training.ranks.message import Report, UpdateOutcome, UpdateResult
from nmt.training.run_log import RunLog
from nmt.training.saving import CheckpointWriter
from nmt.training.schedule import learning_rate
from nmt.training.stopping import Limits, StopRequest
from nmt.training.validation import Validator

# The record of a skipped update names no more of its pairs than this.
_NAMED_PAIRS = 1_000


@dataclass(frozen=True)
class _Update:
    """An update of the plan, with its number in the run."""

    plan: PlannedUpdate
    number: int


class Trainer:
    """The training loop of one rank. Only the main rank writes to the run's folder and speaks to the listener."""

    def __init__(
        self,
        config: Config,
        progress: Progress,
        learner: Learner,
        epochs: Epochs,
        validator: Validator,
        log: RunLog,
        writer: CheckpointWriter,
        stop: StopRequest,
        batching: Callable[[int], MicroBatching],
    ) -> None:
        """Prepare to train.

        Args:
            progress: with the size of micro-batches that preflight found.
            batching: how updates are divided into micro-batches of a size.
        """
        assert progress.micro_batch_tokens is not None
        self.progress = progress
        self._batching_of = batching
        self._batching = batching(progress.micro_batch_tokens)
        """The same on all ranks when they begin an update. The thread that prepares updates may see an earlier one,
        which the loop corrects."""
        self._config = config
        self._learner = learner
        self._epochs = epochs
        self._validator = validator
        self._ranks = learner.ranks
        self._log = log
        self._writer = writer
        self._saved_state = self._state_to_save()
        self._saved_seconds = progress.seconds
        self._limits = Limits(config, progress)
        self._stop = stop
        self._start = 0.0
        self._since = 0.0
        """When the update before was done, with all that follows it."""
        self._waited = 0.0
        """Seconds that the loop has waited for batches since then."""
        self._learning_rate = 0.0
        """Of the last update."""

    def train(self) -> Ending:
        """Train until a limit or a request to stop, and save.

        Raises:
            TrainingError: gradients stayed infinite, or a pair does not fit into memory.
            WriteError: a checkpoint or record could not be written.
            LostPeerError: another rank is gone.
        """
        with self._finishing(), self._log.open():
            self._start = time.perf_counter() - self.progress.seconds
            if self.progress.update and self._validation_is_due(self.progress.ending(self._config)):
                # The run was stopped between an update and its validation.
                ending = self._validate() or self._limits.reached() or self._ending(None)
                if ending is not None:
                    return self._end(ending)

            self._since = time.perf_counter()
            with closing(self._planned_updates()) as planned:
                for result in self._updates(planned):
                    ending = self._ending(result)
                    if ending is not None:
                        self._log_updates()  # before the record of the validation
                    if ending is not Ending.INTERRUPTED and self._validation_is_due(ending):
                        ending = self._validate() or ending or self._ending(None)
                    if ending is not None:
                        return self._end(ending)
                    if self._saving_is_due():
                        self._save()
                    self._since = time.perf_counter()
            # A signal came while the loop waited for data.
            return self._end(Ending.INTERRUPTED)

    def _end(self, ending: Ending) -> Ending:
        """Save the run at its end, and forget the gradients of the next update."""
        if ending is Ending.MINUTES:
            self._limits.spend_the_minutes()
        self._log_updates()
        self._save()
        self._learner.drop()
        return ending

    @contextmanager
    def _finishing(self) -> Iterator[None]:
        """Wait until the last checkpoint is written, whether the body succeeds or not; say where an error happened."""
        try:
            yield
        except Exception as error:
            error.add_note(f"It happened after update {self.progress.update:,}.")
            try:
                self._writer.finish()
            except WriteError as another:
                error.add_note(f"Besides, {another}")
            raise
        self._writer.finish()
        self._log_warnings()

    def _planned_updates(self) -> Generator[PlannedUpdate]:
        updates = self._epochs.updates(
            self.progress.epoch,
            self.progress.index,
            batching=lambda: self._batching,
            ranks=self._ranks,
        )
        # Several ranks must stop at the same update; a single one may stop while it waits for data.
        return prefetched(updates, until=lambda: bool(self._stop) and self._ranks.size == 1)

    def _updates(self, planned: Iterator[PlannedUpdate]) -> Iterator[UpdateResult]:
        """Make the updates in order. The result of each comes before the weights change again.

        On a GPU, the gradients of the next update are queued by then, so that it need not wait for the host.
        """
        before: tuple[_Update, Step] | None = None
        last = self._config.training.max_updates
        while True:
            try:
                begin = time.perf_counter()
                plan = next(planned, None)
                self._waited += time.perf_counter() - begin
                if plan is None:
                    break
                update = _Update(plan, self.progress.update + (1 if before is None else 2))
                gradients = self._begin(update)
            except Exception:
                # What was made is not lost. Several ranks cannot go on together once one has failed.
                if before is not None and self._ranks.size == 1:
                    yield self._finish(*before)
                raise
            if before is not None:
                yield self._finish(*before)
                if not self._learner.is_begun:  # the update before was made again
                    gradients = self._begin(update)
            self._learning_rate = self._next_learning_rate()
            before = update, self._step(update, gradients)
            if not self._learner.reads_late or update.number == last:  # after the last, no data is waited for
                yield self._finish(*before)
                before = None
        if before is not None:
            yield self._finish(*before)

    def _begin(self, update: _Update) -> Gradients:
        """Compute the gradients of an update."""
        scale = self.progress.loss_scale
        return self._learner.begin(
            update.plan.divided_by(self._batching).batches,
            update=update.number,
            target_tokens=update.plan.target_tokens,
            loss_scale=1.0 if scale is None else scale.value,
        )

    def _step(self, update: _Update, gradients: Gradients) -> Step:
        """Change the weights by the gradients of an update. Those of the update before are final."""
        report = Report(bool(self._stop), self._run_seconds(), time.perf_counter() - self._since)
        return self._learner.step(gradients, self._learning_rate, report)

    def _finish(self, update: _Update, step: Step) -> UpdateResult:
        """Read what became of an update, make it again from smaller micro-batches until they fit, and log it."""
        progress, scale, plan = self.progress, self.progress.loss_scale, update.plan
        could_be_scaled = scale is not None and scale.value > 1
        progress.update, progress.epoch, progress.index = update.number, plan.epoch, plan.index + 1
        while (result := self._learner.read(step)).outcome is UpdateOutcome.AGAIN:
            assert result.fitting_tokens is not None
            self._divide_into_smaller(result.fitting_tokens)
            self._learner.drop()  # the gradients of the next update, too, are dealt anew
            step = self._step(update, self._begin(update))
        progress.seconds = result.run_seconds
        if scale is not None:
            scale.adapt(overflowed=result.outcome is UpdateOutcome.SKIPPED)
        memory = memory_in_use(self._learner.model.device)
        progress.unlogged.add(result, time.perf_counter() - self._since, self._waited, memory)
        self._waited = 0.0
        self._count_skipped(plan, result, could_be_scaled=could_be_scaled)
        self._writer.check()
        self._log_warnings()
        if progress.update % self._config.logging.every_updates == 0:
            self._log_updates()
        self._log.progressed()
        return result

    def _divide_into_smaller(self, tokens: int) -> None:
        """Let micro-batches hold fewer tokens. What did not fit once is not tried again, so a resumed run divides as
        this one does.

        Raises:
            TrainingError: a micro-batch cannot be smaller.
        """
        smaller = self._batching_of(tokens)
        if smaller.tokens >= self._batching.tokens:
            raise TrainingError(
                f"update {self.progress.update}: a micro-batch of {smaller.tokens:,} pieces on a side, as the longest "
                f"pair needs, does not fit into memory. {WITHOUT_LONG_PAIRS}"
            )
        self.progress.micro_batch_tokens, self._batching = tokens, smaller
        self._log.event(
            "micro-batch",
            f"A micro-batch did not fit into memory: at most {smaller.tokens:,} tokens from now on.",
            micro_batch_tokens=tokens,
        )

    def _count_skipped(self, plan: PlannedUpdate, result: UpdateResult, *, could_be_scaled: bool) -> None:
        """Note an update that changed nothing; end the run, saved, when there are too many in a row.

        Args:
            could_be_scaled: whether the loss had a scale that a next try lowers, so that this is no news: fp16 finds
                its scale by such updates.

        Raises:
            TrainingError: there are too many.
        """
        progress = self.progress
        if result.outcome is UpdateOutcome.DONE:
            progress.skipped_in_a_row = 0
            return
        progress.skipped += 1
        if could_be_scaled:
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
            self._writer.finish()
            self._learner.drop()
            self._ranks.gather(None)  # the first rank to fail ends all: none does before all is saved
            raise TrainingError(
                f"{count} updates in a row had gradients that are not finite, the last one update {progress.update:,}; "
                "all were skipped, and the weights from before them are saved. Usual causes: too high a learning rate "
                "(schedule.factor, schedule.warmup), or fp16 where bf16 or fp32 is needed (--precision)."
            )

    def _next_learning_rate(self) -> float:
        schedule, d_model = self._config.schedule, self._config.model.d_model
        return learning_rate(self.progress.update + 1, schedule, d_model, self._limits.last_update())

    def _run_seconds(self) -> float:
        return time.perf_counter() - self._start

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
        with self._learner.weights_in_use():
            validation = self._validator.validate(self._learner.model, until=lambda: bool(self._stop))
        if validation is None:
            return Ending.INTERRUPTED
        progress.seconds, progress.validation_seconds = self._ranks.broadcast_object(
            (self._run_seconds(), validation.seconds)
        )
        best = max((score for score in progress.scores.values() if not math.isnan(score)), default=-math.inf)
        progress.validations_without_gain = 0 if validation.score > best else progress.validations_without_gain + 1
        progress.scores[progress.update] = validation.score
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
        if self._ranks.is_main:
            weights, training = self._learner.weights(), self._learner.state_dict()
            self._writer.save(progress.update, weights, training, progress.values(), progress.scores)
