"""``/spec``: what the server answers, in OpenAPI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import nmt
from nmt.server.errors import RequestError
from nmt.server.exchange import Operation


def specification(operations: Sequence[Operation]) -> dict[str, Any]:
    """The document. It describes what is asked, and which fields a refusal has."""
    paths: dict[str, Any] = {}
    for one in operations:
        if one.summary:
            paths.setdefault(one.path, {})[one.methods.split()[0].lower()] = _described(one)
    return {
        "openapi": "3.1.0",
        "info": {"title": "nmt", "version": nmt.__version__, "description": "Translation by models of one's own."},
        "paths": paths,
    }


def _described(one: Operation) -> dict[str, Any]:
    fields = list(one.dialect.refused(RequestError(400, "")))
    refusal = {"type": "object", "required": fields, "properties": {name: {} for name in fields}}
    described: dict[str, Any] = {
        "summary": one.summary,
        "tags": [one.dialect.name],
        "responses": {
            "200": {"description": "The answer.", "content": {one.media_type: {"schema": {}}}},
            "default": {"description": "Refused.", "content": {"application/json": {"schema": refusal}}},
        },
    }
    schema = one.parameters.model_json_schema()
    if not one.methods.startswith("POST"):
        required = schema.get("required", ())
        described["parameters"] = [
            {"name": name, "in": "query", "required": name in required, "schema": of_parameter}
            for name, of_parameter in schema.get("properties", {}).items()
        ]
    else:
        kinds = ("application/json", "application/x-www-form-urlencoded")
        described["requestBody"] = {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}
    return described
