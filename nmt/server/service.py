"""Texts in, translations out: the part of the server that knows nothing of HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Self, TypeVar

from nmt.corpora.wrong_language import in_words
from nmt.documents.document import Document
from nmt.documents.html import Tags, without_tags
from nmt.errors import NmtError
from nmt.machine.calls import ProcessLostError
from nmt.search.settings import BeamTooWideError
from nmt.server.cache import LineCache
from nmt.server.detection import Detector
from nmt.server.errors import RETRY_SECONDS, InternalError, QueueFullError, RequestError
from nmt.server.layout import Newlines, filled, layout_of
from nmt.server.loader import Loader
from nmt.server.metrics import Metrics
from nmt.server.models import Direction, Models
from nmt.server.pool import BusyError, Job, Pool
from nmt.spans.span import Unit
from nmt.spans.terms import Glossary
from nmt.translation.glossary import GlossaryTranslator
from nmt.translation.guard import Problem
from nmt.translation.line_translator import LineTranslator
from nmt.translation.options import SplitSentences
from nmt.translation.results import Translation
from nmt.translation.segment import Line, Segment, TranslatedSegment

_MOST_SAID = 20
"""Warnings of an answer; the others are counted."""
_AT_ONCE = 2_000
"""Characters that are encoded in about two milliseconds, and so without another thread."""
_LINE = 100
"""A line takes as long as so many characters, beside its own."""
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

    found: Identified
    candidates: Sequence[str] = ()
    """At least one, best first."""
    problems: Sequence[Problem] = ()
    """What the guard found in its lines and did not repair."""

    @classmethod
    def of(cls, found: Identified, text: Document, translations: Sequence[Translation]) -> Self:
        """The first candidates of all lines in one text, the second, and so on, without repetitions."""
        count = max((len(translation.candidates) for translation in translations), default=1)
        texts = [filled(text, translations, rank) for rank in range(count)]
        findings = [each.guard for each in translations if each.guard is not None and not each.guard.repaired]
        problems = dict.fromkeys(problem for finding in findings for problem in finding.problems)
        return cls(found, list(dict.fromkeys(texts)), list(problems))


@dataclass(frozen=True)
class Service:
    """The models, the pool that searches with them, and what counts."""

    models: Models
    pool: Pool
    detector: Detector
    metrics: Metrics
    loader: Loader
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
        texts: Sequence[str],
        source: str | None,
        target: str,
        *,
        tags: Tags | None = None,
        newlines: Newlines = "end",
        candidates: int = 1,
        split: SplitSentences | None = None,
        owner: str | None = None,
        glossary: Glossary | None = None,
    ) -> list[Translated]:
        """Translate texts.

        Args:
            source: as for :meth:`identify`.
            tags: of HTML and XML; None for texts without tags.
            newlines: what a newline does in a text without tags.
            candidates: the number of translations of each text; fewer if the beam is narrower.
            owner: whose translations may be remembered.
            glossary: terms that translations have.

        Raises:
            RequestError: too much waits already, or the model cannot translate the texts.
        """
        found = await self.identify(texts, source, target, is_html=tags is not None)
        pairs = zip(texts, found, strict=True)
        layouts = [layout_in(one.direction, text, tags=tags, newlines=newlines) async for text, one in in_turns(pairs)]
        translated: dict[int, Translated] = {}
        for direction in dict.fromkeys(one.direction for one in found):
            own = [number for number, one in enumerate(found) if one.direction is direction]
            units = [unit for number in own for unit in layouts[number].units]
            grown = self.grow(direction, units, candidates=candidates, split=split, owner=owner, glossary=glossary)
            translations = iter([translation async for translation, _ in grown])
            async for number in in_turns(own):
                of_text = list(itertools.islice(translations, len(layouts[number].units)))
                # Placing the tags of a long text takes seconds, in which the server answers others.
                make = partial(Translated.of, found[number], layouts[number], of_text)
                has_tags = tags is not None
                translated[number] = await asyncio.to_thread(make) if has_tags else make()
        return [translated[number] for number in range(len(texts))]

    async def grow(
        self,
        direction: Direction,
        units: Sequence[Unit],
        *,
        candidates: int = 1,
        split: SplitSentences | None = None,
        owner: str | None = None,
        glossary: Glossary | None = None,
        in_parts: bool = False,
    ) -> AsyncIterator[tuple[Translation, bool]]:
        """Translate lines. Yields each translation in order as soon as it is there, and whether it is whole.

        Args:
            in_parts: also yield the translation of the beginning of a line whenever it has grown.

        Raises:
            RequestError: as :meth:`translate`.
        """
        if not units:
            return
        try:
            async with self.loader.using(direction.model.parts, direction):
                candidates = max(1, min(candidates, direction.model.max_candidates))
                searcher = direction.translator(candidates, split)  # searches with and without glossaries in one batch
                translator = searcher if glossary is None else GlossaryTranslator(searcher, glossary)
                terms = "" if glossary is None else glossary.fingerprint
                tasks = [unit.task for unit in units]
                # A place holds no translator, which would stay in memory when its model is unloaded.
                of_model = direction, direction.model.version, candidates, split
                places = {task: (of_model, terms, owner, task.spans) for task in tasks}
                cached = {
                    task: found
                    for task, place in places.items()
                    if (found := self.cache.get(place, task.text)) is not None
                }
                new = await self._prepared(translator, [task for task in places if task not in cached])
                job = Job(searcher, list(new.values()))
                searched = dict(zip(new, job.found, strict=True))
                lines = [cached.get(task) or searched[task] for task in tasks]
                async for number, parts, is_whole in self._searched(job, lines):
                    if not is_whole and not in_parts:
                        continue
                    task = tasks[number]
                    translation = translator.joined(task.text, parts)
                    if is_whole and new.pop(task, None) is not None:
                        self.metrics.translated(translation.guard)
                        self.cache.put(places[task], task.text, parts)
                    yield translation, is_whole
        except BusyError as error:
            raise QueueFullError(503, f"The server is busy: {error}.", retry_after=error.retry_after) from error
        except NmtError as error:
            raise _refusal(error) from error

    async def _prepared(self, translator: LineTranslator, tasks: Sequence[Unit]) -> dict[Unit, list[Segment]]:
        """The segments of each line. Encoding a long text takes milliseconds, in which the server answers others.

        Raises:
            BusyError: too much waits already.
        """
        if not tasks:
            return {}
        self.pool.check_room()
        lines = [Line(task.text, number=number, spans=task.spans) for number, task in enumerate(tasks)]
        is_long = sum(_LINE + len(task.text) for task in tasks) > _AT_ONCE
        prepare = partial(translator.prepare, lines)
        segments = await asyncio.to_thread(prepare) if is_long else prepare()
        return dict(zip(tasks, segments, strict=True))

    async def _searched(
        self, job: Job, lines: Sequence[Sequence[TranslatedSegment | None]]
    ) -> AsyncIterator[tuple[int, Sequence[TranslatedSegment], bool]]:
        """The numbers of the lines, each with its first parts that are searched, whenever there are more of them, and
        whether these are all.

        Args:
            job: searches what is None in these lines.

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
            async for number, line in in_turns(enumerate(lines)):
                count = 0
                while count < len(line):
                    parts = _first_searched(line)
                    if len(parts) > count:
                        count = len(parts)
                        yield number, parts, count == len(line)
                    elif job.error is not None:
                        raise _refusal(job.error)
                    else:
                        await changed.wait()
                        changed.clear()
        finally:
            self.pool.forget(job)


