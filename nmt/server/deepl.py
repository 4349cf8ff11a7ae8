"""The dialect of DeepL's API, after its description (https://github.com/DeepLcom/openapi)."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, field_validator, model_validator
from starlette.requests import Request
from starlette.responses import Response

from nmt.documents.html import Tags
from nmt.server.documents import MEDIA_TYPE, Kept, Upload
from nmt.server.errors import MissingError, RequestError, UnknownLanguageError
from nmt.server.exchange import Caller, Dialect, File, NoParameters, Operation, Parameters, Server
from nmt.server.layout import Newlines
from nmt.server.service import warning
from nmt.spans.terms import Glossary
from nmt.text.languages import name_of
from nmt.translation.options import SplitSentences

_SCHEME = "DeepL-Auth-Key "
_SPLITTING: dict[str, tuple[Newlines, SplitSentences | None]] = {
    "": ("end", None),
    "0": ("wrap", "never"),
    "1": ("end", "always"),
    "nonewlines": ("wrap", "always"),
}
"""``split_sentences``: what a newline does, and whether lines are split into sentences."""
_NOT_SUPPORTED = ("glossary_ids", "style_id", "translation_memory_id", "custom_instructions")
"""Parameters that would change the translation; what only helps it, such as ``context``, is ignored."""
_NO_LIMIT = 1_000_000_000_000
"""The limit of characters that ``/v2/usage`` names: there is none."""


def _key(request: Request, parameters: Parameters) -> str | None:
    header = request.headers.get("authorization", "")
    return header.removeprefix(_SCHEME) if header.startswith(_SCHEME) else parameters.text("auth_key")


def _refused(error: RequestError) -> dict[str, Any]:
    message = error.message
    if isinstance(error, MissingError):
        message = f"Value for '{error.name}' not specified."
    elif isinstance(error, UnknownLanguageError):
        message = f"Value for '{'target_lang' if error.of_target else 'source_lang'}' not supported."
    return {"message": message}


DIALECT = Dialect("deepl", _key, _refused)


class Translating(BaseModel):
    """How to translate."""

    target_lang: str = Field(description="Language of the translation.", examples=["DE"])
    source_lang: str | None = Field(None, description="Language of the texts; identified if it is left out.")
    glossary_id: str | None = Field(None, description="A glossary for `source_lang`, which must be given.")
    formality: Literal["default", "more", "less", "prefer_more", "prefer_less"] = "default"

    @model_validator(mode="before")
    @classmethod
    def _supported(cls, given: dict[str, object]) -> dict[str, object]:
        for name in _NOT_SUPPORTED:
            if given.get(name):
                raise RequestError(400, f"'{name}' is not supported by this server: leave it out.")
        return given

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.formality in ("more", "less"):
            raise RequestError(400, "'formality' is not supported for given 'target_lang'.")
        return self


class DeepLRequest(Translating):
    """What to translate."""

    text: list[str] = Field(description="The texts.", min_length=1, examples=[["Good morning!"]])
    split_sentences: Literal["0", "1", "nonewlines"] | None = Field(
        None, description="Whether a line, or a paragraph, is split into sentences."
    )
    tag_handling: Literal["xml", "html"] | None = Field(None, description="Whether tags are left alone.")
    ignore_tags: list[str] = Field([], description="Names of elements whose content stays as it is.")
    splitting_tags: list[str] = Field([], description="Names of tags between which a text is complete.")
    non_splitting_tags: list[str] = Field([], description="Names of tags that do not end a text.")
    outline_detection: bool = Field(True, description="Whether tags such as `p` end a text.")
    show_billed_characters: bool = False
    model_type: Literal["quality_optimized", "prefer_quality_optimized", "latency_optimized"] | None = Field(
        None, description="Only repeated in the answer: there is one model for each direction."
    )

    @field_validator("text", "ignore_tags", "splitting_tags", "non_splitting_tags", mode="before")
    @classmethod
    def _several(cls, text: object) -> object:
        return [text] if isinstance(text, str) else text

    @field_validator("split_sentences", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> object:
        return str(int(value)) if isinstance(value, int) else value

    @property
    def tags(self) -> Tags | None:
        """What the tags of the texts mean; None for texts without tags."""
        if self.tag_handling is None:
            return None
        splitting = (Tags.splitting if self.outline_detection else frozenset()) | _names(self.splitting_tags)
        return Tags(splitting - _names(self.non_splitting_tags), Tags.kept | _names(self.ignore_tags))


def _names(given: Sequence[str]) -> frozenset[str]:
    return frozenset(name.strip().lower() for names in given for name in names.split(","))


class LanguagesRequest(BaseModel):
    """Which languages to list."""

    type: Literal["source", "target"] = Field("source", examples=["target"])


class DocumentRequest(Translating):
    """A document to translate."""

    file: File = Field(description="The document.")
    filename: str | None = Field(None, description="Its name, whose ending says its format.")
    output_format: str | None = Field(None, description="The ending of the translation's name: that of the document.")


class SentDocument(BaseModel):
    """A document that was sent."""

    document_id: str
    document_key: str = Field(description="From the answer to `/v2/document`.")


async def _translate(server: Server, asked: DeepLRequest, caller: Caller) -> object:
    server.limits.check(asked.text)
    newlines, split = _SPLITTING[asked.split_sentences or ""]
    translated = await server.service.translate(
        asked.text,
        asked.source_lang,
        asked.target_lang,
        tags=asked.tags,
        newlines=newlines,
        split=split,
        owner=caller.key,
        glossary=await _glossary(server, asked, caller),
    )
    server.deepl_characters += sum(map(len, asked.text))
    translations = [
        {
            "detected_source_language": each.found.direction.source.partition("-")[0].upper(),
            "text": each.candidates[0],
            **({"billed_characters": len(text)} if asked.show_billed_characters else {}),
            **({"model_type_used": asked.model_type.removeprefix("prefer_")} if asked.model_type else {}),
        }
        for text, each in zip(asked.text, translated, strict=True)
    ]
    return {"translations": translations, **warning(translated)}


async def _glossary(server: Server, asked: Translating, caller: Caller) -> Glossary | None:
    if asked.glossary_id is None:
        return None
    if asked.source_lang is None:
        raise MissingError("source_lang")
    direction = server.service.models.find(asked.source_lang, asked.target_lang)
    kept = server.glossaries.find(asked.glossary_id, caller.key)
    dictionary = kept.find(direction.source, direction.target, status=400)
    # Indexing a large one takes seconds, in which the server answers others.
    return await asyncio.to_thread(lambda: dictionary.terms)


async def _send_document(server: Server, asked: DocumentRequest, caller: Caller) -> object:
    upload = Upload(asked.filename or asked.file.name, asked.file.content)
    ending = PurePath(upload.name).suffix.lower().removeprefix(".")
    if asked.output_format and asked.output_format.lower() != ending:
        raise RequestError(
            400,
            f"'output_format' must be that of the document, {ending}: this server does not convert documents.",
        )
    glossary = await _glossary(server, asked, caller)
    kept = server.documents.add(upload, asked.source_lang, asked.target_lang, caller.key, glossary)

    def count(task: object) -> None:
        server.deepl_characters += kept.translated

    kept.task.add_done_callback(count)
    return {"document_id": kept.id, "document_key": kept.key}


def _document(server: Server, asked: SentDocument, caller: Caller) -> Kept:
    kept = server.documents.find(asked.document_id)
    if kept.owner != caller.key or not hmac.compare_digest(kept.key.encode(), asked.document_key.encode()):
        raise RequestError(404, "Not found: 'document_key' is not that of the document.")
    return kept


async def _document_status(server: Server, asked: SentDocument, caller: Caller) -> object:
    kept = _document(server, asked, caller)
    answer: dict[str, object] = {"document_id": kept.id, "status": kept.status}
    if kept.status == "translating":
        answer["seconds_remaining"] = kept.seconds_remaining
    elif kept.status == "done":
        answer["billed_characters"] = kept.characters
    elif kept.error is not None:
        answer["error_message"] = kept.error.message
    return answer


async def _fetch_document(server: Server, asked: SentDocument, caller: Caller) -> Response:
    """Once, as with DeepL."""
    kept = _document(server, asked, caller)
    if kept.error is not None:
        raise kept.error
    if kept.content is None:
        raise RequestError(503, "The document is not translated yet.", retry_after=1)
    server.documents.drop(kept)
    return kept.response()


async def _languages(server: Server, asked: LanguagesRequest, caller: Caller) -> object:
    models, is_target = server.service.models, asked.type == "target"
    more = {"supports_formality": False} if is_target else {}
    codes = models.targets if is_target else models.sources
    return [{"language": code.upper(), "name": name_of(code), **more} for code in codes]


async def _usage(server: Server, asked: NoParameters, caller: Caller) -> object:
    """The characters that this server has translated since it began."""
    return {"character_count": server.deepl_characters, "character_limit": _NO_LIMIT}


OPERATIONS = (
    Operation(DIALECT, "POST", "/v2/translate", _translate, DeepLRequest, "Translate texts"),
    Operation(DIALECT, "POST", "/v2/document", _send_document, DocumentRequest, "Translate a document"),
    Operation(
        DIALECT, "POST", "/v2/document/{document_id}", _document_status, SentDocument, "What becomes of a document"
    ),
    Operation(
        DIALECT,
        "POST",
        "/v2/document/{document_id}/result",
        _fetch_document,
        SentDocument,
        "Fetch a translated document, once",
        media_type=MEDIA_TYPE,
    ),
    Operation(DIALECT, "GET POST", "/v2/languages", _languages, LanguagesRequest, "List the languages"),
    Operation(DIALECT, "GET POST", "/v2/usage", _usage, summary="Count the translated characters"),
)
