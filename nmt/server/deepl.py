"""The dialect of DeepL's API, version 2, after its description (https://github.com/DeepLcom/openapi)."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from pydantic import BaseModel, Field, field_validator
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nmt.server.errors import MissingError, RequestError, UnknownLanguageError
from nmt.server.exchange import Dialect, Parameters, Server
from nmt.server.layout import Layout, Newlines
from nmt.server.service import warning
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
_NOT_SUPPORTED = (
    *("glossary_id", "glossary_ids", "style_id", "translation_memory_id", "custom_instructions"),
    *("splitting_tags", "non_splitting_tags"),
)
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


class DeepLRequest(BaseModel):
    """What to translate."""

    text: list[str] = Field(description="The texts.", min_length=1, examples=[["Good morning!"]])
    target_lang: str = Field(description="Language of the translation.", examples=["DE"])
    source_lang: str | None = Field(None, description="Language of the texts; identified if it is left out.")
    split_sentences: Literal["0", "1", "nonewlines"] | None = Field(
        None, description="Whether a line, or a paragraph, is split into sentences."
    )
    tag_handling: Literal["xml", "html"] | None = Field(None, description="Whether tags are left alone.")
    ignore_tags: list[str] = Field([], description="Names of elements whose content stays as it is.")
    outline_detection: bool = True
    formality: Literal["default", "more", "less", "prefer_more", "prefer_less"] = "default"
    show_billed_characters: bool = False

    @field_validator("text", "ignore_tags", mode="before")
    @classmethod
    def _several(cls, text: object) -> object:
        return [text] if isinstance(text, str) else text

    @field_validator("split_sentences", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> object:
        return str(int(value)) if isinstance(value, int) else value


class LanguagesRequest(BaseModel):
    """Which languages to list."""

    type: Literal["source", "target"] = Field("source", examples=["target"])


def routes(server: Server) -> list[Route]:
    """What a client of DeepL asks for."""
    dialect = DeepL(server)
    asked = {"/v2/translate": dialect.translate, "/v2/languages": dialect.languages, "/v2/usage": dialect.usage}
    methods = {"/v2/translate": ["POST"]}
    return [
        Route(path, DIALECT.endpoint(server, handler), methods=methods.get(path, ["GET", "POST"]))
        for path, handler in asked.items()
    ]


class DeepL:
    """Answers its requests."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._service = server.service
        self._characters = 0

    async def translate(self, request: Request, parameters: Parameters) -> Response:
        """``POST /v2/translate``."""
        for name in _NOT_SUPPORTED:
            if parameters.get(name):
                raise RequestError(400, f"'{name}' is not supported by this server: leave it out.")
        asked = parameters.read(DeepLRequest)
        self._server.limits.check(asked.text)
        if not asked.outline_detection:
            raise RequestError(400, "'outline_detection' is not supported by this server: leave it out.")
        if asked.formality in ("more", "less"):
            raise RequestError(400, "'formality' is not supported for given 'target_lang'.")
        newlines, split = _SPLITTING[asked.split_sentences or ""]
        found = await self._service.identify(
            asked.text, asked.source_lang, asked.target_lang, is_html=asked.tag_handling is not None
        )
        ignored = frozenset(name.strip().lower() for names in asked.ignore_tags for name in names.split(","))
        of_html, of_text = partial(Layout.of_html, kept=ignored), partial(Layout.of, newlines=newlines)
        divided = of_html if asked.tag_handling else of_text
        directions = [one.direction for one in found]
        translated = await self._service.translate(directions, asked.text, divided, split=split, owner=parameters.owner)
        self._characters += sum(map(len, asked.text))
        translations: list[dict[str, Any]] = [
            {"detected_source_language": direction.source.partition("-")[0].upper(), "text": each.candidates[0]}
            for direction, each in zip(directions, translated, strict=True)
        ]
        if asked.show_billed_characters:
            for translation, text in zip(translations, asked.text, strict=True):
                translation["billed_characters"] = len(text)
        return JSONResponse({"translations": translations} | warning(found, translated))

    async def languages(self, request: Request, parameters: Parameters) -> Response:
        """``/v2/languages``."""
        kind = parameters.read(LanguagesRequest).type
        models = self._service.models
        codes = list(models.sources) if kind == "source" else models.targets
        languages: list[dict[str, Any]] = [{"language": code.upper(), "name": name_of(code)} for code in codes]
        if kind == "target":
            languages = [{**language, "supports_formality": False} for language in languages]
        return JSONResponse(languages)

    async def usage(self, request: Request, parameters: Parameters) -> Response:
        """``/v2/usage``: the characters that this server has translated since it began."""
        return JSONResponse({"character_count": self._characters, "character_limit": _NO_LIMIT})
