"""Translations that grow: each line as soon as it is there. The page for people asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from pydantic import Field

from nmt.server.exchange import Caller, Operation, Server
from nmt.server.growing import MEDIA_TYPE, Growing
from nmt.server.layout import between
from nmt.server.libretranslate import DIALECT, Translating, known
from nmt.server.service import Identified, Service, Translated, layout_in, warning
from nmt.translation.results import Translation


class StreamRequest(Translating):
    """What to translate."""

    q: str = Field(description="The text.", examples=["Good morning!"])


async def _stream(server: Server, asked: StreamRequest, caller: Caller) -> object:
    end = asyncio.get_running_loop().time() + server.limits.seconds
    server.limits.check([asked.q])
    [found] = await server.service.identify([asked.q], known(asked.source), asked.target)
    parts = _parts(server.service, found, asked, caller.key)
    first = await anext(parts)  # a refusal has another status
    return Growing(first, parts, end=end, seconds=server.limits.seconds)


async def _parts(
    service: Service, found: Identified, asked: StreamRequest, owner: str | None
) -> AsyncIterator[dict[str, object]]:
    """What is sent: first the source language, then the text piece by piece, then the alternatives."""
    first: dict[str, object] = {"source": found.direction.source, **warning([Translated(found)])}
    layout = layout_in(found.direction, asked.q)
    gaps = between(layout)
    whole: list[Translation] = []
    length = 0
    before = gaps[0]
    candidates = asked.alternatives + 1
    grown = service.grow(found.direction, layout.units, candidates=candidates, owner=owner, in_parts=True)
    async for translation, is_whole in grown:
        if first:
            yield first
            first = {}
        text = before + translation.text[length:]
        before, length = "", len(translation.text)
        if is_whole:
            whole.append(translation)
            text += gaps[len(whole)]
            length = 0
        yield {"text": text}
    if not whole:
        yield {**first, "text": before}
    translated = Translated.of(found, layout, whole)
    if asked.alternatives and whole:
        yield {"alternatives": translated.candidates[1:]}
    if found.other is None and (said := warning([translated])):
        yield dict(said)


STREAM = Operation(DIALECT, "POST", "/stream", _stream, StreamRequest, "Translate line by line", media_type=MEDIA_TYPE)
