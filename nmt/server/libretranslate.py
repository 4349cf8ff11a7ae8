"""The dialect of LibreTranslate, after its documentation (https://docs.libretranslate.com/api)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nmt.server.errors import RequestError
from nmt.server.exchange import Dialect, Parameters, Server
from nmt.server.layout import Layout
from nmt.server.service import warning
from nmt.text.languages import name_of

DIALECT = Dialect(
    "libretranslate", lambda request, parameters: parameters.text("api_key"), lambda error: {"error": error.message}
)

_REFUSED = {"/translate_file": "Files cannot be translated", "/suggest": "Suggestions are not taken"}


class Translating(BaseModel):
    """What to translate."""

    q: str | list[str] = Field(description="A text, or several.", examples=["Good morning!"])
    source: str = Field(description="Language code of the text, or `auto`.", examples=["en"])
    target: str = Field(description="Language code of the translation.", examples=["de"])
    alternatives: int = Field(0, ge=0, description="The number of further translations, if the beam has so many.")
    api_key: str | None = Field(None, description="The API key, if the server needs one.")


class LibreTranslateRequest(Translating):
    """What to translate, and what of it."""

    format: Literal["text", "html"] = Field("text", description="Whether tags are left alone.")


class DetectRequest(BaseModel):
    """A text in an unknown language."""

    q: str = Field(description="The text.", examples=["Good morning!"])
    api_key: str | None = Field(None, description="The API key, if the server needs one.")


def routes(server: Server) -> list[Route]:
    """What a client of LibreTranslate asks for."""
    dialect = LibreTranslate(server)
    open_to_all = {"/languages": dialect.languages, "/frontend/settings": dialect.settings, "/health": dialect.health}
    asked = {"/detect": dialect.detect}
    return [
        *(Route(path, DIALECT.endpoint(server, handler, is_open=True)) for path, handler in open_to_all.items()),
        *(Route(path, DIALECT.endpoint(server, handler), methods=["POST"]) for path, handler in asked.items()),
        *(Route(path, _refuse, methods=["POST"]) for path in _REFUSED),
    ]


class LibreTranslate:
    """Answers its requests."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._service = server.service

    async def translate(self, request: Request, parameters: Parameters) -> Response:
        """``POST /translate``."""
        asked = parameters.read(LibreTranslateRequest)
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        self._server.limits.check(texts)
        is_html = asked.format == "html"
        source = None if asked.source == "auto" else asked.source
        found = await self._service.identify(texts, source, asked.target, is_html=is_html)
        translated = await self._service.translate(
            [one.direction for one in found],
            texts,
            Layout.of_html if is_html else Layout.of,
            candidates=asked.alternatives + 1,
            owner=parameters.owner,
        )
        answer: dict[str, Any] = {"translatedText": [each.candidates[0] for each in translated]}
        if source is None:
            answer["detectedLanguage"] = [
                {"confidence": _percent(one.probability), "language": one.direction.source} for one in found
            ]
        if asked.alternatives:
            answer["alternatives"] = [each.candidates[1:] for each in translated]
        if isinstance(asked.q, str):
            answer = {name: values[0] for name, values in answer.items()}
        return JSONResponse(answer | warning(found, translated))

    async def detect(self, request: Request, parameters: Parameters) -> Response:
        """``POST /detect``."""
        asked = parameters.read(DetectRequest)
        self._server.limits.check([asked.q])
        found = await self._service.detector.detect(asked.q)
        return JSONResponse(
            [{"confidence": _percent(probability), "language": language} for language, probability in found]
        )

    async def languages(self, request: Request, parameters: Parameters) -> Response:
        """``GET /languages``: also the languages that are only targets, since clients look for both here."""
        sources = self._service.models.sources
        return JSONResponse(
            [
                {"code": code, "name": name_of(code), "targets": sources.get(code, [])}
                for code in self._service.models.languages
            ]
        )

    async def settings(self, request: Request, parameters: Parameters) -> Response:
        """``GET /frontend/settings``: what its web page asks for."""
        models, keys = self._service.models, self._server.access.keys
        first = models.targets[0]
        return JSONResponse(
            {
                "apiKeys": bool(keys),
                "charLimit": self._server.limits.max_characters,
                "filesTranslation": False,
                "frontendTimeout": 500,
                "keyRequired": bool(keys),
                "language": {
                    "source": {"code": "auto", "name": "Auto Detect"},
                    "target": {"code": first, "name": name_of(first)},
                },
                "suggestions": False,
                "supportedFilesFormat": [],
            }
        )

    async def health(self, request: Request, parameters: Parameters) -> Response:
        """``GET /health``."""
        return JSONResponse({"status": "ok"})


async def _refuse(request: Request) -> Response:
    """Refuse what LibreTranslate has and this server does not, before it is read: it may be a large file."""
    what = _REFUSED[request.url.path]
    return DIALECT.refusal(RequestError(403, f"{what} by this server: send the text to /translate."))


def _percent(probability: float) -> float:
    return round(100 * probability, 1)
