"""``nmt doctor`` as people run it."""

import json

import pytest


@pytest.mark.slow
def test_an_examination_finds_a_machine_that_computes_right(nmt_apart, tmp_path):
    result = nmt_apart("doctor", "--json", cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []
    values = json.loads(result.stdout)
    assert [check["name"] for check in values["checks"] if check["passed"] is False] == []
    assert "2 ranks learn what one learns (cpu)" in {check["name"] for check in values["checks"]}
    assert {rate["precision"] for rate in values["products"]} >= {"fp32"}
