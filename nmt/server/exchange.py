"""A request from its bytes to its parameters, and its way back: what all dialects share."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qs

from pydantic import BaseModel, PlainValidator, ValidationError, WithJsonSchema
from pydantic_core import PydanticCustomError
from python_multipart.multipart import parse_options_header
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nmt.server.access import Access
from nmt.server.documents import Documents, Upload
from nmt.server.errors import (
    CLIENT_CLOSED,
    RETRY_SECONDS,
    InternalError,
    MissingError,
    RequestError,
    ShuttingDownError,
    TooLateError,
    log_error,
)
from nmt.server.glossaries import Glossaries
from nmt.server.growing import Growing
from nmt.server.service import Service

_SECONDS_TO_SEND = 30
"""For the body of a request, from its beginning to its end."""
_MAX_FIELDS = 2_000
_DOCUMENT = 20
"""A document may have so many times as many characters as another request, and take so many times as long."""
_MAX_ARRIVING = 100
"""The maximum bytes of all bodies that arrive at the same time, in bodies of the maximum length."""
_CHUNK = 65_536
_LONGEST_TYPE = 500
"""Characters of a content type: the parser takes quadratic time."""
_CHARSETS = (b"utf-8", b"utf8")
_TEXTS = ("q", "text")
"""Parameters that may be empty. Any other empty parameter counts as left out."""

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


class Parameters(dict[str, Any]):
    """The parameters of a request: from its address, and from its body as JSON or as a form.

    A form's parameter that is given several times is a list.
    """

    def text(self, name: str) -> str | None:
        """A parameter, if it is there and a text.

        Raises:
            RequestError: it is given several times.
        """
        value = self.get(name)
        if isinstance(value, list):
            raise _repeated(name, len(value))
        return value if isinstance(value, str) else None

    def read(self, kind: type[M]) -> M:
        """Check the parameters that an operation knows.

        Raises:
            RequestError: one is missing, or has a value that is not allowed.
        """
        values = {name: given for name, given in self.items() if given is not None and (given != "" or name in _TEXTS)}
        try:
            return kind.model_validate(values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = str(first["loc"][0])
            if first["type"] == "missing":  # perhaps of an object in a list
                raise MissingError(str(first["loc"][-1])) from None
            given = values[name]
            if isinstance(given, list) and given and len(first["loc"]) == 1:  # not one of its items
                raise _repeated(name, len(given)) from None
            raise RequestError(400, f"Invalid request: {name}: {first['msg']}") from None


def _repeated(name: str, count: int) -> RequestError:
    return RequestError(400, f"Invalid request: {name}: given {count:,} times; give it once.")


@dataclass(frozen=True)
class Limits:
    """What a single request may ask for."""

    max_characters: int = 50_000
    seconds: float = 120.0
    """From the whole request to its answer."""

    @property
    def of_documents(self) -> Limits:
        """What a request with a document may ask for."""
        return Limits(_DOCUMENT * self.max_characters, _DOCUMENT * self.seconds)

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


@dataclass
class Server:
    """What every dialect needs."""

    service: Service
    access: Access
    limits: Limits
    is_ending: Callable[[], bool] = lambda: False
    """Whether the server takes no more requests."""
    arriving: int = 0
    """The bytes of bodies that have not arrived as a whole."""
    deepl_characters: int = 0
    """The characters that were translated in DeepL's dialect."""

    def __post_init__(self) -> None:
        self.documents = Documents(self.service, self.limits.of_documents.check)
        self.glossaries = Glossaries(self.service.models)


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


@dataclass(frozen=True)
class Caller:
    """Who asks."""

    key: str | None
    """The API key, where one is needed."""
    address: str
    """By which the server is asked: ``http://localhost:5000/``."""


def _file(given: object) -> Upload:
    if not isinstance(given, Upload):
        raise PydanticCustomError("file", "Expected a file, in a form of several parts (multipart/form-data)")
    return given


File = Annotated[Upload, PlainValidator(_file), WithJsonSchema({"type": "string", "format": "binary"})]
"""The type of a parameter that is a file, in a form of several parts."""


class NoParameters(BaseModel):
    """Nothing is asked for but the operation itself."""


