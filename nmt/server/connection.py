"""A connection that is closed when its client stalls."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_Place = tuple[object, int]


class Connection(H11Protocol):
    """Uvicorn's connection, with a time limit for its client.

    Uvicorn waits for ever for the rest of a request, and for a client that does not read its answer; a thousand of them
    would take all connections.
    """

    seconds = 30.0
    """The time within which a client must do something: a request must have begun and ended after twice as long."""
    _watching: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch the client."""
        super().connection_made(transport)
        self._watch(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the client."""
        self._watching.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP; if they follow a request that is answered already, hang up."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def abort(self) -> None:
        """Hang up at once."""
        self.transport.abort()

    def _watch(self, before: _Place | None) -> None:
        """Hang up if the client has done nothing since it was looked at before."""
        now = self._waits_at()
        if now is not None and now == before:
            self.abort()
        self._watching = self.loop.call_later(self.seconds, self._watch, now)

    def _waits_at(self) -> _Place | None:
        """Where the server waits for the client: the last request and the unread bytes. None if the client waits."""
        unread = self.transport.get_write_buffer_size()
        is_asked = self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete
        return None if is_asked and not unread else (self.cycle, unread)
