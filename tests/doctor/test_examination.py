"""The order of an examination, what happens when a part of it fails, and what is printed."""

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import pytest

from nmt.doctor import examination, rank_checks
from nmt.doctor.checks import Check
from nmt.doctor.examination import examine
from nmt.doctor.rates import ProductRate
from nmt.errors import ConfigError
from nmt.machine.device import choose_hardware

RATES = [ProductRate("fp32", rows, threads, rows * 1e9) for threads in (1, 2) for rows in (4, 256, 3_600)]


@pytest.fixture
def parts(monkeypatch):
    """Parts that take no time."""
    monkeypatch.setattr(examination, "product_rates", lambda hardware: RATES)
    monkeypatch.setattr(examination, "memory_bandwidth", lambda hardware: 2.5e9)
    monkeypatch.setattr(examination, "_CHECKS", {"this": lambda hardware: [Check("this one", True, "equal")]})


def fail(*arguments):
    raise RuntimeError(f"no kernel image in {sys.executable} of {Path.home()}/x and {tempfile.gettempdir()}/y")


def test_what_is_found_is_shown_and_is_json(parts):
    reported = []
    found = examine(report=reported.append)
    assert reported == ["the machine", "the rate of matrix products", "the bandwidth of memory", "this"]
    machine, checks, rates = found.tables()
    assert dict(machine.rows)["memory bandwidth"] == "2.5 GB/s read and written, on all threads"
    assert dict(machine.rows)["training computes on"] == found.hardware
    assert checks.rows == [["this one", "right", "equal"]]
    assert rates.header == ["", "threads", "4 rows", "256 rows", "3,600 rows"]
    assert rates.rows == [["fp32", threads, "4", "256", "3,600"] for threads in ("1", "2")]
    values = json.loads(json.dumps(asdict(found)))
    assert values["machine"]["processor"]
    assert values["checks"] == [{"name": "this one", "passed": True, "detail": "equal"}]
    assert found.failed == []


def test_a_part_that_ends_with_an_error_is_a_failed_check_without_paths_of_the_user(parts, monkeypatch):
    """The others are done."""
    monkeypatch.setattr(examination, "product_rates", fail)
    monkeypatch.setattr(examination, "_CHECKS", {"that": fail, **examination._CHECKS})
    found = examine()
    assert [check.name for check in found.failed] == ["the rate of matrix products", "that"]
    assert {check.detail for check in found.failed} == {"RuntimeError: no kernel image in python of ~/x and TMPDIR/y"}
    assert [check.name for check in found.checks if check.passed] == ["this one"]
    assert [table.title for table in found.tables()] == ["Machine", "Checks"]


def test_processes_that_a_launcher_started_examine_nothing(parts, monkeypatch):
    """They would measure each other, and write to the same files."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"Run it once, without torchrun\."):
        examine(report=fail)


@pytest.mark.parametrize(
    ("program", "seconds", "says"),
    [
        ("raise SystemExit('no ranks here')", 60, "ranks: 1: no ranks here"),
        ("raise SystemExit(3)", 60, "ranks: 1: exit code 3"),
        ("import time; time.sleep(60)", 0.2, "ranks: 1: not finished within 0 s"),
    ],
)
def test_ranks_that_fail_or_hang_are_noticed(monkeypatch, program, seconds, says):
    monkeypatch.setattr(rank_checks, "_command", lambda *arguments: [sys.executable, "-c", program])
    monkeypatch.setattr(rank_checks, "_SECONDS", seconds)
    monkeypatch.setattr(rank_checks, "prepare", lambda *arguments: None)
    monkeypatch.setattr(rank_checks, "build_vocabulary", lambda *arguments: None)
    [check] = rank_checks.check_ranks(choose_hardware("cpu", "fp32", 1))
    assert (check.passed, check.detail) == (False, says)