@dataclass(frozen=True)
class Operation:
    """What is answered at a path."""

    dialect: Dialect
    methods: str
    """Separated by spaces. ``/spec`` names the first."""
    path: str
    answer: Callable[[Server, Any, Caller], Awaitable[object]]
    """From the server, the parameters and the caller of a request to its answer: a response, or a document that is sent
    as JSON."""
    parameters: type[BaseModel] = NoParameters
    summary: str = ""
    """For ``/spec``, which leaves out operations without one."""
    media_type: str = "application/json"
    """Of the answer, for ``/spec``."""
    status: int = 200
    """Of the answer."""
    is_open: bool = False
    """Whether requests without a key are answered. Such an operation has only parameters in its path."""

    @property
    def takes_file(self) -> bool:
        """Whether a file is a parameter."""
        return any(field.annotation is Upload for field in self.parameters.model_fields.values())

    def route(self, server: Server) -> Route:
        """The path and its answers."""
        return Route(self.path, self.endpoint(server), methods=self.methods.split())

    def endpoint(self, server: Server) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request: it checks page and key, reads the parameters, and turns errors into answers."""

        async def answer(request: Request) -> Response:
            began = time.monotonic()
            try:
                server.access.check_page(request.headers)
                limits = server.limits.of_documents if self.takes_file else server.limits
                asked, caller = await self._admitted(request, server, limits)
                found = await _while_connected(request, self.answer(server, asked, caller), limits.seconds)
                response = found if isinstance(found, Response) else JSONResponse(found, self.status)
            except RequestError as error:
                response = self.dialect.refusal(error)
            except ClientDisconnect:
                response = Response(status_code=CLIENT_CLOSED)
            except asyncio.CancelledError:  # by uvicorn, at the end of its time limit for the last requests
                response = self.dialect.refusal(ShuttingDownError())
            except Exception:
                log_error()
                response = self.dialect.refusal(InternalError())

            if server.is_ending():  # so that the client sends no further request on this connection
                response.headers["Connection"] = "close"

            def count(status: int) -> None:
                server.service.metrics.answered(self.dialect.name, status, time.monotonic() - began)

            if isinstance(response, Growing):
                response.count = count
            else:
                count(response.status_code)
            return response

        return answer

    async def _admitted(self, request: Request, server: Server, limits: Limits) -> tuple[BaseModel, Caller]:
        """The parameters of a request that may ask, and who sends it. The key is checked as soon as it is known.

        Raises:
            RequestError: it may not ask, or its parameters cannot be read.
        """
        parameters, key = Parameters(), None
        if not self.is_open:
            address = request.client.host if request.client is not None else ""
            parameters.update(_form(request.scope["query_string"].decode("ascii")))
            key = self.dialect.key(request, parameters)
            if is_known := key is not None or not server.access.keys:
                server.access.check(key, address)
            parameters.update(await _parameters_of_body(request, server, limits, takes_file=self.takes_file))
            if not is_known:
                key = self.dialect.key(request, parameters)
                server.access.check(key, address)
        parameters.update(request.path_params)
        caller = Caller(key if server.access.keys else None, str(request.base_url))
        return parameters.read(self.parameters), caller


async def _parameters_of_body(request: Request, server: Server, limits: Limits, *, takes_file: bool) -> dict[str, Any]:
    """Read the body of a request.

    Raises:
        RequestError: it is too large, too slow, or damaged, or is no text.
    """
    header = request.headers.get("content-type", "")
    kind, options = parse_options_header(header[:_LONGEST_TYPE])
    if len(header) > _LONGEST_TYPE or options.get(b"charset", b"utf-8").lower() not in _CHARSETS:
        raise RequestError(400, "Invalid request: the content type has another charset than UTF-8, or is too long.")
    body = await _body(request, server, limits.max_bytes)
    if takes_file and kind == b"multipart/form-data":
        return await _multipart(request, body, max_files=1)
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise RequestError(400, "Invalid request: the body is not in UTF-8.") from None
    if kind == b"multipart/form-data":
        return await _multipart(request, body, max_files=0)
    if text and (kind == b"application/json" or kind.endswith(b"+json")):
        return _document(text, 2 * limits.max_characters + _MAX_FIELDS)
    return _form(text)


async def _body(request: Request, server: Server, max_bytes: int) -> bytes:
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length) > max_bytes:
        raise _too_large(max_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(_SECONDS_TO_SEND):
            async for chunk in request.stream():
                body += chunk
                server.arriving += len(chunk)
                if len(body) > max_bytes:
                    raise _too_large(max_bytes)
                if server.arriving > _MAX_ARRIVING * server.limits.max_bytes:
                    raise RequestError(503, "The server is busy: too many requests arrive.", retry_after=RETRY_SECONDS)
    except TimeoutError:
        raise RequestError(408, f"The request took longer than {_SECONDS_TO_SEND} s to arrive.") from None
    finally:
        server.arriving -= len(body)
    return bytes(body)


def _too_large(max_bytes: int) -> RequestError:
    return RequestError(413, f"The request has more than {max_bytes:,} bytes, the maximum.")


def _document(text: str, max_values: int) -> dict[str, Any]:
    if sum(map(text.count, "[{,")) > max_values:  # each may be an error, which takes microseconds and 1 kB
        raise RequestError(413, f"Invalid request: more than {max_values:,} values in JSON, the maximum.")
    try:
        document = json.loads(text)
        json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise RequestError(400, "Invalid request: the body is not JSON, or has half of a surrogate pair.") from None
    if not isinstance(document, dict):
        raise RequestError(400, "Invalid request: expected a JSON object.")
    return document


def _form(text: str) -> dict[str, Any]:
    try:
        fields = parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise RequestError(
            400, f"Invalid request: the parameters are damaged, not in UTF-8, or more than {_MAX_FIELDS:,}."
        ) from None
    return _joined(fields)


async def _multipart(request: Request, body: bytes, max_files: int) -> dict[str, Any]:
    async def stream() -> AsyncGenerator[bytes, None]:
        for begin in range(0, len(body), _CHUNK):
            yield body[begin : begin + _CHUNK]
            await asyncio.sleep(0)  # so that other requests have their turn

    parser = MultiPartParser(
        request.headers, stream(), max_files=max_files, max_fields=_MAX_FIELDS, max_part_size=len(body)
    )
    parser.spool_max_size = len(body) + 1  # else a large file would be written to the disk
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise RequestError(400, f"Invalid request: {error.message}") from None
    fields: dict[str, list[Any]] = {}
    for name, value in form.multi_items():
        given = value if isinstance(value, str) else Upload(value.filename or "", value.file.read())
        fields.setdefault(name, []).append(given)
    return _joined(fields)


def _joined(fields: Mapping[str, list[Any]]) -> dict[str, Any]:
    return {name: given if len(given) > 1 else given[0] for name, given in fields.items()}


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
