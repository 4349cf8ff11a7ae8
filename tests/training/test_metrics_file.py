"""``metrics.jsonl``: what is damaged in it costs no other record, and is reported."""

import errno
import json
import os

import pytest

from nmt.io.writing import WriteError
from nmt.training.metrics_file import Meter, MetricsFile
from nmt.training.ranks.message import UpdateResult


@pytest.fixture
def file(tmp_path):
    def write(*lines: str | bytes) -> MetricsFile:
        path = tmp_path / "metrics.jsonl"
        path.write_bytes(b"".join(line if isinstance(line, bytes) else line.encode() for line in lines))
        return MetricsFile(path)

    return write


def record(update: int) -> str:
    return json.dumps({"kind": "update", "update": update}) + "\n"


@pytest.mark.parametrize(
    "damage",
    [
        b"\x00\x00\x00\n", b'{"kind": "upd\n', b"\n", b"3\n", b'{"kind": "update"}\n', b"\xff\n",
        b'{"kind": "update", "update": 1%b}\n' % (b"0" * 400),
        b'{"kind": "update", "update": -1%b}\n' % (b"0" * 5_000),
        b"[" * 100_000 + b"\n",
    ],
)  # fmt: skip
def test_a_damaged_line_in_the_middle_costs_no_other_record(file, damage):
    metrics = file(record(1), damage, record(2), record(3))
    records, damaged = metrics.read()
    assert ([r["update"] for r in records], damaged) == ([1, 2, 3], [2])
    assert metrics.begin({"kind": "start", "update": 2}) == [2]
    assert [(r["kind"], r["update"]) for r in metrics.records()] == [("update", 1), ("update", 2), ("start", 2)]
    assert metrics.begin({"kind": "start", "update": 2}) == []  # reported once


@pytest.mark.parametrize(("end", "damaged"), [('{"kind": "upd', []), ('{"kind": "upd\n', [3])])
def test_a_last_line_that_a_crash_cut_short_is_no_damage(file, end, damaged):
    metrics = file(record(1), record(2), end)
    assert metrics.read() == ([json.loads(record(1)), json.loads(record(2))], damaged)
    metrics.begin({"kind": "start", "update": 2})
    metrics.append({"kind": "update", "update": 3})
    assert [r["update"] for r in metrics.records()] == [1, 2, 2, 3]


def test_a_full_disk_at_the_first_record_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr("nmt.io.writing.os.fsync", full_disk)
    with pytest.raises(WriteError, match=r"metrics\.jsonl: cannot be written \(No space left"):
        MetricsFile(tmp_path / "metrics.jsonl").begin({"kind": "start", "update": 0})
    assert list(tmp_path.iterdir()) == []


def full_disk(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_empty_file_and_none_hold_no_records(file, tmp_path):
    assert file().read() == ([], [])
    assert MetricsFile(tmp_path / "none").read() == ([], [])


def test_a_resumed_run_reports_damaged_lines(run_training, tmp_path, listener):
    run = tmp_path / "run"
    run_training(run, "training.max_updates=5")
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text(lines[0] + "damaged\n" + "".join(lines[1:]))
    run_training(run, "training.max_updates=7")
    assert f"{run}/metrics.jsonl: damaged lines were left out: 2." in listener.notices
    updates = [r["update"] for r in MetricsFile(run / "metrics.jsonl").records() if r["kind"] == "update"]
    assert updates == [2, 4, 5, 6, 7]


def test_the_peak_of_the_memory_is_that_since_the_last_record():
    meter, done = Meter(), UpdateResult(1.0, 1.0, 8, 8, 1.0, (1.0,), wants_to_stop=False, run_seconds=1.0)
    peaks = []
    for memory in ((5, 9, 7), (3, 4)):
        for used in memory:
            meter.add(done, 1.0, 0.0, used)
        peaks.append(meter.record(1, epoch=0, learning_rate=0.1, seconds=1.0)["peak_memory_bytes"])
    assert peaks == [9, 4]
