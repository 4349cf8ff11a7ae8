"""``nmt doctor`` as people run it."""

import json

import pytest


@pytest.mark.slow
def test_a_quick_examination_writes_a_page_and_its_json(nmt, tmp_path):
    result = nmt("doctor", "--quick", cwd=tmp_path)
    assert "written: nmt-doctor.html, nmt-doctor.json" in result.stderr
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["nmt-doctor.html", "nmt-doctor.json"]
    values = json.loads((tmp_path / "nmt-doctor.json").read_text("utf-8"))
    assert [check["name"] for check in values["checks"] if check["passed"] is False] == []
    assert {rate["precision"] for rate in values["products"]} >= {"fp32"}
    lines = [line.split("  ")[0] for line in result.stdout.splitlines()]
    assert lines[:3] == ["machine", "instructions", "checks"]
    assert "precision of training" in lines


def test_a_path_that_is_taken_is_refused_before_anything_is_measured(nmt, tmp_path):
    (tmp_path / "mine.json").write_text("{}")
    result = nmt("doctor", "--quick", "--out", "mine.html", cwd=tmp_path, check=False)
    assert result.returncode == 2
    assert "mine.json: is a file, but not the JSON of nmt doctor that nmt wrote" in result.stderr
    assert "the machine" not in result.stderr
