"""The dialect of LibreTranslate, after its documentation (https://docs.libretranslate.com/api)."""

from __future__ import annotations

import asyncio
from typing import Literal

from pydantic import BaseModel, Field

from nmt.server.errors import RequestError
from nmt.server.exchange import Dialect, NoParameters, Operation, Server
from nmt.server.service import warning
from nmt.text.languages import name_of

DIALECT = Dialect(
    "libretranslate", lambda request, parameters: parameters.text("api_key"), lambda error: {"error": error.message}
)


class Translating(BaseModel):
    """What to translate."""

    q: str | list[str] = Field(description="A text, or several.", examples=["Good morning!"])
    source: str = Field(description="Language code of the text, or `auto`.", examples=["en"])
    target: str = Field(description="Language code of the translation.", examples=["de"])
    alternatives: int = Field(0, ge=0, description="The number of further translations, if the beam has so many.")
    api_key: str | None = Field(None, description="The API key, if the server needs one.")

    @property
    def source_or_none(self) -> str | None:
        """The language of the text; None if it is to be identified."""
        return None if self.source == "auto" else self.source


class LibreTranslateRequest(Translating):
    """What to translate, and what of it."""

    format: Literal["text", "html"] = Field("text", description="Whether tags are left alone.")


class DetectRequest(BaseModel):
    """A text in an unknown language."""

    q: str = Field(description="The text.", examples=["Good morning!"])
    api_key: str | None = Field(None, description="The API key, if the server needs one.")


async def _translate(server: Server, asked: LibreTranslateRequest, owner: str | None) -> object:
    texts = [asked.q] if isinstance(asked.q, str) else asked.q
    server.limits.check(texts)
    translated = await server.service.translate(
        texts,
        asked.source_or_none,
        asked.target,
        html=() if asked.format == "html" else None,
        candidates=asked.alternatives + 1,
        owner=owner,
    )
    answer: dict[str, list[object]] = {"translatedText": [each.candidates[0] for each in translated]}
    if asked.source_or_none is None:
        answer["detectedLanguage"] = [
            {"confidence": _percent(each.found.probability), "language": each.found.direction.source}
            for each in translated
        ]
    if asked.alternatives:
        answer["alternatives"] = [each.candidates[1:] for each in translated]
    shaped = answer if asked.q is texts else {name: values[0] for name, values in answer.items()}
    return shaped | warning(translated)


async def _detect(server: Server, asked: DetectRequest, owner: str | None) -> object:
    server.limits.check([asked.q])
    found = await asyncio.to_thread(server.service.detector.ranked, asked.q)
    return [{"confidence": _percent(probability), "language": language} for language, probability in found]


async def _languages(server: Server, asked: NoParameters, owner: str | None) -> object:
    """Also the languages that are only targets, since clients look for both here."""
    models = server.service.models
    return [{"code": code, "name": name_of(code), "targets": models.sources.get(code, [])} for code in models.languages]


async def _settings(server: Server, asked: NoParameters, owner: str | None) -> object:
    """What LibreTranslate's web page asks for."""
    first, needs_key = server.service.models.targets[0], bool(server.access.keys)
    return {
        "apiKeys": needs_key,
        "charLimit": server.limits.max_characters,
        "filesTranslation": False,
        "frontendTimeout": 500,
        "keyRequired": needs_key,
        "language": {
            "source": {"code": "auto", "name": "Auto Detect"},
            "target": {"code": first, "name": name_of(first)},
        },
        "suggestions": False,
        "supportedFilesFormat": [],
    }


async def _health(server: Server, asked: NoParameters, owner: str | None) -> object:
    return {"status": "ok"}


async def _no_files(server: Server, asked: NoParameters, owner: str | None) -> object:
    raise RequestError(403, "Files cannot be translated by this server: send the text to /translate.")


async def _no_suggestions(server: Server, asked: NoParameters, owner: str | None) -> object:
    raise RequestError(403, "Suggestions are not taken by this server: send the text to /translate.")


def _percent(probability: float) -> float:
    return round(100 * probability, 1)


TRANSLATE = Operation(DIALECT, "POST", "/translate", _translate, LibreTranslateRequest, "Translate texts")
OPERATIONS = (
    TRANSLATE,
    Operation(DIALECT, "POST", "/detect", _detect, DetectRequest, "Identify a language"),
    Operation(DIALECT, "GET", "/languages", _languages, summary="List the languages", is_open=True),
    Operation(DIALECT, "GET", "/frontend/settings", _settings, summary="Settings of a page", is_open=True),
    Operation(DIALECT, "GET", "/health", _health, summary="Whether the server answers", is_open=True),
    # Refused before they are read: a file may be large.
    Operation(DIALECT, "POST", "/translate_file", _no_files, is_open=True),
    Operation(DIALECT, "POST", "/suggest", _no_suggestions, is_open=True),
)
