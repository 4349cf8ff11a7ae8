"""The description of the interface agrees with what it describes."""

import pytest

from nmt.server.specification import specification

PATHS = specification()["paths"]
OPERATIONS = [(path, method) for path, methods in PATHS.items() for method in methods]
REFUSABLE = [(path, method) for path, method in OPERATIONS if "400" in PATHS[path][method]["responses"]]


def resolved(schema):
    while "$ref" in schema:
        schema = specification()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def example(schema):
    """The example of each property that must be given."""
    schema = resolved(schema)
    return {name: schema["properties"][name]["examples"][0] for name in schema["required"]}


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_an_example_of_each_operation_gets_the_answer_that_is_described(server, path, method):
    described = PATHS[path][method]
    body = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    params = {one["name"]: one["schema"]["examples"][0] for one in described.get("parameters", [])}
    answer = server.client.request(method, path, json=body and example(body), params=params)
    assert answer.status_code == 200
    [media_type] = described["responses"]["200"]["content"]
    assert answer.headers["Content-Type"] == media_type


@pytest.mark.parametrize(
    ("path", "method"),
    [each for each in OPERATIONS if "400" in specification()["paths"][each[0]][each[1]]["responses"]],
)
def test_a_refusal_has_the_shape_that_is_described(server, path, method):
    schema = PATHS[path][method]["responses"]["400"]["content"]["application/json"]["schema"]
    answer = server.client.request(method, path, params={"langpair": "x", "type": "x"} if method == "get" else None)
    assert answer.status_code == 400
    assert set(answer.json()) == set(resolved(schema)["required"])


def test_each_dialect_is_described_as_a_whole(server):
    served = {route.path for route in server.server.config.app.routes}
    files, operators = {"/", "/page.css", "/page.js"}, {"/health/live", "/health/ready", "/metrics", "/spec"}
    refused = {"/translate_file", "/suggest"}
    assert set(PATHS) == served - files - operators - refused


def test_it_is_served(server):
    assert server.client.get("/spec").json() == specification()
    assert specification()["openapi"].startswith("3.")
