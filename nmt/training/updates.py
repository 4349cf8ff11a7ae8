"""The updates of a run in the order of the plan: data, gradients, a step of the optimiser, and what became of it.

On a GPU the host works one update ahead. With update n queued on the device, :class:`Updates`

1. takes the pairs of update n + 1 and queues its gradients,
2. reads the figures of update n, and makes it again if a micro-batch did not fit into memory,
3. hands update n to the training loop, which logs, validates and saves with the weights of update n,
4. queues the step of update n + 1.

Elsewhere nothing is queued: each update is read and handed on before the next begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass

from nmt.config import Config
from nmt.errors import TrainingError
from nmt.training.input.feed import Epochs, PlannedUpdate, prefetched
from nmt.training.input.micro_batches import MicroBatching
from nmt.training.learner import WITHOUT_LONG_PAIRS, Gradients, Learner, Step
from nmt.training.progress import Progress
from nmt.training.ranks.message import Report, UpdateOutcome, UpdateResult
from nmt.training.run_log import RunLog
from nmt.training.schedule import learning_rate
from nmt.training.stopping import Limits, StopRequest


@dataclass(frozen=True)
class MadeUpdate:
    """An update that was made or skipped. The weights are those after it."""

    plan: PlannedUpdate
    result: UpdateResult
    learning_rate: float
    seconds: float
    """Since the training loop was done with the update before."""
    waited: float
    """Seconds of these that passed until there were pairs."""
    could_be_scaled: bool
    """Whether its loss had a scale that the next update lowers after an overflow, as fp16 finds its scale."""


@dataclass
class _Update:
    """An update on its way."""

    plan: PlannedUpdate
    number: int
    gradients: Gradients
    learning_rate: float = 0.0
    step: Step | None = None


class Updates:
    """Makes the updates of a run, on one rank."""

    def __init__(
        self,
        config: Config,
        progress: Progress,
        learner: Learner,
        epochs: Epochs,
        batching: Callable[[int], MicroBatching],
        limits: Limits,
        stop: StopRequest,
        log: RunLog,
    ) -> None:
        """Prepare to go on from some progress.

        Args:
            progress: with the size of micro-batches that preflight found. Its place in the plan, its seconds, the scale
                of the loss and the size of micro-batches are kept up to date.
            batching: how updates are divided into micro-batches of a size.
        """
        assert progress.micro_batch_tokens is not None
        self._config, self._progress, self._learner = config, progress, learner
        self._epochs, self._limits, self._stop, self._log = epochs, limits, stop, log
        self._batching_of = batching
        self._batching = batching(progress.micro_batch_tokens)
        """The same on all ranks when they begin an update. The thread that prepares updates may see an earlier one,
        which is corrected."""
        self._start = time.perf_counter() - progress.seconds
        self._since = 0.0
        """When the training loop was done with the update before."""
        self._waited = 0.0
        """Seconds that passed since then until there were pairs."""

    def run_seconds(self) -> float:
        """Seconds spent on the run so far, over all resumes."""
        return time.perf_counter() - self._start

    def make(self) -> Generator[MadeUpdate]:
        """Make the updates. Each is handed on before the weights change again.

        The iterator ends only when a signal comes while it waits for data.

        Raises:
            TrainingError: a pair does not fit into memory.
            LostPeerError: another rank is gone.
        """
        before: _Update | None = None
        last = self._config.training.max_updates
        self._since = time.perf_counter()
        # Several ranks must stop at the same update; a single one may stop while it waits for data.
        is_alone = self._learner.ranks.size == 1
        with closing(prefetched(self._planned(), until=lambda: bool(self._stop) and is_alone)) as planned:
            while True:
                try:
                    begin = time.perf_counter()
                    plan = next(planned, None)
                    self._waited += time.perf_counter() - begin
                    if plan is None:
                        break
                    number = self._progress.update + (1 if before is None else 2)
                    update = _Update(plan, number, self._gradients(plan, number))
                except Exception:
                    # What was made is not lost. Several ranks cannot go on together once one has failed.
                    if before is not None and is_alone:
                        yield self._finished(before)
                    raise
                if before is not None:
                    yield self._finished(before, queued=update)
                    self._since = time.perf_counter()
                update.learning_rate = self._learning_rate(number)
                self._step(update)
                before = update
                if not self._learner.reads_late or number == last:  # after the last, no data is waited for
                    yield self._finished(before)
                    self._since = time.perf_counter()
                    before = None
        if before is not None:
            yield self._finished(before)

    def drop(self) -> None:
        """Forget the gradients of the next update, if they are queued. Every rank calls this at the end."""
        self._learner.drop()

    def _planned(self) -> Iterator[PlannedUpdate]:
        progress = self._progress
        return self._epochs.updates(
            progress.epoch,
            progress.index,
            start=progress.update - progress.index,  # an update that is skipped counts, too
            batching=lambda: self._batching,
            ranks=self._learner.ranks,
        )

    def _gradients(self, plan: PlannedUpdate, number: int) -> Gradients:
        """Queue the gradients of an update."""
        scale = self._progress.loss_scale
        return self._learner.begin(
            plan.divided_by(self._batching).batches,
            update=number,
            target_tokens=plan.target_tokens,
            loss_scale=1.0 if scale is None else scale.value,
        )

    def _learning_rate(self, number: int) -> float:
        schedule, d_model = self._config.schedule, self._config.model.d_model
        return learning_rate(number, schedule, d_model, self._limits.last_update())

    def _step(self, update: _Update) -> None:
        """Queue the change of the weights. Those of the update before are final."""
        report = Report(bool(self._stop), self.run_seconds(), time.perf_counter() - self._since)
        update.step = self._learner.step(update.gradients, update.learning_rate, report)

    def _finished(self, update: _Update, queued: _Update | None = None) -> MadeUpdate:
        """Read what became of an update, and make it again from smaller micro-batches until they fit.

        Args:
            queued: the update after it, whose gradients are queued. They are computed again if this update is.
        """
        progress, scale, plan = self._progress, self._progress.loss_scale, update.plan
        could_be_scaled = scale is not None and scale.value > 1
        progress.update, progress.epoch, progress.index = update.number, plan.epoch, plan.index + 1
        is_made_again = False
        while (result := self._result(update)).outcome is UpdateOutcome.AGAIN:
            is_made_again = True
            assert result.fitting_tokens is not None
            self._divide_into_smaller(result.fitting_tokens)
            self._learner.drop()
            update.gradients = self._gradients(plan, update.number)
            self._step(update)
        progress.seconds = result.run_seconds
        if scale is not None:
            scale.adapt(overflowed=result.outcome is UpdateOutcome.SKIPPED)
        if queued is not None and is_made_again:
            queued.gradients = self._gradients(queued.plan, queued.number)
        waited, self._waited = self._waited, 0.0
        seconds = time.perf_counter() - self._since
        return MadeUpdate(plan, result, update.learning_rate, seconds, waited, could_be_scaled)

    def _result(self, update: _Update) -> UpdateResult:
        assert update.step is not None
        return self._learner.read(update.step)

    def _divide_into_smaller(self, tokens: int) -> None:
        """Let micro-batches hold fewer tokens. What did not fit once is not tried again, so a resumed run divides as
        this one does.

        Raises:
            TrainingError: a micro-batch cannot be smaller.
        """
        smaller = self._batching_of(tokens)
        if smaller.tokens >= self._batching.tokens:
            raise TrainingError(
                f"update {self._progress.update}: a micro-batch of {smaller.tokens:,} pieces on a side, as the longest "
                f"pair needs, does not fit into memory. {WITHOUT_LONG_PAIRS}"
            )
        self._progress.micro_batch_tokens, self._batching = tokens, smaller
        if self._learner.is_compiled:
            self._learner.compile()  # anew, because graphs of another size keep their memory
        self._log.event(
            "micro-batch",
            f"A micro-batch did not fit into memory: at most {smaller.tokens:,} tokens from now on.",
            micro_batch_tokens=tokens,
        )
