"""Translations that grow: each line as soon as it is there. The page for people asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nmt.server.exchange import Parameters, Server
from nmt.server.growing import Growing
from nmt.server.libretranslate import DIALECT, Translating
from nmt.server.service import Identified, Service, Translated, layout_of, warning
from nmt.translation.results import Translation


class StreamRequest(Translating):
    """What to translate."""

    q: str = Field(description="The text.", examples=["Good morning!"])


def route(server: Server) -> Route:
    """``POST /stream``."""

    async def stream(request: Request, parameters: Parameters) -> Response:
        began = asyncio.get_running_loop().time()
        asked = parameters.read(StreamRequest)
        server.limits.check([asked.q])
        source = None if asked.source == "auto" else asked.source
        [found] = await server.service.identify([asked.q], source, asked.target)
        parts = _parts(server.service, found, asked, parameters.owner)
        first = await anext(parts)  # a refusal has another status
        return Growing(first, parts, began, server.limits.seconds)

    return Route("/stream", DIALECT.endpoint(server, stream), methods=["POST"])


async def _parts(
    service: Service, found: Identified, asked: StreamRequest, owner: str | None
) -> AsyncIterator[dict[str, object]]:
    """What is sent: first the source language, then the text piece by piece, then the alternatives."""
    first: dict[str, object] = {"source": found.direction.source, **warning([found])}
    layout = layout_of(asked.q, found.direction)
    whole: list[Translation] = []
    length = 0
    before = layout.between[0]
    grown = service.grow(found.direction, layout.lines, candidates=asked.alternatives + 1, owner=owner)
    async for part in grown:
        if first:
            yield first
            first = {}
        translation = part.translation()
        text = before + translation.text[length:]
        before, length = "", len(translation.text)
        if part.is_whole:
            whole.append(translation)
            text += layout.between[len(whole)]
            length = 0
        yield {"text": text}
    if not whole:
        yield {**first, "text": before}
    translated = Translated.of(layout, whole)
    if asked.alternatives and whole:
        yield {"alternatives": translated.candidates[1:]}
    if found.other is None and (said := warning([found], [translated])):
        yield dict(said)
