"""A language model behind an address that understands OpenAI's chat completions, as vLLM, llama.cpp and Ollama do.

Requests are repeated where the server is busy, fails or says nothing in time. A request that stays without an answer
is given up. After many in a row, only an answer to a short request shows that the server is still there.
"""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from nmt.config.documents import DocumentError, parse_json
from nmt.errors import ConfigError, DownloadError
from nmt.synthesis.answers import WITHOUT_ANSWER, Answer, Ending
from nmt.text.addresses import beside, host_folder, is_address, public_address, without_user

KEY = "NMT_TEACHER_KEY"
"""The environment variable with the key of the server, which is never recorded."""
_BUSY = frozenset({408, 409, 425, 429})
_MISTAKES = frozenset({401, 402, 403, 404, 405})
_MOST_BYTES = 4 * 2**20
_LONGEST_WAIT = 600.0
_LONGEST_REASON = 200
_IN_A_ROW = 8
"""Requests without an answer after which the server may be gone; as many as are sent at once, if that is more."""


class ChatServer:
    """Sends requests; threads may do so at the same time."""

    def __init__(self, address: str, *, concurrency: int, timeout: float, tries: int, first_wait: float = 1.0) -> None:
        """Connect to nothing yet. The key comes from the environment.

        Args:
            address: the base of the interface, which ends in ``/v1`` for most servers.
            concurrency: how many threads send requests.
            timeout: seconds that a try may take.
            tries: per request.
            first_wait: seconds after the first try; after each of the next nine they double.

        Raises:
            ConfigError: the address is none.
        """
        self.address = public_address(address)
        try:
            if not is_address(address) or without_user(address) != address or not host_folder(address):
                raise ValueError
        except ValueError:
            raise ConfigError(
                f"--teacher {self.address}: is not the address of a server, such as http://localhost:8000/v1. A key "
                f"comes from the environment variable {KEY}."
            ) from None
        self._url = beside(address, "chat/completions")
        self._key = key = os.environ.get(KEY, "")
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(timeout, pool=None),
            limits=httpx.Limits(max_connections=concurrency),
        )
        self.concurrency = concurrency
        self._timeout, self._tries, self._first_wait = timeout, tries, first_wait
        self._most_in_a_row = max(concurrency, _IN_A_ROW)
        self._in_a_row, self._reason = 0, ""
        self._has_answered = False
        self._lock, self._checking = threading.Lock(), threading.Lock()
        self._is_stopping = threading.Event()

    def stop(self) -> None:
        """Repeat no request any more. Those that are sent are still answered."""
        self._is_stopping.set()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def ask(self, request: Mapping[str, Any], short: Mapping[str, Any]) -> Answer:
        """The answer to a request; without a text if the server rejects it, or says nothing in all tries.

        Args:
            short: a request that the server answers if it is still there.

        Raises:
            DownloadError: the server refuses all requests, cannot be reached, or does not answer any more.
        """
        answer = self._asked(request)
        with self._lock:
            self._in_a_row = self._in_a_row + 1 if answer.ending in WITHOUT_ANSWER else 0
        if self._in_a_row >= self._most_in_a_row:
            self.check(short)
        return answer

    def check(self, short: Mapping[str, Any]) -> None:
        """Find out whether the server is still there, after requests without an answer.

        Raises:
            DownloadError: it answers nothing any more.
        """
        with self._checking:
            if self._in_a_row and self._asked(short).ending in WITHOUT_ANSWER:
                raise DownloadError(
                    f"{self.address}: answered none of the last {self._in_a_row} requests ({self._reason}). Run the "
                    "same command to resume, when the server answers again."
                )
            self._in_a_row = 0

    def _asked(self, request: Mapping[str, Any]) -> Answer:
        reason, wait = "", 0.0
        for attempt in range(self._tries):
            if attempt and self._is_stopping.wait(wait):
                break
            wait = self._first_wait * 2 ** min(attempt, 9) * random.uniform(0.5, 1)
            try:
                response, content = self._post(request)
            except httpx.RequestError as error:
                reason = f"{type(error).__name__}: {error}".removesuffix(": ")
                if isinstance(error, httpx.ConnectError) and not self._has_answered:
                    raise DownloadError(f"{self.address}: cannot be reached ({reason}). Start the server.") from None
                continue
            if response.is_success and (answer := _answer(content)) is not None:
                self._has_answered = True
                return answer
            reason = self._said(response, content)
            if response.status_code in _MISTAKES or response.has_redirect_location:
                raise DownloadError(
                    f"{self.address}: {reason}. The key comes from {KEY}; --teacher ends in /v1 for most servers, and "
                    "--teacher-model is a model that it has."
                )
            if response.is_client_error and response.status_code not in _BUSY:
                self._reason = reason
                return Answer("", "rejected")
            wait = _retry_after(response, wait)
        self._reason = reason
        return Answer("", "no_answer")

    def _post(self, request: Mapping[str, Any]) -> tuple[httpx.Response, bytes]:
        deadline = time.monotonic() + self._timeout
        content = bytearray()
        with self._client.stream("POST", self._url, json=request) as response:
            for block in response.iter_bytes():
                content += block
                if len(content) > _MOST_BYTES:
                    raise httpx.DecodingError(f"more than {_MOST_BYTES:,} bytes")
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout(f"not complete after {self._timeout:g} seconds")
        return response, bytes(content)

    def _said(self, response: httpx.Response, content: bytes) -> str:
        """What a server says of an error, without the key, which it may repeat."""
        said = ""
        with suppress(DocumentError, LookupError, TypeError):
            said = str(parse_json(content)["error"]["message"])
        if self._key:
            said = said.replace(self._key, "…")
        status = f"status {response.status_code} {response.reason_phrase}".rstrip()
        if response.status_code == httpx.codes.OK:
            status = "an answer that is no chat completion"
        shown = " ".join(said.split())[:_LONGEST_REASON]
        # Servers quote a wrong key in part.
        return f"{status}: {shown}" if shown and response.status_code != httpx.codes.UNAUTHORIZED else status


def _answer(content: bytes) -> Answer | None:
    """What a chat completion says; None if it is none."""
    with suppress(DocumentError):
        match parse_json(content):
            case {"choices": [{"message": {"refusal": str(refusal)}}, *_]} if refusal:
                return Answer(_writable(refusal), "refused")
            case {"choices": [{"message": {"content": str() | None as text}, **choice}, *_]}:
                endings: dict[object, Ending] = {"length": "cut_off", "content_filter": "refused"}
                return Answer(_writable(text or ""), endings.get(choice.get("finish_reason"), ""))
    return None


def _writable(text: str) -> str:
    """A text without halves of characters, which JSON can spell."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _retry_after(response: httpx.Response, otherwise: float) -> float:
    """The seconds to wait that a server asks for."""
    asked = response.headers.get("Retry-After", "")
    if re.fullmatch(r"\d{1,9}(\.\d+)?", asked):
        return min(float(asked), _LONGEST_WAIT)
    with suppress(ValueError, TypeError, OverflowError):
        seconds = (parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds()
        return min(max(seconds, 0.0), _LONGEST_WAIT)
    return otherwise
