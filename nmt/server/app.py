"""The web application: the dialects, the page for people, and what operators ask for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from nmt.server import apertium, deepl, deepl_glossaries, libretranslate, metrics, streaming
from nmt.server.errors import RequestError, ShuttingDownError
from nmt.server.exchange import Caller, Dialect, NoParameters, Operation, Parameters, Server
from nmt.server.specification import specification

_BEARER = "Bearer "
_LONGEST_SHOWN = 100
"""Characters of an unknown path in an error."""
_FILES = {"": "page.html", "page.css": "page.css", "page.js": "page.js"}
"""Path -> file, of the page for people."""
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def _bearer(request: Request, parameters: Parameters) -> str | None:
    header = request.headers.get("authorization", "")
    return header.removeprefix(_BEARER) if header.startswith(_BEARER) else None


OPERATORS = Dialect("operators", _bearer, lambda error: {"error": error.message})


async def _live(server: Server, asked: NoParameters, caller: Caller) -> object:
    return {"status": "ok"}


async def _ready(server: Server, asked: NoParameters, caller: Caller) -> object:
    if server.is_ending():
        raise ShuttingDownError
    if server.service.pool.seconds > server.limits.seconds:
        raise RequestError(503, "A model does not answer.")
    return {"status": "ok"}


async def _measured(server: Server, asked: NoParameters, caller: Caller) -> object:
    return Response(server.service.metrics.text(), media_type=metrics.CONTENT_TYPE)


async def _specified(server: Server, asked: NoParameters, caller: Caller) -> object:
    return specification(OPERATIONS)


OPERATIONS = (
    *libretranslate.OPERATIONS,
    streaming.STREAM,
    *deepl.OPERATIONS,
    *deepl_glossaries.OPERATIONS,
    *apertium.OPERATIONS,
    Operation(OPERATORS, "GET", "/health/live", _live, is_open=True),
    Operation(OPERATORS, "GET", "/health/ready", _ready, is_open=True),
    Operation(OPERATORS, "GET", "/metrics", _measured),
    Operation(OPERATORS, "GET", "/spec", _specified, is_open=True),
)


def application(server: Server) -> Starlette:
    """The application."""
    routes = [
        _translate(server),
        *(one.route(server) for one in OPERATIONS if one.path != "/translate"),
        *(Route(f"/{path}", _file(name)) for path, name in _FILES.items()),
    ]
    middleware = []
    if origins := list(server.access.origins):
        every = ["*"]
        middleware.append(Middleware(CORSMiddleware, allow_origins=origins, allow_methods=every, allow_headers=every))
    app = Starlette(routes=routes, middleware=middleware, exception_handlers={HTTPException: _not_here})
    app.router.redirect_slashes = False  # it would redirect to any Host that a request names
    return app


def _translate(server: Server) -> Route:
    """``/translate`` of two dialects: Apertium's requests are GET, or name a ``langpair``."""
    of_apertium, of_libretranslate = apertium.TRANSLATE.endpoint(server), libretranslate.TRANSLATE.endpoint(server)

    async def translate(request: Request) -> Response:
        if request.method != "POST" or b"&langpair=" in b"&" + request.scope["query_string"]:
            return await of_apertium(request)
        return await of_libretranslate(request)

    return Route("/translate", translate, methods=["GET", "POST"])


async def _not_here(request: Request, error: Exception) -> Response:
    """The answer to a wrong path or method, in the words of the dialect that the path belongs to."""
    assert isinstance(error, HTTPException)
    dialect = deepl.DIALECT if request.url.path.startswith(("/v2/", "/v3/")) else libretranslate.DIALECT
    message = f"{error.detail}: {request.method} {request.url.path[:_LONGEST_SHOWN]}"
    response = dialect.refusal(RequestError(error.status_code, message))
    response.headers.update(error.headers or {})
    return response


def _file(name: str) -> Callable[[Request], Response]:
    content = (resources.files("nmt.server") / "page" / name).read_text("utf-8")
    media_type = _TYPES[name.rpartition(".")[2]]

    def answer(request: Request) -> Response:
        return PlainTextResponse(content, media_type=media_type, headers=_PAGE_HEADERS)

    return answer
