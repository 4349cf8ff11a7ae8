"""What is counted, and that it tells nothing about anybody."""

import re

from prometheus_client.parser import text_string_to_metric_families

from tests.server.doubles import serving


def test_requests_batches_and_lines_are_counted():
    with serving(keys=["secret-key"], requests_per_minute=4) as running:
        asked = {"q": "private text", "langpair": "en|private-language", "key": "secret-key"}
        running.translate("the private text", api_key="secret-key")
        running.translate("the private text", api_key="wrong-key")
        running.client.post("/v2/translate", json={})
        running.client.get("/private-path")
        running.client.get("/translate", params=asked)
        text = running.client.get("/metrics", headers={"Authorization": "Bearer secret-key"})
        running.translate("a", api_key="secret-key")
        running.translate("a", api_key="secret-key")
        values = running.metrics()
    assert text.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    expected = {
        'nmt_requests_total{dialect="libretranslate",status="200"}': 2,
        'nmt_requests_total{dialect="libretranslate",status="403"}': 1,
        'nmt_requests_total{dialect="libretranslate",status="429"}': 1,
        'nmt_requests_total{dialect="deepl",status="403"}': 1,
        'nmt_requests_total{dialect="apertium",status="400"}': 1,
        'nmt_request_seconds_count{dialect="libretranslate"}': 4,
        "nmt_lines_total": 2,
        "nmt_batch_pieces_sum": 6,
        "nmt_waiting_pieces": 0,
    }
    assert {name: values[name] for name in expected} == expected
    assert not [word for word in ("private", "secret", "wrong", "127.0.0.1") if word in text.text]
    labels = {name for name, _ in re.findall(r'(\w+)="([^"]*)"', text.text)}
    assert labels <= {"dialect", "status", "le", "problem", "repaired"}
    names = {family.name for family in text_string_to_metric_families(text.text)}
    assert {"nmt_requests", "nmt_request_seconds", "nmt_waiting_pieces", "nmt_batch_pieces", "nmt_lines"} <= names


def test_the_number_of_samples_does_not_grow(server):
    def ask(word):
        server.client.get(f"/{word}")
        server.translate("a", source=word)
        server.client.get("/translate", params={"q": "a", "langpair": f"en|{word}"})
        return len(server.metrics())

    first = ask("x")
    assert {ask(f"x{number}") for number in range(20)} == {first}
