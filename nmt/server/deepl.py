"""The dialect of DeepL's API, version 2, after its description (https://github.com/DeepLcom/openapi)."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, Field, field_validator, model_validator
from starlette.requests import Request

from nmt.server.errors import MissingError, RequestError, UnknownLanguageError
from nmt.server.exchange import Caller, Dialect, NoParameters, Operation, Parameters, Server
from nmt.server.layout import Newlines
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

    @model_validator(mode="before")
    @classmethod
    def _supported(cls, given: dict[str, object]) -> dict[str, object]:
        for name in _NOT_SUPPORTED:
            if given.get(name):
                raise RequestError(400, f"'{name}' is not supported by this server: leave it out.")
        return given

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if not self.outline_detection:
            raise RequestError(400, "'outline_detection' is not supported by this server: leave it out.")
        if self.formality in ("more", "less"):
            raise RequestError(400, "'formality' is not supported for given 'target_lang'.")
        return self

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


async def _translate(server: Server, asked: DeepLRequest, caller: Caller) -> object:
    server.limits.check(asked.text)
    newlines, split = _SPLITTING[asked.split_sentences or ""]
    ignored = frozenset(name.strip().lower() for names in asked.ignore_tags for name in names.split(","))
    translated = await server.service.translate(
        asked.text,
        asked.source_lang,
        asked.target_lang,
        html=ignored if asked.tag_handling else None,
        newlines=newlines,
        split=split,
        owner=caller.key,
    )
    server.deepl_characters += sum(map(len, asked.text))
    translations = [
        {
            "detected_source_language": each.found.direction.source.partition("-")[0].upper(),
            "text": each.candidates[0],
            **({"billed_characters": len(text)} if asked.show_billed_characters else {}),
        }
        for text, each in zip(asked.text, translated, strict=True)
    ]
    return {"translations": translations, **warning(translated)}


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
    Operation(DIALECT, "GET POST", "/v2/languages", _languages, LanguagesRequest, "List the languages"),
    Operation(DIALECT, "GET POST", "/v2/usage", _usage, summary="Count the translated characters"),
)
