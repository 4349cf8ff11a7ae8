"""Translations that grow: each line as soon as it is there. The page for people asks for them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from nmt.serve.errors import RequestError
from nmt.serve.exchange import Parameters, Server
from nmt.serve.layout import Layout
from nmt.serve.libretranslate import DIALECT
from nmt.serve.models import Direction
from nmt.serve.service import candidates_of
from nmt.translation.results import Translation


class StreamRequest(BaseModel):
    """What to translate."""

    q: str = Field(description="The text.", examples=["Good morning!"])
    source: str = Field(description="Language code of the text, or `auto`.", examples=["en"])
    target: str = Field(description="Language code of the translation.", examples=["de"])
    alternatives: int = Field(0, ge=0, description="The number of further translations.")
    api_key: str | None = Field(None, description="The API key, if the server needs one.")


def route(server: Server) -> Route:
    """``POST /stream``."""

    async def stream(request: Request, parameters: Parameters) -> Response:
        asked = parameters.read(StreamRequest)
        server.limits.check([asked.q])
        service, source = server.service, asked.source
        if source == "auto":
            source, _ = await service.detector.source(asked.q, service.models.sources_of(asked.target))
        direction = service.models.find(source, asked.target)
        parts = _parts(server, direction, asked)
        first = await anext(parts)  # a refusal has another status
        return StreamingResponse(_after(first, parts), media_type="application/x-ndjson")

    return Route("/stream", DIALECT.endpoint(server, stream), methods=["POST"])


async def _parts(server: Server, direction: Direction, asked: StreamRequest) -> AsyncIterator[dict[str, object]]:
    """What is sent: first the source language, then the text piece by piece, then the alternatives."""
    layout = Layout.of(asked.q, direction.source)
    whole: list[Translation] = []
    length = 0
    before = layout.between[0]
    grown = server.service.grow(direction, layout.lines, candidates=asked.alternatives + 1)
    async for part in grown:
        if part.number == 0 and length == 0:
            yield {"source": direction.source}
        translation = part.translation()
        text = before + translation.text[length:]
        before, length = "", len(translation.text)
        if part.is_whole:
            whole.append(translation)
            text += layout.between[len(whole)]
            length = 0
        yield {"text": text}
    if not whole:
        yield {"source": direction.source, "text": before}
    if asked.alternatives and whole:
        yield {"alternatives": candidates_of(layout, whole)[1:]}


async def _after(first: dict[str, object], parts: AsyncIterator[dict[str, object]]) -> AsyncIterator[str]:
    yield json.dumps(first, ensure_ascii=False) + "\n"
    try:
        async for part in parts:
            yield json.dumps(part, ensure_ascii=False) + "\n"
    except RequestError as error:
        yield json.dumps({"error": error.message}, ensure_ascii=False) + "\n"
