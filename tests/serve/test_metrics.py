"""What is counted, and that it tells nothing about anybody."""

import re

import pytest

from tests.serve.doubles import serving


def test_requests_batches_and_lines_are_counted():
    with serving(keys=["secret-key"]) as running:
        running.translate("the private text", api_key="secret-key")
        running.translate("the private text", api_key="wrong-key")
        running.client.post("/v2/translate", json={})
        running.client.get("/private-path")
        running.client.get(
            "/translate", params={"q": "private text", "langpair": "en|private-language", "key": "secret-key"}
        )
        answer = running.client.get("/metrics", headers={"Authorization": "Bearer secret-key"})
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        values = running.metrics()
        assert values['nmt_requests_total{dialect="libretranslate",status="200"}'] == 1
        assert values['nmt_requests_total{dialect="libretranslate",status="403"}'] == 1
        assert values['nmt_requests_total{dialect="deepl",status="403"}'] == 1
        assert values['nmt_requests_total{dialect="apertium",status="400"}'] == 1
        assert values['nmt_request_seconds_count{dialect="libretranslate"}'] == 2
        assert values["nmt_lines_total"] == 1
        assert values["nmt_batch_pieces_sum"] == 4
        assert values["nmt_waiting_pieces"] == 0
        for word in ("private", "secret", "wrong", "127.0.0.1"):
            assert word not in answer.text
        labels = set(re.findall(r'(\w+)="([^"]*)"', answer.text))
        assert {name for name, _ in labels} <= {"dialect", "status", "le", "problem", "repaired"}


def test_each_refusal_is_counted_with_its_status():
    with serving(requests_per_minute=1) as running:
        running.translate("a")
        running.translate("a")
        assert running.metrics()['nmt_requests_total{dialect="libretranslate",status="429"}'] == 1


def test_prometheus_can_read_them(server):
    parser = pytest.importorskip("prometheus_client.parser")
    server.translate("a")
    names = {family.name for family in parser.text_string_to_metric_families(server.client.get("/metrics").text)}
    assert {"nmt_requests", "nmt_request_seconds", "nmt_waiting_pieces", "nmt_batch_pieces", "nmt_lines"} <= names


def test_the_number_of_samples_does_not_grow(server):
    def ask(word):
        server.client.get(f"/{word}")
        server.translate("a", source=word)
        server.client.get("/translate", params={"q": "a", "langpair": f"en|{word}"})
        return len(server.metrics())

    first = ask("x")
    assert {ask(f"x{number}") for number in range(20)} == {first}
