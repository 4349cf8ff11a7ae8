"""Texts in, translations out: the part of the server that knows nothing of HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from nmt.errors import NmtError
from nmt.serve.detection import Detector
from nmt.serve.errors import InternalError, RequestError
from nmt.serve.layout import Layout
from nmt.serve.metrics import Metrics
from nmt.serve.models import Direction, Models
from nmt.serve.pool import BusyError, ClosedError, Job, Pool
from nmt.translation.options import SplitSentences
from nmt.translation.results import Translation
from nmt.translation.segment import Segment
from nmt.translation.translator import Translator


@dataclass(frozen=True)
class Service:
    """The models, the pool that searches with them, and what counts."""

    models: Models
    pool: Pool
    detector: Detector
    metrics: Metrics

    async def translate(
        self,
        direction: Direction,
        texts: Sequence[Layout],
        *,
        candidates: int = 1,
        split: SplitSentences | None = None,
    ) -> list[list[str]]:
        """Translate texts. Returns the candidates of each, best first; at least one.

        Args:
            candidates: the number of translations of each text; fewer if the beam is narrower.

        Raises:
            RequestError: too much waits already, or the model cannot translate the texts.
        """
        lines = list(itertools.chain.from_iterable(text.lines for text in texts))
        found = self.stream(direction, lines, candidates=candidates, split=split)
        translations = iter([translation async for translation in found])
        return [_candidates(text, list(itertools.islice(translations, len(text.lines)))) for text in texts]

    async def stream(
        self,
        direction: Direction,
        lines: Sequence[str],
        *,
        candidates: int = 1,
        split: SplitSentences | None = None,
    ) -> AsyncIterator[Translation]:
        """Translate lines. Yields the translation of each as soon as it and all before it are there.

        Raises:
            RequestError: as :meth:`translate`.
        """
        try:
            candidates = max(1, min(candidates, direction.model.max_candidates))
            # Encoding takes milliseconds, in which the server answers others.
            translator, segments_by_line = await asyncio.to_thread(_prepared, direction, lines, candidates, split)
        except NmtError as error:
            raise RequestError(400, str(error)) from error
        async for number in self._searched(translator, segments_by_line):
            translation = translator.joined(lines[number], segments_by_line[number])
            self.metrics.translated(translation)
            yield translation

    async def _searched(
        self, translator: Translator, segments_by_line: Sequence[Sequence[Segment]]
    ) -> AsyncIterator[int]:
        """The numbers of the lines, each as soon as its segments are searched."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def notify() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, by a second Ctrl-C
                loop.call_soon_threadsafe(changed.set)

        job = Job(translator, list(itertools.chain.from_iterable(segments_by_line)), notify)
        try:
            self.pool.submit(job)
        except BusyError as error:
            raise RequestError(503, f"The server is busy: {error}.", retry_after=error.retry_after) from error
        except ClosedError:
            raise RequestError(503, "The server is shutting down.", retry_after=1) from None
        try:
            end = 0
            for number, segments in enumerate(segments_by_line):
                begin, end = end, end + len(segments)
                while not all(job.finished[begin:end]):
                    if job.error is not None:
                        raise _refusal(job.error)
                    await changed.wait()
                    changed.clear()
                yield number
        finally:
            self.pool.forget(job)


def _prepared(
    direction: Direction, lines: Sequence[str], candidates: int, split: SplitSentences | None
) -> tuple[Translator, list[list[Segment]]]:
    translator = direction.model.translator(candidates, split)
    return translator, translator.prepare([direction.prefix + line for line in lines])


def _candidates(text: Layout, translations: Sequence[Translation]) -> list[str]:
    """The candidates of a text: the first of all lines, the second of all lines, and so on, without repetitions."""
    count = max((len(translation.candidates) for translation in translations), default=1)
    texts = [
        text.filled([each.candidates[min(rank, len(each.candidates) - 1)].text for each in translations])
        for rank in range(count)
    ]
    return list(dict.fromkeys(texts))


def _refusal(error: Exception) -> RequestError:
    if isinstance(error, NmtError):
        return RequestError(400, str(error))
    return InternalError()
