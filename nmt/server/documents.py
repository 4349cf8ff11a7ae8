"""Documents: they are translated in turns, beside all other requests, and stay in memory until they are fetched."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath
from typing import Literal
from urllib.parse import quote

from starlette.responses import Response

from nmt.documents.document import Document, Reading
from nmt.documents.formats import ENDINGS, format_of, read_document
from nmt.errors import NmtError
from nmt.server.errors import InternalError, QueueFullError, RequestError, log_error
from nmt.server.models import Direction
from nmt.server.service import Service
from nmt.spans.span import Unit
from nmt.spans.terms import Glossary
from nmt.text.languages import name_of
from nmt.translation.options import SplitSentences
from nmt.translation.results import Translation

KEPT_SECONDS = 3_600
"""How long a document is kept after its translation."""
MAX_SIZE = 100_000_000
"""The maximum bytes of all documents of an API key."""
_OBJECT = 1_000
"""Bytes of a document beside its content."""
_TURN = 2_000
"""Characters of a document that are translated before other documents have their turn."""
_AT_ONCE = 2
"""Documents that are searched at the same time: while one waits for its last line, the other keeps the models busy."""
_SAMPLE = 5_000
"""Characters by which the language of a document is identified."""
_LONGEST_WAIT = 1.0
"""Seconds after which a document asks again for room in the queue."""
_LONGEST_NAME = 200
MEDIA_TYPE = "application/octet-stream"


@dataclass(frozen=True)
class Upload:
    """A file that is sent."""

    name: str
    content: bytes


@dataclass(eq=False)
class Kept:
    """A document, from its upload until it is fetched."""

    name: str
    """Of its translation."""
    owner: str | None
    """The API key, where one is needed."""
    size: int
    """In bytes, with all that is kept of it."""
    split: SplitSentences | None
    """Whether its texts are split into sentences."""
    glossary: Glossary | None
    """Terms that the translation has."""
    id: str = field(default_factory=lambda: secrets.token_hex(16).upper())
    key: str = field(default_factory=lambda: secrets.token_hex(32).upper())
    """Who knows it may fetch the document."""
    characters: int = 0
    """Of the texts that are translated."""
    translated: int = 0
    """The characters of those that have been translated."""
    began: float | None = None
    """When the first text was searched."""
    content: bytes | None = None
    """The translated document."""
    error: RequestError | None = None
    """Why there is none."""
    is_fetched: bool = False
    task: asyncio.Task[None] = field(init=False)

    @property
    def status(self) -> Literal["queued", "translating", "done", "error"]:
        """What becomes of it."""
        if self.error is not None:
            return "error"
        if self.content is not None:
            return "done"
        return "queued" if self.began is None else "translating"

    @property
    def seconds_remaining(self) -> int:
        """The seconds that its translation will still take, estimated."""
        elapsed = 0.0 if self.began is None else time.monotonic() - self.began
        return max(1, math.ceil(elapsed * (self.characters - self.translated) / max(self.translated, _TURN)))

    def response(self) -> Response:
        """The translated document. Browsers save it: shown as a page of this server, its scripts could ask for more."""
        headers = {
            "Content-Disposition": f"attachment; filename*=utf-8''{quote(self.name, safe='')}",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        }
        return Response(self.content, media_type=MEDIA_TYPE, headers=headers)


class Documents:
    """The documents of a server."""

    def __init__(self, service: Service, check: Callable[[list[str]], None]) -> None:
        """Keep no document yet.

        Args:
            check: raises an error if texts are too long for a document.
        """
        self._service, self._check = service, check
        self._kept: dict[str, Kept] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    def add(
        self,
        upload: Upload,
        source: str | None,
        target: str,
        owner: str | None,
        glossary: Glossary | None = None,
    ) -> Kept:
        """Begin to translate a document.

        Args:
            source, target, owner, glossary: as of :meth:`Service.translate`.

        Raises:
            RequestError: its format or its languages are unknown, or too many documents are kept.
        """
        path = PurePath(upload.name[-_LONGEST_NAME:])
        document_format = format_of(path)
        if document_format is None:
            raise RequestError(
                400,
                f"Invalid file: {path.name or 'a file without a name'}: its file extension must be one of "
                f"{', '.join(ENDINGS)}.",
            )
        if source is None:
            self._service.models.sources_of(target)
        else:
            self._service.models.find(source, target)
        self._make_room(len(upload.content) + _OBJECT, owner)
        # Several sentences are nothing unusual in a paragraph, so auto would not split it.
        split: SplitSentences | None = None if document_format == "lines" else "always"
        kept = Kept(f"{path.stem}.{target}{path.suffix}", owner, len(upload.content) + _OBJECT, split, glossary)
        self._kept[kept.id] = kept
        read = partial(read_document, upload.content, document_format, name=path.name)
        kept.task = asyncio.create_task(self._finish(kept, read, source, target))
        return kept

    def find(self, id: str) -> Kept:
        """A document.

        Raises:
            RequestError: there is none.
        """
        if (found := self._kept.get(id)) is None:
            raise RequestError(
                404, f"Not found: this document was never sent, was removed, or is older than {KEPT_SECONDS:,} s."
            )
        return found

    def drop(self, kept: Kept) -> None:
        """Forget a document, and end its translation."""
        self._kept.pop(kept.id, None)
        kept.task.cancel()

    def _make_room(self, size: int, owner: str | None) -> None:
        """Make room for a document: those that were fetched go first, and the others are not lost."""
        own = [kept for kept in self._kept.values() if kept.owner == owner]
        size += sum(kept.size for kept in own)
        for kept in own:
            if size > MAX_SIZE and kept.is_fetched:
                self.drop(kept)
                size -= kept.size
        if size > MAX_SIZE:
            raise RequestError(
                503,
                f"All documents of an API key have at most {MAX_SIZE:,} bytes: fetch those that are translated.",
                retry_after=60,
            )

    async def _finish(self, kept: Kept, read: Callable[[Reading], Document], source: str | None, target: str) -> None:
        """Translate a document, or find out why that is impossible."""
        try:
            kept.content = await self._translated(kept, read, source, target)
        except RequestError as error:
            kept.error = error
        except NmtError as error:
            kept.error = RequestError(400, str(error))
        except Exception:
            log_error()
            kept.error = InternalError()
        kept.size = len(kept.content or b"") + _OBJECT
        asyncio.get_running_loop().call_later(KEPT_SECONDS, self._kept.pop, kept.id, None)

    async def _translated(
        self, kept: Kept, read: Callable[[Reading], Document], source: str | None, target: str
    ) -> bytes:
        direction = await self._direction(read, source, target)

        def divided() -> tuple[Document, list[list[Unit]]]:
            document = read(Reading(direction.source, direction.target))
            self._check([unit.text for unit in document.units])
            return document, list(_turns(document.units))

        document, turns = await asyncio.to_thread(divided)
        kept.characters = sum(len(unit.text) for units in turns for unit in units)
        texts: list[str] = []
        for units in turns:
            async with self._turns:
                kept.began = kept.began or time.monotonic()
                translations = await self._searched(direction, units, kept)
            kept.translated += sum(len(unit.text) for unit in units)
            # Placing the tags of long texts takes a while, in which the server answers others.
            texts += await asyncio.to_thread(_placed, translations, units, document.escape)
        return await asyncio.to_thread(lambda: b"".join(document.parts(texts)))

    async def _direction(self, read: Callable[[Reading], Document], source: str | None, target: str) -> Direction:
        if source is None:
            document = await asyncio.to_thread(read, Reading())
            sample = "\n".join(unit.text for unit in document.units[:_SAMPLE])[:_SAMPLE]
            [found] = await self._service.identify([sample], None, target)
            direction = found.direction
        else:
            direction = self._service.models.find(source, target)
        if direction.is_identity:
            raise RequestError(
                400,
                f"Source and target language are equal: {name_of(direction.source)}. If the document is in another, "
                "name its source language.",
            )
        return direction

    async def _searched(self, direction: Direction, units: Sequence[Unit], kept: Kept) -> list[Translation]:
        """The translations of texts, which wait while the queue is full."""
        while True:
            try:
                grown = self._service.grow(direction, units, split=kept.split, owner=kept.owner, glossary=kept.glossary)
                return [translation async for translation, _ in grown]
            except QueueFullError as error:
                await asyncio.sleep(min(error.retry_after or 0, _LONGEST_WAIT))


def _turns(units: Sequence[Unit]) -> Iterator[list[Unit]]:
    """The texts that are translated in one turn, of each turn."""
    some: list[Unit] = []
    size = 0
    for unit in units:
        some.append(unit)
        size += len(unit.text)
        if size >= _TURN:
            yield some
            some, size = [], 0
    if some:
        yield some


def _placed(translations: Sequence[Translation], units: Sequence[Unit], escape: Callable[[str], str]) -> list[str]:
    return [each.placed(unit, escape) for each, unit in zip(translations, units, strict=True)]
