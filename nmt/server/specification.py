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
    schemas: dict[str, Any] = {}
    for one in operations:
        if one.summary:
            paths.setdefault(one.path, {})[one.methods.split()[0].lower()] = _described(one, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "nmt", "version": nmt.__version__, "description": "Translation by models of one's own."},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _described(one: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    """How to ask for an operation.

    Args:
        schemas: gets those of objects within its parameters.
    """
    fields = list(one.dialect.refused(RequestError(400, "")))
    refusal = {"type": "object", "required": fields, "properties": {name: {} for name in fields}}
    described: dict[str, Any] = {
        "summary": one.summary,
        "tags": [one.dialect.name],
        "responses": {
            str(one.status): {"description": "The answer."}
            | ({} if one.status == 204 else {"content": {one.media_type: {"schema": {}}}}),
            "default": {"description": "Refused.", "content": {"application/json": {"schema": refusal}}},
        },
    }
    schema = one.parameters.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(schema.pop("$defs", {}))
    has_body = one.methods.split()[0] in ("POST", "PUT", "PATCH")
    required, parameters = schema.get("required", []), []
    for name in list(schema.get("properties", {})):
        is_in_path = f"{{{name}}}" in one.path
        if is_in_path or not has_body:
            place, of_parameter = "path" if is_in_path else "query", schema["properties"].pop(name)
            parameters.append({"name": name, "in": place, "required": name in required, "schema": of_parameter})
            required = [other for other in required if other != name]
    if parameters:
        described["parameters"] = parameters
    if has_body:
        schema["required"] = required
        kinds = ["multipart/form-data"] if one.takes_file else ["application/json", "application/x-www-form-urlencoded"]
        described["requestBody"] = {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}
    return described
