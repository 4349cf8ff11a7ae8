"""An answer that grows while it is sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from nmt.server.errors import CLIENT_CLOSED, RequestError, TooLateError

MEDIA_TYPE = "application/x-ndjson"


class Growing(StreamingResponse):
    """An answer in lines of JSON, each sent as soon as it is there. It is counted at its end, by how it ends."""

    count: Callable[[int], None]
    """Counts a status."""

    def __init__(
        self, first: dict[str, Any], others: AsyncIterator[dict[str, Any]], *, end: float, seconds: float
    ) -> None:
        """Send the first part and all others.

        Args:
            end: when the answer ends with an error at the latest, in the time of the event loop.
            seconds: the time limit that this error names.
        """
        super().__init__(self._lines(first, others, end, seconds), media_type=MEDIA_TYPE)
        self._ended = CLIENT_CLOSED

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer and count it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.count(self._ended)

    async def _lines(
        self, first: dict[str, Any], others: AsyncIterator[dict[str, Any]], end: float, seconds: float
    ) -> AsyncIterator[str]:
        part: dict[str, Any] | None = first
        try:
            while part is not None:
                yield _line(part)
                async with asyncio.timeout_at(end):
                    part = await anext(others, None)
            self._ended = self.status_code
        except (TimeoutError, RequestError) as error:
            refused = error if isinstance(error, RequestError) else TooLateError(seconds)
            self._ended = refused.status
            yield _line({"error": refused.message})


def _line(part: dict[str, Any]) -> str:
    return json.dumps(part, ensure_ascii=False) + "\n"
