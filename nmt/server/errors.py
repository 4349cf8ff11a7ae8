"""What a request is refused with, before a dialect puts it into its own words."""

from __future__ import annotations

import contextlib
import sys
import traceback

CLIENT_CLOSED = 499
"""The status under which a request is counted whose client went away."""


RETRY_SECONDS = 10
"""Seconds after which a client may try again, if nobody can tell how long the cause lasts."""


class RequestError(Exception):
    """A request that gets no translation."""

    def __init__(self, status: int, message: str, *, retry_after: int | None = None) -> None:
        """Refuse a request.

        Args:
            status: the HTTP status.
            message: what was given, what is allowed and what to do, for people.
            retry_after: seconds after which the same request may succeed.
        """
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after


class MissingError(RequestError):
    """A parameter that a request must have is missing."""

    def __init__(self, name: str) -> None:
        super().__init__(400, f"Invalid request: missing {name} parameter")
        self.name = name


class InternalError(RequestError):
    """The server failed, and has written a traceback into its log."""

    def __init__(self) -> None:
        super().__init__(500, "An internal error; the server's log has more.")


class ShuttingDownError(RequestError):
    """The server ends before it could answer."""

    def __init__(self) -> None:
        super().__init__(503, "The server is shutting down.", retry_after=RETRY_SECONDS)


class QueueFullError(RequestError):
    """Too much waits already."""


class TooLateError(RequestError):
    """There is no translation within the time limit."""

    def __init__(self, seconds: float) -> None:
        super().__init__(503, f"No translation within {seconds:g} s: the server is busy.", retry_after=RETRY_SECONDS)


class UnknownLanguageError(RequestError):
    """A language, or a pair of languages, that no model translates."""

    def __init__(self, message: str, *, of_target: bool) -> None:
        super().__init__(400, message)
        self.of_target = of_target
        """Whether the target is unknown, and not the source."""


def log_error() -> None:
    """Write the traceback of an error of the server itself. It may have no place: the disk may be full."""
    with contextlib.suppress(OSError, ValueError):
        traceback.print_exc(file=sys.stderr)
