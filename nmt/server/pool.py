"""The pool: the segments of all requests wait here, and are searched together in batches.

A batch takes one segment of each request in turn, so a long text does not hold up a short one. It holds one worker's
share of all segments that wait or are searched. After a batch, a worker gives its clients a moment to ask again.
Otherwise one worker would search nearly everything, and the others a few segments at a time, which is much slower.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from nmt.errors import NmtError
from nmt.server.errors import log_error
from nmt.translation.segment import Segment, TranslatedSegment
from nmt.translation.workers import AbandonedError

_PATIENCE = 0.1
"""The share of a batch's time for which its worker waits for as many jobs again."""
_LONGEST_PATIENCE = 0.05
"""In seconds: about what 64 clients take to ask again."""


class Search(Protocol):
    """Finds the translations of segments; a :class:`~nmt.translation.translator.Translator`."""

    def search(self, segments: Sequence[Segment]) -> Sequence[TranslatedSegment]:
        """Find the translations of segments, in their order."""
        ...

    @property
    def batch_tokens(self) -> int:
        """The maximum source pieces per batch."""
        ...


class BusyError(Exception):
    """More waits than the pool takes."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"the queue is full; try again in {retry_after} s")
        self.retry_after = retry_after
        """Seconds until there is room again, as far as can be told."""


class ClosedError(Exception):
    """The pool takes no more work, since the server ends."""


class Place(NamedTuple):
    """A segment, and where its translations go."""

    segment: Segment
    line: list[TranslatedSegment | None]
    number: int


@dataclass(eq=False)
class Job:
    """The lines of one request, which one model translates."""

    translator: Search
    lines: Sequence[Sequence[Segment]]
    """The segments of each line."""
    notify: Callable[[], object] = lambda: None
    """Called, in another thread, whenever segments are finished or the job has failed."""
    error: Exception | None = None
    """Why the job failed, if it did."""

    def __post_init__(self) -> None:
        self.found: list[list[TranslatedSegment | None]] = [[None] * len(segments) for segments in self.lines]
        """The translations of the segments of each line; None for one that is not searched yet."""
        self.left = deque(
            Place(segment, found, number)
            for segments, found in zip(self.lines, self.found, strict=True)
            for number, segment in enumerate(segments)
        )
        """The segments that no batch has taken."""

    @property
    def is_done(self) -> bool:
        """Whether all segments are translated, or the job has failed."""
        return self.error is not None or all(None not in line for line in self.found)

    @property
    def waiting(self) -> int:
        """The number of source pieces that no batch has taken."""
        return sum(map(_size, self.left))


Batch = list[tuple[Job, Place]]
"""Segments, each with its job."""


class Pool:
    """Threads that search what waits."""

    def __init__(
        self, workers: int, *, max_waiting: int, observe: Callable[[Batch, float], None] | None = None
    ) -> None:
        """Start the threads.

        Args:
            workers: the number of batches that are searched at the same time.
            max_waiting: the maximum source pieces that wait. A single job may have more.
            observe: called with each batch that was searched, and the seconds that it took.
        """
        self._max_waiting = max_waiting
        self._observe = observe
        self._jobs: deque[Job] = deque()
        """Jobs with segments that no batch has taken."""
        self._waiting = 0
        self._searched = 0
        """The number of source pieces that are searched."""
        self._is_closed = False
        self._began: dict[int, float] = {}
        """When each worker began its batch."""
        self._rate = 0.0  # pieces per second of one worker, averaged
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self.grow(workers)

    def grow(self, workers: int) -> None:
        """Have at least so many threads."""
        with self._changed:
            for number in range(len(self._threads), workers):
                self._threads.append(threading.Thread(target=self._work, name=f"pool-{number}"))
                self._threads[-1].start()

    @property
    def waiting(self) -> int:
        """The number of source pieces that no batch has taken."""
        return self._waiting

    @property
    def seconds(self) -> float:
        """The seconds for which the oldest of the running batches has been searched."""
        return time.monotonic() - min(list(self._began.values()), default=math.inf)

    def check_room(self, size: int = 1) -> None:
        """Check that so many source pieces may wait.

        Raises:
            BusyError: too much waits already.
        """
        waiting = self._waiting
        if size and waiting and waiting + size > self._max_waiting:
            raise BusyError(self._seconds_until_empty())

    def submit(self, job: Job) -> None:
        """Add a job.

        Raises:
            BusyError: too much waits already.
            ClosedError: the pool is closed.
        """
        with self._changed:
            if self._is_closed:
                raise ClosedError
            size = job.waiting
            self.check_room(size)
            if job.left:
                self._jobs.append(job)
                self._waiting += size
                self._changed.notify_all()
        if job.is_done:
            job.notify()

    def forget(self, job: Job) -> None:
        """Drop the segments of a job that no batch has taken: nobody waits for them."""
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)
                self._waiting -= job.waiting
            job.left.clear()

    def drop(self) -> None:
        """Drop all jobs that wait, and what batches have not taken of others."""
        with self._changed:
            for job in self._jobs:
                job.left.clear()
            self._jobs.clear()
            self._waiting = 0

    def close(self) -> None:
        """Take no more jobs, finish those that wait, and end the threads."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _seconds_until_empty(self) -> int:
        rate = self._rate * len(self._threads)
        return max(1, min(math.ceil(self._waiting / rate), 3_600)) if rate else 1

    def _work(self) -> None:
        count, until = 0, 0.0
        while batch := self._take(count, until):
            began = self._began[threading.get_ident()] = time.monotonic()
            self._search(batch)
            ended = time.monotonic()
            del self._began[threading.get_ident()]
            seconds = ended - began
            size = sum(_size(place) for _, place in batch)
            rate = size / max(seconds, 1e-6)
            with self._changed:
                self._searched -= size
                self._rate = 0.9 * self._rate + 0.1 * rate if self._rate else rate
            if self._observe is not None:
                self._observe(batch, seconds)
            jobs = list(dict.fromkeys(job for job, _ in batch))
            for job in jobs:
                job.notify()
            count, until = len(jobs), ended + min(_PATIENCE * seconds, _LONGEST_PATIENCE)
            del batch, jobs  # else they would stay while this worker waits

    def _take(self, jobs: int, until: float) -> Batch:
        """Wait for segments and take some. Empty if there will be none.

        Args:
            jobs, until: wait until then for so many jobs, or for a full batch.
        """

        def are_enough() -> bool:
            full = self._jobs[0].translator.batch_tokens if self._jobs else math.inf
            return len(self._jobs) >= jobs or self._waiting >= full or self._is_closed

        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._jobs or self._is_closed)
                self._changed.wait_for(are_enough, until - time.monotonic())
                if self._jobs:  # otherwise another worker has taken them
                    return list(self._fair())
                if self._is_closed:
                    return []

    def _fair(self) -> Iterator[tuple[Job, Place]]:
        """One segment of each job in turn, all of one model, up to a worker's share of what waits and is searched."""
        translator = self._jobs[0].translator
        of_model = deque(job for job in self._jobs if job.translator is translator)
        others = [job for job in self._jobs if job.translator is not translator]
        budget = min(translator.batch_tokens, math.ceil((self._waiting + self._searched) / len(self._threads)))
        while of_model and budget > 0:
            job = of_model.popleft()
            place = job.left.popleft()
            size = _size(place)
            budget -= size
            self._waiting -= size
            self._searched += size
            if job.left:
                of_model.append(job)
            yield job, place
        self._jobs = deque([*others, *of_model])

    def _search(self, batch: Batch) -> None:
        """Search a batch; if that fails, the segments of each job alone, so that one job does not fail another."""
        try:
            found = batch[0][0].translator.search([place.segment for _, place in batch])
            for (_, place), translated in zip(batch, found, strict=True):
                place.line[place.number] = translated
        except AbandonedError:  # at the server's end: nobody waits for a job
            return
        except Exception as error:
            jobs = list(dict.fromkeys(job for job, _ in batch))
            if len(jobs) > 1:
                for one in jobs:
                    self._search([(job, place) for job, place in batch if job is one])
                return
            if not isinstance(error, NmtError):
                log_error()
            jobs[0].error = error
            self.forget(jobs[0])


def _size(place: Place) -> int:
    return len(place.segment.pieces) + 1  # with eos