def _first_searched(line: Sequence[TranslatedSegment | None]) -> list[TranslatedSegment]:
    """The parts of a line before the first that is not searched yet."""
    found = []
    for part in line:
        if part is None:
            break
        found.append(part)
    return found


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """Items, between which other requests have their turn."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % _TURN == 0:
            await asyncio.sleep(0)


def layout_in(direction: Direction, text: str, *, tags: Tags | None = None, newlines: Newlines = "end") -> Document:
    """As :func:`~nmt.server.layout.layout_of`; nothing is translated of a text in the target language."""
    if direction.is_identity:
        return Document(text, [])
    return layout_of(text, direction.source, tags=tags, newlines=newlines)


def warning(translated: Sequence[Translated]) -> dict[str, str]:
    """What an answer says of texts in another language than their source, and of bad translations; empty if of none."""
    said = []
    for number, each in enumerate(translated, start=1):
        text, translation = f"Text {number}", f"Translation {number}"
        if len(translated) == 1:
            text, translation = "The text", "The translation"
        other, source = each.found.other, in_words(each.found.direction.source)
        if other is not None:
            looks = f"looks like {in_words(other)}, not" if other else "is in another script than"
            said.append(f"{text} {looks} {source}.")
        elif each.problems:
            said.append(f"{translation} looks wrong ({', '.join(each.problems)}).")
    more = f" And {len(said) - _MOST_SAID:,} more." if len(said) > _MOST_SAID else ""
    return {"warning": " ".join(said[:_MOST_SAID]) + more} if said else {}


def _refusal(error: Exception) -> RequestError:
    if isinstance(error, ProcessLostError):
        message = "The process of the model was killed while it translated. Try again later."
        return RequestError(503, message, retry_after=RETRY_SECONDS)
    if isinstance(error, BeamTooWideError):  # its message is for people who choose the beam
        return RequestError(
            503,
            "The server has too little memory for a sentence of this text. Send shorter sentences, or try again later.",
            retry_after=RETRY_SECONDS,
        )
    if isinstance(error, NmtError):
        return RequestError(400, str(error))
    return InternalError()
