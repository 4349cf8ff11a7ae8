"""The dialect of Apertium's web service APy (https://wiki.apertium.org/wiki/Apertium-apy)."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Literal

from pydantic import BaseModel, Field

from nmt.server.errors import RequestError
from nmt.server.exchange import Caller, Dialect, NoParameters, Operation, Server
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


async def _translate(server: Server, asked: TranslateRequest, caller: Caller) -> object:
    server.limits.check([asked.q])
    source, _, target = asked.langpair.partition("|")
    translated = await server.service.translate([asked.q], source, target, owner=caller.key)
    return _answer({"translatedText": translated[0].candidates[0]}) | warning(translated)


async def _pairs(server: Server, asked: NoParameters, caller: Caller) -> object:
    sources = server.service.models.sources.items()
    return _answer([{"sourceLanguage": one, "targetLanguage": other} for one, targets in sources for other in targets])


def _answer(data: object) -> dict[str, object]:
    return {"responseData": data, "responseDetails": None, "responseStatus": 200}


TRANSLATE = Operation(DIALECT, "GET", "/translate", _translate, TranslateRequest, "Translate a text")
OPERATIONS = (
    TRANSLATE,
    Operation(DIALECT, "GET", "/listPairs", _pairs, summary="List the language pairs", is_open=True),
)
