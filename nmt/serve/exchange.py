"""A request from its bytes to its parameters, and its way back: what all dialects share."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_origin
from urllib.parse import parse_qs

from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from nmt.serve.access import Access
from nmt.serve.errors import CLIENT_CLOSED, InternalError, MissingError, RequestError, TooLateError
from nmt.serve.growing import Growing
from nmt.serve.service import Service

_SECONDS_TO_SEND = 30
"""For the body of a request, from its beginning to its end."""
_MAX_FIELDS = 2_000

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


class Parameters(Mapping[str, Any]):
    """The parameters of a request: from its address, and from its body as JSON or as a form."""

    def __init__(self, fields: Mapping[str, list[str]], document: Mapping[str, Any]) -> None:
        """Join both.

        Args:
            fields: those of address and form; each may be given several times.
            document: those of JSON.
        """
        self.fields = fields
        self.document = document

    def __getitem__(self, name: str) -> Any:
        return self.document[name] if name in self.document else self.fields[name][0]

    def __iter__(self) -> Any:
        return iter({**self.fields, **self.document})

    def __len__(self) -> int:
        return len({**self.fields, **self.document})

    def text(self, name: str) -> str | None:
        """A parameter, if it is there and a text."""
        value = self.get(name)
        return value if isinstance(value, str) else None

    def read(self, kind: type[M]) -> M:
        """Check the parameters that a dialect knows.

        Raises:
            RequestError: one is missing, or has a value that is not allowed.
        """
        values = dict(self.document)
        for name, given in self.fields.items():
            field = kind.model_fields.get(name)
            values.setdefault(name, given if field and get_origin(field.annotation) is list else given[0])
        try:
            return kind.model_validate(values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = str(first["loc"][0]) if first["loc"] else "request"
            if first["type"] == "missing":
                raise MissingError(name) from None
            raise RequestError(400, f"Invalid request: {name}: {first['msg']}") from None


@dataclass(frozen=True)
class Limits:
    """What a single request may ask for."""

    max_characters: int = 50_000
    seconds: float = 120.0
    """From the whole request to its answer."""

    @property
    def max_bytes(self) -> int:
        """The maximum length of a request's body: a character of JSON or of a form takes up to 12 bytes."""
        return 12 * self.max_characters + 65_536

    def check(self, texts: list[str]) -> None:
        """Check the length of the texts of a request.

        Raises:
            RequestError: they are too long.
        """
        count = sum(max(1, len(text)) for text in texts)  # empty ones, too, take time
        if count > self.max_characters:
            raise RequestError(
                413, f"Invalid request: request ({count:,}) exceeds text limit ({self.max_characters:,}) in characters"
            )


@dataclass(frozen=True)
class Server:
    """What every dialect needs."""

    service: Service
    access: Access
    limits: Limits


Handler = Callable[[Request, Parameters], Awaitable[Response]]


@dataclass(frozen=True)
class Dialect:
    """How a family of clients asks, and how it is refused."""

    name: str
    key: Callable[[Request, Parameters], str | None]
    """The API key of a request."""
    refused: Callable[[RequestError], dict[str, Any]]
    """The body of a refusal."""

    def refusal(self, error: RequestError) -> Response:
        """The answer to a request that is refused."""
        headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
        return JSONResponse(self.refused(error), error.status, headers)

    def endpoint(
        self, server: Server, handler: Handler, *, is_open: bool = False
    ) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request: it checks page and key, reads the parameters, and turns errors into answers.

        Args:
            is_open: whether requests without a key are answered.
        """

        async def answer(request: Request) -> Response:
            began = time.monotonic()
            try:
                server.access.check_page(request.headers)
                parameters = await read_parameters(request, server.limits)
                if not is_open:
                    address = request.client.host if request.client is not None else ""
                    server.access.check(self.key(request, parameters), address)
                response = await _while_connected(request, handler(request, parameters), server.limits.seconds)
            except RequestError as error:
                response = self.refusal(error)
            except ClientDisconnect:
                response = Response(status_code=CLIENT_CLOSED)
            except Exception:
                traceback.print_exc(file=sys.stderr)
                response = self.refusal(InternalError())

            def count(status: int) -> None:
                server.service.metrics.answered(self.name, status, time.monotonic() - began)

            if isinstance(response, Growing):
                response.count = count
            else:
                count(response.status_code)
            return response

        return answer


async def read_parameters(request: Request, limits: Limits) -> Parameters:
    """Read the parameters of a request.

    Raises:
        RequestError: the body is too large, too slow, or damaged, or holds what is no text.
    """
    parameters = await _read(request, limits)
    try:
        json.dumps([parameters.fields, parameters.document], ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise RequestError(400, "Invalid request: a text holds half of a surrogate pair.") from None
    return parameters


async def _read(request: Request, limits: Limits) -> Parameters:
    fields = {name: request.query_params.getlist(name) for name in request.query_params}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        async with asyncio.timeout(_SECONDS_TO_SEND):
            await _read_body(request, limits.max_bytes)
            if kind == "multipart/form-data":
                async with request.form(max_files=0, max_fields=_MAX_FIELDS) as form:
                    sent = {name: [str(value) for value in form.getlist(name)] for name in form}
                return Parameters({**fields, **sent}, {})
    except TimeoutError:
        raise RequestError(408, f"The request took longer than {_SECONDS_TO_SEND} s to arrive.") from None
    except HTTPException as error:  # a damaged form
        raise RequestError(error.status_code, f"Invalid request: {error.detail}") from None
    body = await request.body()
    if not body:
        return Parameters(fields, {})
    if kind == "application/json" or kind.endswith("+json"):
        return Parameters(fields, _document(body))
    return Parameters({**fields, **_form(body)}, {})


async def _read_body(request: Request, max_bytes: int) -> None:
    """Read the body, and leave it where starlette looks for it."""
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length) > max_bytes:
        raise _too_large(max_bytes)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
    request._body = bytes(body)


def _too_large(max_bytes: int) -> RequestError:
    return RequestError(413, f"The request has more than {max_bytes:,} bytes, the maximum.")


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise RequestError(400, "Invalid request: the body is not JSON in UTF-8.") from None
    if not isinstance(document, dict):
        raise RequestError(400, "Invalid request: expected a JSON object.")
    return document


def _form(body: bytes) -> dict[str, list[str]]:
    try:
        return parse_qs(body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise RequestError(400, "Invalid request: the form is damaged, or is not UTF-8.") from None


async def _while_connected(request: Request, work: Awaitable[T], seconds: float) -> T:
    """The result of some work, which is cancelled when the client goes away, or after so many seconds.

    Raises:
        ClientDisconnect: the client has gone.
        TooLateError: the time is over.
    """
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if gone.done():
            raise ClientDisconnect
        raise TooLateError(seconds)
    finally:
        for each in (task, gone):
            each.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
