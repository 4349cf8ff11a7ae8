"""An answer that grows while it is sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from nmt.server.errors import CLIENT_CLOSED, RequestError, TooLateError


class Growing(StreamingResponse):
    """An answer in lines of JSON, each sent as soon as it is there. It is counted at its end, by how it ends."""

    count: Callable[[int], None]
    """Counts a status."""

    def __init__(self, first: dict[str, Any], others: AsyncIterator[dict[str, Any]], began: float, seconds: float):
        """Send the first part and all others.

        Args:
            began: when the request came, in the time of the event loop.
            seconds: the time after which the answer ends with an error.
        """
        super().__init__(self._lines(first, others, began, seconds), media_type="application/x-ndjson")
        self._ended = CLIENT_CLOSED

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer and count it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.count(self._ended)

    async def _lines(
        self, first: dict[str, Any], others: AsyncIterator[dict[str, Any]], began: float, seconds: float
    ) -> AsyncIterator[str]:
        part: dict[str, Any] | None = first
        try:
            while part is not None:
                yield _line(part)
                part = await _next(others, began, seconds)
            self._ended = self.status_code
        except RequestError as error:
            self._ended = error.status
            yield _line({"error": error.message})


async def _next(parts: AsyncIterator[dict[str, Any]], began: float, seconds: float) -> dict[str, Any] | None:
    try:
        async with asyncio.timeout_at(began + seconds):
            return await anext(parts, None)
    except TimeoutError:
        raise TooLateError(seconds) from None


def _line(part: dict[str, Any]) -> str:
    return json.dumps(part, ensure_ascii=False) + "\n"
