"""The dialect of Apertium's web service APy (https://wiki.apertium.org/wiki/Apertium-apy)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Literal

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nmt.serve.errors import RequestError
from nmt.serve.exchange import Dialect, Parameters, Server
from nmt.serve.service import warning


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


class TranslatedText(BaseModel):
    """A translation."""

    translated_text: str = Field(alias="translatedText")


class TranslateResponse(BaseModel):
    """The translation of the text."""

    response_data: TranslatedText = Field(alias="responseData")
    response_details: None = Field(alias="responseDetails")
    response_status: Literal[200] = Field(alias="responseStatus")
    warning: str | None = Field(None, description="That the text is in another language than the source.")


class Pair(BaseModel):
    """Two languages."""

    source_language: str = Field(alias="sourceLanguage")
    target_language: str = Field(alias="targetLanguage")


class Pairs(BaseModel):
    """What the server translates."""

    response_data: list[Pair] = Field(alias="responseData")
    response_details: None = Field(alias="responseDetails")
    response_status: Literal[200] = Field(alias="responseStatus")


class ApertiumError(BaseModel):
    """Why there is no translation."""

    status: Literal["error"]
    code: int
    message: str
    explanation: str


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
        [[text, *_]] = await self._service.translate([found.direction], [asked.q], owner=parameters.owner)
        return _answer({"translatedText": text}, **warning([found]))

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
