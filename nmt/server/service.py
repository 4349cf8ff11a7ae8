"""Texts in, translations out: the part of the server that knows nothing of HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeVar

from nmt.corpora.wrong_language import in_words
from nmt.errors import NmtError
from nmt.machine.calls import ProcessLostError
from nmt.search.settings import BeamTooWideError
from nmt.server.cache import LineCache
from nmt.server.detection import Detector
from nmt.server.errors import InternalError, RequestError
from nmt.server.layout import Layout
from nmt.server.markup import without_tags
from nmt.server.metrics import Metrics
from nmt.server.models import Direction, Models
from nmt.server.pool import BusyError, Job, Pool
from nmt.translation.guard import Problem
from nmt.translation.options import SplitSentences
from nmt.translation.results import Translation
from nmt.translation.segment import Segment
from nmt.translation.translator import Translator

_RETRY_SECONDS = 10
_MOST_SAID = 20
"""Warnings of an answer; the others are counted."""
_AT_ONCE = 2_000
"""Characters that are encoded in about two milliseconds, and so without another thread."""
_LINES_AT_ONCE = 16
"""Likewise, in lines."""
_TURN = 100
"""Items of a request that are dealt with before other requests have their turn: a few milliseconds."""

T = TypeVar("T")


@dataclass(frozen=True)
class Identified:
    """The direction of a text."""

    direction: Direction
    probability: float
    """That the text is in its source language."""
    other: str | None
    """Another language that the text is surely in; no text if it is surely in one that is not known."""


@dataclass(frozen=True)
class Translated:
    """The translation of a text."""

    candidates: Sequence[str]
    """At least one, best first."""
    problems: Sequence[Problem]
    """What the guard found in its lines and did not repair."""

    @classmethod
    def of(cls, text: Layout, translations: Sequence[Translation]) -> Self:
        """The first candidates of all lines in one text, the second, and so on, without repetitions."""
        count = max((len(translation.candidates) for translation in translations), default=1)
        texts = [
            text.filled([each.candidates[min(rank, len(each.candidates) - 1)].text for each in translations])
            for rank in range(count)
        ]
        found = [each.guard for each in translations if each.guard is not None and not each.guard.repaired]
        problems = dict.fromkeys(itertools.chain.from_iterable(finding.problems for finding in found))
        return cls(list(dict.fromkeys(texts)), list(problems))


@dataclass(frozen=True)
class Service:
    """The models, the pool that searches with them, and what counts."""

    models: Models
    pool: Pool
    detector: Detector
    metrics: Metrics
    cache: LineCache = field(default_factory=LineCache)

    async def identify(
        self, texts: Sequence[str], source: str | None, target: str, *, is_html: bool = False
    ) -> list[Identified]:
        """Find the direction of each text.

        Args:
            source: the language of all; None if it is to be identified.

        Raises:
            UnknownLanguageError: no model translates these languages.
        """
        sources = self.models.sources_of(target) if source is None else [source]
        directions = {code: self.models.find(code, target) for code in sources}
        to_target = self.models.find(target, target) if source is None else directions[source]

        def identified(text: str) -> Identified:
            text = without_tags(text) if is_html else text
            code, probability = self.detector.source(text, sources, to_target.source) if source is None else (source, 1)
            direction = directions.get(code, to_target)
            return Identified(direction, probability, self.detector.other(text, direction.source))

        def identify() -> list[Identified]:
            found = {text: identified(text) for text in dict.fromkeys(texts)}
            return [found[text] for text in texts]

        return await asyncio.to_thread(identify)

    async def translate(
        self,
        directions: Sequence[Direction],
        texts: Sequence[str],
        divided: Callable[[str, str], Layout] = Layout.of,
        *,
        candidates: int = 1,
        split: SplitSentences | None = None,
        owner: str | None = None,
    ) -> list[Translated]:
        """Translate texts.

        Args:
            directions: of each text.
            divided: the layout of a text in a language.
            candidates: the number of translations of each text; fewer if the beam is narrower.
            owner: whose translations may be remembered.

        Raises:
            RequestError: too much waits already, or the model cannot translate the texts.
        """
        layouts = [layout_of(text, each, divided) async for text, each in in_turns(zip(texts, directions, strict=True))]
        found: dict[int, Translated] = {}
        for direction in dict.fromkeys(directions):
            own = [number for number, each in enumerate(directions) if each is direction]
            lines = list(itertools.chain.from_iterable(layouts[number].lines for number in own))
            grown = self.grow(direction, lines, candidates=candidates, split=split, owner=owner)
            translations = iter([part.translation() async for part in grown if part.is_whole])
            async for number in in_turns(own):
                layout = layouts[number]
                found[number] = Translated.of(layout, list(itertools.islice(translations, len(layout.lines))))
        return [found[number] for number in range(len(texts))]

    async def grow(
        self,
        direction: Direction,
        lines: Sequence[str],
        *,
        candidates: int = 1,
        split: SplitSentences | None = None,
        owner: str | None = None,
    ) -> AsyncIterator[PartOfLine]:
        """Translate lines. Yields what is there of each line in order, as soon as it and all before it are there.

        Raises:
            RequestError: as :meth:`translate`.
        """
        try:
            candidates = max(1, min(candidates, direction.model.max_candidates))
            translator = direction.model.translator(candidates, split)
            tagged = [direction.prefix + line for line in lines]
            place = translator, owner
            cached = {line: found for line in tagged if (found := self.cache.get(place, line)) is not None}
            new = await self._prepared(translator, list(dict.fromkeys(line for line in tagged if line not in cached)))
            job = Job(translator, list(itertools.chain.from_iterable(new.values())))
            segments_by_line = [cached.get(line) or new[line] for line in tagged]
            async for number, count in self._searched(job, segments_by_line):
                part = PartOfLine(number, lines[number], segments_by_line[number], count, direction, translator)
                if part.is_whole and new.pop(tagged[number], None) is not None:
                    self.metrics.translated(part.translation().guard)
                    self.cache.put(place, tagged[number], part.segments)
                yield part
        except BusyError as error:
            raise RequestError(503, f"The server is busy: {error}.", retry_after=error.retry_after) from error
        except NmtError as error:
            raise _refusal(error) from error

    async def _prepared(self, translator: Translator, lines: list[str]) -> dict[str, list[Segment]]:
        """The segments of each line. Encoding a long text takes milliseconds, in which the server answers others.

        Raises:
            BusyError: too much waits already.
        """
        if not lines:
            return {}
        self.pool.check_room()
        is_long = len(lines) > _LINES_AT_ONCE or sum(map(len, lines)) > _AT_ONCE
        segments = await asyncio.to_thread(translator.prepare, lines) if is_long else translator.prepare(lines)
        return dict(zip(lines, segments, strict=True))

    async def _searched(
        self, job: Job, segments_by_line: Sequence[Sequence[Segment]]
    ) -> AsyncIterator[tuple[int, int]]:
        """The numbers of the lines, each with the number of its first segments that are searched, whenever it grows.

        Args:
            job: the segments of these lines that are not searched yet.

        Raises:
            BusyError: too much waits already.
            RequestError: the search failed.
        """
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def notify() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, by a second Ctrl-C
                loop.call_soon_threadsafe(changed.set)

        job.notify = notify
        self.pool.submit(job)  # open: it closes after the event loop
        try:
            async for number, segments in in_turns(enumerate(segments_by_line)):
                count = 0
                while count < len(segments):
                    before, count = count, _searched_count(segments)
                    if count > before:
                        yield number, count
                    elif job.error is not None:
                        raise _refusal(job.error)
                    else:
                        await changed.wait()
                        changed.clear()
        finally:
            self.pool.forget(job)


@dataclass(frozen=True)
class PartOfLine:
    """What is there of a line's translation: that of its first segments."""

    number: int
    """The number of the line, from 0."""
    line: str
    segments: Sequence[Segment]
    count: int
    """The number of segments that are translated."""
    direction: Direction
    translator: Translator

    @property
    def is_whole(self) -> bool:
        """Whether the whole line is translated."""
        return self.count == len(self.segments)

    def translation(self) -> Translation:
        """The translation of the segments that are there."""
        return self.translator.joined(self.line, self.segments[: self.count], self.direction.target)


