"""The description of the interface agrees with what it describes."""

import re

import pytest

from nmt.server.app import OPERATIONS
from nmt.server.specification import specification

SPECIFICATION = specification(OPERATIONS)
DESCRIBED = [
    pytest.param(method, path, described, id=f"{method} {path}")
    for path, methods in SPECIFICATION["paths"].items()
    for method, described in methods.items()
]


@pytest.mark.parametrize(("method", "path", "described"), DESCRIBED)
def test_examples_get_the_answers_and_mistakes_the_refusals_that_are_described(server, method, path, described):
    fields = {one["name"]: one["schema"] for one in described.get("parameters", []) if one["required"]}
    is_in_path = {one["name"] for one in described.get("parameters", []) if one["in"] == "path"}
    assert is_in_path == set(re.findall(r"{(\w+)}", path))
    sent = "params"
    if "requestBody" in described:
        kind, content = next(iter(described["requestBody"]["content"].items()))
        schema = content["schema"]
        fields = {name: schema["properties"][name] for name in schema["required"]}
        sent = {"application/json": "json", "multipart/form-data": "data"}[kind]
    files = {name: ("a.txt", b"one") for name, field in fields.items() if field.get("format") == "binary"}
    if not is_in_path:  # an example would name nothing
        examples = {name: field["examples"][0] for name, field in fields.items() if name not in files}
        answer = server.client.request(method, path, **{sent: examples}, **({"files": files} if files else {}))
        status = str(answer.status_code)
        assert status in described["responses"]
        [media_type] = described["responses"][status]["content"]
        assert answer.headers["Content-Type"] == media_type
    refused = server.client.request(method, path, headers={"Sec-Fetch-Site": "cross-site"})
    assert refused.status_code == 403
    schema = described["responses"]["default"]["content"]["application/json"]["schema"]
    assert set(refused.json()) == set(schema["required"])


def test_each_dialect_is_described_as_a_whole(server):
    assert server.client.get("/spec").json() == SPECIFICATION
    served = {route.path for route in server.server.config.app.routes}
    files, operators = {"/", "/page.css", "/page.js"}, {"/health/live", "/health/ready", "/metrics", "/spec"}
    assert set(SPECIFICATION["paths"]) == served - files - operators - {"/suggest"}
