"""The dialect of Apertium's web service APy (https://wiki.apertium.org/wiki/Apertium-apy)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Literal

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nmt.server.errors import RequestError
from nmt.server.exchange import Dialect, Parameters, Server
from nmt.server.service import warning


def _refused(error: RequestError) -> dict[str, Any]:
    return {
        "status": "error",
        "code": error.status,
        "message": HTTPStatus(error.status).phrase,
        "explanation": error.message,
    }


DIALECT = Dialect("apertium", lambda request, parameters: parameters.text("key"), _refused)


class TranslateRequest(BaseModel):
    """What to translate."""

    q: str = Field(description="The text.", examples=["Good morning!"])
    langpair: str = Field(description="Source and target language.", examples=["en|de"], pattern=r"^[^|]+\|[^|]+$")
    format: Literal["txt", "text"] = Field("txt", description="Of the text: it has no markup.", examples=["txt"])


def routes(server: Server) -> list[Route]:
    """What a client of Apertium asks for."""
    dialect = Apertium(server)
    return [Route("/listPairs", DIALECT.endpoint(server, dialect.pairs, is_open=True))]


class Apertium:
    """Answers its requests."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._service = server.service

    async def translate(self, request: Request, parameters: Parameters) -> Response:
        """``/translate?q=…&langpair=en|de``."""
        asked = parameters.read(TranslateRequest)
        self._server.limits.check([asked.q])
        source, _, target = asked.langpair.partition("|")
        [found] = await self._service.identify([asked.q], source, target)
        translated = await self._service.translate([found.direction], [asked.q], owner=parameters.owner)
        return _answer({"translatedText": translated[0].candidates[0]}, **warning([found], translated))

    async def pairs(self, request: Request, parameters: Parameters) -> Response:
        """``/listPairs``."""
        sources = self._service.models.sources
        return _answer(
            [
                {"sourceLanguage": source, "targetLanguage": target}
                for source, targets in sources.items()
                for target in targets
            ]
        )


def _answer(data: Any, **more: str) -> Response:
    return JSONResponse({"responseData": data, "responseDetails": None, "responseStatus": 200, **more})
