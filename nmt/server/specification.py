"""``/spec``: what the server answers, in OpenAPI."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

import nmt
from nmt.server import apertium, deepl, libretranslate, streaming
from nmt.server.errors import RequestError

_SCHEMAS = "#/components/schemas/{model}"


@dataclass(frozen=True)
class _Operation:
    path: str
    method: str
    summary: str
    refused: Callable[[RequestError], dict[str, Any]] = libretranslate.DIALECT.refused
    request: type[BaseModel] | None = None
    """The parameters: of GET in the address, of POST in the body."""
    refusals: Sequence[int] = (400, 403, 408, 413, 429, 500, 503)
    media_type: str = "application/json"
    """Of the answer."""


_DEEPL, _APERTIUM = deepl.DIALECT.refused, apertium.DIALECT.refused
_LINES = "application/x-ndjson"
_OPERATIONS = (
    _Operation("/translate", "post", "Translate texts (LibreTranslate)", request=libretranslate.LibreTranslateRequest),
    _Operation("/translate", "get", "Translate a text (Apertium)", _APERTIUM, apertium.TranslateRequest),
    _Operation("/stream", "post", "Translate line by line", request=streaming.StreamRequest, media_type=_LINES),
    _Operation("/detect", "post", "Identify a language (LibreTranslate)", request=libretranslate.DetectRequest),
    _Operation("/languages", "get", "List the languages (LibreTranslate)", refusals=()),
    _Operation("/frontend/settings", "get", "Settings for a web page (LibreTranslate)", refusals=()),
    _Operation("/health", "get", "Whether the server answers (LibreTranslate)", refusals=()),
    _Operation("/v2/translate", "post", "Translate texts (DeepL)", _DEEPL, deepl.DeepLRequest),
    _Operation("/v2/languages", "get", "List the languages (DeepL)", _DEEPL, deepl.LanguagesRequest, (400, 403, 429)),
    _Operation("/v2/usage", "get", "Count the translated characters (DeepL)", _DEEPL, None, (403, 429)),
    _Operation("/listPairs", "get", "List the language pairs (Apertium)", _APERTIUM, None, ()),
)


@functools.cache
def specification() -> dict[str, Any]:
    """The document. It describes what is asked, and which fields a refusal has."""
    models = [(one.request, "validation") for one in _OPERATIONS if one.request is not None]
    references, schemas = models_json_schema(models, ref_template=_SCHEMAS)  # type: ignore[arg-type]
    paths: dict[str, Any] = {}
    for one in _OPERATIONS:
        paths.setdefault(one.path, {})[one.method] = _described(one, lambda model: references[model, "validation"])
    return {
        "openapi": "3.1.0",
        "info": {"title": "nmt", "version": nmt.__version__, "description": "Translation by models of one's own."},
        "paths": paths,
        "components": {"schemas": schemas["$defs"]},
    }


def _described(one: _Operation, reference: Any) -> dict[str, Any]:
    fields = list(one.refused(RequestError(400, "")))
    refusal = {"type": "object", "required": fields, "properties": {name: {} for name in fields}}
    refused = {"description": "Refused.", "content": {"application/json": {"schema": refusal}}}
    responses: dict[str, Any] = {"200": {"description": "The answer.", "content": {one.media_type: {"schema": {}}}}}
    responses |= {str(status): refused for status in one.refusals}
    described: dict[str, Any] = {"summary": one.summary, "responses": responses}
    if one.request is not None and one.method == "get":
        described["parameters"] = [
            {"name": name, "in": "query", "required": field.is_required(), "schema": _schema_of(one.request, name)}
            for name, field in one.request.model_fields.items()
        ]
    elif one.request is not None:
        schema = {"schema": reference(one.request)}
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": schema, "application/x-www-form-urlencoded": schema},
        }
    return described


def _schema_of(model: type[BaseModel], name: str) -> Any:
    return model.model_json_schema()["properties"][name]
