"""``/spec``: what the server answers, in OpenAPI."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

import nmt
from nmt.serve import apertium, deepl, libretranslate, streaming

_SCHEMAS = "#/components/schemas/{model}"


@dataclass(frozen=True)
class _Operation:
    path: str
    method: str
    summary: str
    error: type[BaseModel]
    request: type[BaseModel] | None = None
    """The parameters: of GET in the address, of POST in the body."""
    response: type[BaseModel] | None = None
    is_list: bool = False
    """Whether the answer is a list of ``response``."""
    refusals: Sequence[int] = ()
    media_type: str = "application/json"
    """Of the answer."""


_TRANSLATING = (400, 403, 408, 413, 429, 500, 503)
_LIBRE, _DEEPL = libretranslate.LibreTranslateError, deepl.DeepLError
_OPERATIONS = (
    _Operation(
        "/translate",
        "post",
        "Translate texts (LibreTranslate)",
        _LIBRE,
        libretranslate.LibreTranslateRequest,
        libretranslate.LibreTranslateResponse,
        refusals=_TRANSLATING,
    ),
    _Operation(
        "/translate",
        "get",
        "Translate a text (Apertium)",
        apertium.ApertiumError,
        apertium.TranslateRequest,
        apertium.TranslateResponse,
        refusals=_TRANSLATING,
    ),
    _Operation(
        "/stream",
        "post",
        "Translate a text; a JSON object per line, as soon as it is there",
        _LIBRE,
        streaming.StreamRequest,
        streaming.StreamPart,
        refusals=_TRANSLATING,
        media_type="application/x-ndjson",
    ),
    _Operation(
        "/detect",
        "post",
        "Identify the language of a text (LibreTranslate)",
        _LIBRE,
        libretranslate.DetectRequest,
        libretranslate.Detected,
        is_list=True,
        refusals=_TRANSLATING,
    ),
    _Operation(
        "/languages",
        "get",
        "List the languages (LibreTranslate)",
        _LIBRE,
        response=libretranslate.Language,
        is_list=True,
    ),
    _Operation("/frontend/settings", "get", "Settings for a web page (LibreTranslate)", _LIBRE),
    _Operation("/health", "get", "Whether the server answers (LibreTranslate)", _LIBRE),
    _Operation(
        "/v2/translate",
        "post",
        "Translate texts (DeepL)",
        _DEEPL,
        deepl.DeepLRequest,
        deepl.DeepLResponse,
        refusals=_TRANSLATING,
    ),
    _Operation(
        "/v2/languages",
        "get",
        "List the languages (DeepL)",
        _DEEPL,
        deepl.LanguagesRequest,
        deepl.DeepLLanguage,
        is_list=True,
        refusals=(400, 403, 429),
    ),
    _Operation(
        "/v2/usage",
        "get",
        "Count the translated characters (DeepL)",
        _DEEPL,
        response=deepl.Usage,
        refusals=(403, 429),
    ),
    _Operation(
        "/listPairs", "get", "List the language pairs (Apertium)", apertium.ApertiumError, response=apertium.Pairs
    ),
)


@functools.cache
def specification() -> dict[str, Any]:
    """The document."""
    models = {each for one in _OPERATIONS for each in (one.request, one.response, one.error) if each is not None}
    modes = [(model, "validation") for model in sorted(models, key=lambda model: model.__module__ + model.__name__)]
    references, schemas = models_json_schema(modes, ref_template=_SCHEMAS)  # type: ignore[arg-type]
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
    answer: dict[str, Any] = {"type": "object"} if one.response is None else reference(one.response)
    if one.is_list:
        answer = {"type": "array", "items": answer}
    responses = {"200": {"description": "The answer.", "content": {one.media_type: {"schema": answer}}}}
    refused = {"description": "Refused.", "content": {"application/json": {"schema": reference(one.error)}}}
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
