"""An engine in a process of its own.

Python runs one thread at a time. In the process that searches, a request would wait for the searches at every step of
its way, dozens of times.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nmt.config import Config
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import NmtWarning
from nmt.loading import NamedModels
from nmt.machine.calls import CalledProcess, Tell
from nmt.option_fields import DeviceChoice, EngineName, Precision, PrecisionChoice
from nmt.search.hypotheses import Hypothesis
from nmt.search.settings import SearchSettings
from nmt.translation.engine import Engine, Searcher
from nmt.translation.found_batches import FoundBatches
from nmt.translation.options import TranslateOptions
from nmt.translation.segment import Segment
from nmt.translation.workers import AbandonedError


@dataclass(frozen=True)
class _Facts:
    """What is known of an engine without asking it."""

    name: EngineName
    description: str
    vocab: VocabularyPair
    config: Config
    positions: int
    precision: Precision


@dataclass(frozen=True)
class RemoteEngine(_Facts):
    """An :class:`~nmt.translation.engine.Engine` whose models are in another process."""

    process: CalledProcess

    def remarks(self, options: TranslateOptions) -> list[str]:
        """As :meth:`nmt.translation.engine.Engine.remarks`."""
        found: list[str] = self.process.call("engine.remarks", options)
        return found

    def searcher(self, options: TranslateOptions, workers: int | None = None, *, shared: bool = False) -> Searcher:
        """As :meth:`nmt.translation.engine.Engine.searcher`. There is one for each engine."""
        worker_count, batch_tokens, fork = self.process.call("searcher", options, workers, shared)
        self.process.divide(worker_count, fork=fork)
        return _RemoteSearcher(self.process, worker_count, batch_tokens)

    def score(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        options: TranslateOptions,
        *,
        alignment: bool,
    ) -> list[Hypothesis]:
        """As :meth:`nmt.translation.engine.Engine.score`."""
        if not sources:
            return []
        found: list[Hypothesis] = self.process.call("engine.score", sources, targets, options, alignment=alignment)
        return found


def load_in_process(
    named: NamedModels,
    device: DeviceChoice,
    precision: PrecisionChoice,
    threads: int | None,
    *,
    report: Callable[[str], object],
) -> RemoteEngine:
    """Load models in a new process; as :meth:`nmt.loading.NamedModels.load`."""

    def told(message: object) -> None:
        if isinstance(message, NmtWarning):
            warnings.warn(message, stacklevel=2)
        else:
            report(str(message))

    name = f"the process that translates with {', '.join(map(str, named.folders))}"
    process = CalledProcess(name, _Loaded, told=told)
    try:
        facts: _Facts = process.call("load", named, device, precision, threads)
    except BaseException:
        process.end(AbandonedError())
        raise
    return RemoteEngine(**vars(facts), process=process)


@dataclass(frozen=True)
class _RemoteSearcher:
    process: CalledProcess
    worker_count: int
    batch_tokens: int
    may_fork: bool = False

    def search(
        self, segments: Sequence[Segment], settings: SearchSettings, known: FoundBatches | None = None
    ) -> list[list[Hypothesis]]:
        if not segments:
            return []
        found: list[list[Hypothesis]] = self.process.call("search", segments, settings)
        return found


class _Loaded:
    """In the other process: the engine and its searcher."""

    engine: Engine
    _searcher: Searcher

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def load(self, named: NamedModels, device: DeviceChoice, precision: PrecisionChoice, threads: int | None) -> _Facts:
        with warnings.catch_warnings():
            show_others = warnings.showwarning

            def show(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
                if isinstance(message, NmtWarning):
                    self._tell(message)
                else:
                    show_others(message, category, *place, **options)

            warnings.showwarning = show
            self.engine = found = named.load(device, precision, threads, report=self._tell)
        return _Facts(found.name, found.description, found.vocab, found.config, found.positions, found.precision)

    def searcher(self, options: TranslateOptions, workers: int | None, shared: bool) -> tuple[int, int, bool]:
        """Its numbers of workers and of pieces per batch, and whether each worker is to be a process."""
        self._searcher = searcher = self.engine.searcher(options, workers, shared=shared)
        return searcher.worker_count, searcher.batch_tokens, searcher.may_fork

    def search(self, segments: Sequence[Segment], settings: SearchSettings) -> list[list[Hypothesis]]:
        return self._searcher.search(segments, settings)