def _searched_count(segments: Sequence[Segment]) -> int:
    """The number of first segments that are searched."""
    return next((index for index, segment in enumerate(segments) if not segment.is_searched), len(segments))


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """Items, between which other requests have their turn."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % _TURN == 0:
            await asyncio.sleep(0)


def layout_of(text: str, direction: Direction, divided: Callable[[str, str], Layout] = Layout.of) -> Layout:
    """The layout of a text, which has no lines if the text is in the target language."""
    return Layout((), (text,)) if direction.is_identity else divided(text, direction.source)


def warning(found: Sequence[Identified], translated: Sequence[Translated] = ()) -> dict[str, str]:
    """What an answer says of texts in another language than their source, and of bad translations; empty if of none."""
    said = []
    for number, one in enumerate(found, start=1):
        text, translation = f"Text {number}", f"Translation {number}"
        if len(found) == 1:
            text, translation = "The text", "The translation"
        if one.other is not None:
            looks = f"looks like {in_words(one.other)}, not" if one.other else "is in another script than"
            said.append(f"{text} {looks} {in_words(one.direction.source)}.")
        elif translated and (problems := translated[number - 1].problems):
            said.append(f"{translation} looks wrong ({', '.join(problems)}).")
    more = f" And {len(said) - _MOST_SAID:,} more." if len(said) > _MOST_SAID else ""
    return {"warning": " ".join(said[:_MOST_SAID]) + more} if said else {}


def _refusal(error: Exception) -> RequestError:
    if isinstance(error, ProcessLostError):
        return RequestError(503, "The server is shutting down.", retry_after=_RETRY_SECONDS)
    if isinstance(error, BeamTooWideError):  # its message is for people who choose the beam
        return RequestError(
            503,
            "The server has too little memory for a sentence of this text. Send shorter sentences, or try again later.",
            retry_after=_RETRY_SECONDS,
        )
    if isinstance(error, NmtError):
        return RequestError(400, str(error))
    return InternalError()
