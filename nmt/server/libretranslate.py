"""The dialect of LibreTranslate, after its documentation (https://docs.libretranslate.com/api)."""

from __future__ import annotations

import asyncio
from pathlib import PurePath
from typing import Annotated, Literal

from pydantic import BaseModel, Field
from starlette.responses import Response

from nmt.documents.formats import ENDINGS
from nmt.documents.html import Tags
from nmt.server.documents import MEDIA_TYPE
from nmt.server.errors import RequestError
from nmt.server.exchange import Caller, Dialect, File, NoParameters, Operation, Server
from nmt.server.service import warning
from nmt.text.languages import name_of

DIALECT = Dialect(
    "libretranslate", lambda request, parameters: parameters.text("api_key"), lambda error: {"error": error.message}
)
Source = Annotated[str, Field(description="Language code of the text, or `auto`.", examples=["en"])]
Target = Annotated[str, Field(description="Language code of the translation.", examples=["de"])]
Key = Annotated[str | None, Field(description="The API key, if the server needs one.")]


def known(source: str) -> str | None:
    """The language of a text; None if it is to be identified."""
    return None if source == "auto" else source


class Translating(BaseModel):
    """What to translate."""

    q: str | list[str] = Field(description="A text, or several.", examples=["Good morning!"])
    source: Source
    target: Target
    alternatives: int = Field(0, ge=0, description="The number of further translations, if the beam has so many.")
    api_key: Key = None


class LibreTranslateRequest(Translating):
    """What to translate, and what of it."""

    format: Literal["text", "html"] = Field("text", description="Whether tags are left alone.")


class FileRequest(BaseModel):
    """A document to translate."""

    file: File = Field(description="The document. The ending of its name says its format.")
    source: Source
    target: Target
    api_key: Key = None


class DownloadRequest(BaseModel):
    """A translated document."""

    name: str = Field(description="Its name, from the answer to `/translate_file`.")


class DetectRequest(BaseModel):
    """A text in an unknown language."""

    q: str = Field(description="The text.", examples=["Good morning!"])
    api_key: Key = None


async def _translate(server: Server, asked: LibreTranslateRequest, caller: Caller) -> object:
    texts = [asked.q] if isinstance(asked.q, str) else asked.q
    server.limits.check(texts)
    translated = await server.service.translate(
        texts,
        known(asked.source),
        asked.target,
        tags=Tags() if asked.format == "html" else None,
        candidates=asked.alternatives + 1,
        owner=caller.key,
    )
    answer: dict[str, list[object]] = {"translatedText": [each.candidates[0] for each in translated]}
    if known(asked.source) is None:
        answer["detectedLanguage"] = [
            {"confidence": _percent(each.found.probability), "language": each.found.direction.source}
            for each in translated
        ]
    if asked.alternatives:
        answer["alternatives"] = [each.candidates[1:] for each in translated]
    shaped = answer if asked.q is texts else {name: values[0] for name, values in answer.items()}
    return shaped | warning(translated)


async def _translate_file(server: Server, asked: FileRequest, caller: Caller) -> object:
    """Answered when the document is translated: the client does nothing but wait."""
    kept = server.documents.add(asked.file, known(asked.source), asked.target, caller.key)
    try:
        await kept.task
    finally:
        if kept.content is None:
            server.documents.drop(kept)
    if kept.error is not None:
        raise kept.error
    return {"translatedFileUrl": f"{caller.address}download_file/{kept.id}{PurePath(kept.name).suffix}"}


async def _download_file(server: Server, asked: DownloadRequest, caller: Caller) -> Response:
    kept = server.documents.find(asked.name.partition(".")[0])
    if kept.content is None:
        raise RequestError(404, "Not found: this document is not translated yet.")
    kept.is_fetched = True
    return kept.response()


async def _detect(server: Server, asked: DetectRequest, caller: Caller) -> object:
    server.limits.check([asked.q])
    found = await asyncio.to_thread(server.service.detector.ranked, asked.q)
    return [{"confidence": _percent(probability), "language": language} for language, probability in found]


async def _languages(server: Server, asked: NoParameters, caller: Caller) -> object:
    """Also the languages that are only targets, since clients look for both here."""
    models = server.service.models
    return [{"code": code, "name": name_of(code), "targets": models.sources.get(code, [])} for code in models.languages]


async def _settings(server: Server, asked: NoParameters, caller: Caller) -> object:
    """What LibreTranslate's web page asks for."""
    first, needs_key = server.service.models.targets[0], bool(server.access.keys)
    return {
        "apiKeys": needs_key,
        "charLimit": server.limits.max_characters,
        "filesTranslation": True,
        "frontendTimeout": 500,
        "keyRequired": needs_key,
        "language": {
            "source": {"code": "auto", "name": "Auto Detect"},
            "target": {"code": first, "name": name_of(first)},
        },
        "suggestions": False,
        "supportedFilesFormat": ENDINGS,
    }


async def _health(server: Server, asked: NoParameters, caller: Caller) -> object:
    return {"status": "ok"}


async def _no_suggestions(server: Server, asked: NoParameters, caller: Caller) -> object:
    raise RequestError(403, "Suggestions are not taken by this server: send the text to /translate.")


def _percent(probability: float) -> float:
    return round(100 * probability, 1)


TRANSLATE = Operation(DIALECT, "POST", "/translate", _translate, LibreTranslateRequest, "Translate texts")
OPERATIONS = (
    TRANSLATE,
    Operation(DIALECT, "POST", "/translate_file", _translate_file, FileRequest, "Translate a document"),
    Operation(
        DIALECT,
        "GET",
        "/download_file/{name}",
        _download_file,
        DownloadRequest,
        "Fetch a translated document",
        media_type=MEDIA_TYPE,
        is_open=True,  # clients send no key here; nobody can guess the name
    ),
    Operation(DIALECT, "POST", "/detect", _detect, DetectRequest, "Identify a language"),
    Operation(DIALECT, "GET", "/languages", _languages, summary="List the languages", is_open=True),
    Operation(DIALECT, "GET", "/frontend/settings", _settings, summary="Settings of a page", is_open=True),
    Operation(DIALECT, "GET", "/health", _health, summary="Whether the server answers", is_open=True),
    Operation(DIALECT, "POST", "/suggest", _no_suggestions, is_open=True),
)
