"""``metrics.jsonl``: what is damaged in it costs no other record, and is reported."""

import errno
import json
import math
import os
from dataclasses import asdict, replace

import pytest
from pydantic import TypeAdapter

from nmt.io.writing import WriteError
from nmt.training.metrics_file import Meter, MetricsFile
from nmt.training.ranks.message import UpdateResult
from tests.training.conftest import records


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
    assert ([r["update"] for r in records], damaged) == ([1, 2, 3], 1)
    assert metrics.begin({"kind": "start", "update": 2}) == 1
    kept = [("update", 1), ("update", 2), ("start", 2)]
    assert ([(r["kind"], r["update"]) for r in metrics.read()[0]], metrics.read()[1]) == (kept, 0)


def test_records_follow_a_last_line_that_a_crash_cut_short(file):
    metrics = file(record(1), record(2), '{"kind": "upd')
    assert metrics.read() == ([json.loads(record(1)), json.loads(record(2))], 1)
    metrics.begin({"kind": "start", "update": 2})
    metrics.append({"kind": "update", "update": 3})
    assert [r["update"] for r in metrics.read()[0]] == [1, 2, 2, 3]


def test_a_full_disk_at_the_first_record_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr("nmt.io.writing.os.fsync", full_disk)
    with pytest.raises(WriteError, match=r"metrics\.jsonl: cannot be written \(No space left"):
        MetricsFile(tmp_path / "metrics.jsonl").begin({"kind": "start", "update": 0})
    assert list(tmp_path.iterdir()) == []


def test_records_wait_while_the_disk_is_full(file, monkeypatch):
    metrics = file(record(1))
    with monkeypatch.context() as patch:
        patch.setattr("nmt.io.writing.os.write", full_disk)
        metrics.append({"kind": "update", "update": 2})
        with pytest.raises(WriteError, match="No space left"):
            metrics.flush()
        patch.setattr("nmt.io.writing.os.write", broken_disk)
        with pytest.raises(WriteError, match="Input/output error"):
            metrics.append({"kind": "update", "update": 3})
    metrics.append({"kind": "update", "update": 4})
    metrics.flush()
    assert [r["update"] for r in metrics.read()[0]] == [1, 2, 3, 4]


def broken_disk(*_: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_empty_file_and_none_hold_no_records(file, tmp_path):
    assert file().read() == ([], 0)
    assert MetricsFile(tmp_path / "none").read() == ([], 0)


def test_a_resumed_run_reports_damaged_lines(run_training, tmp_path, listener):
    run = tmp_path / "run"
    run_training(run, "training.max_updates=5")
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text(lines[0] + "damaged\n" + "".join(lines[1:]))
    run_training(run, "training.max_updates=7")
    assert f"{run}/metrics.jsonl: left out 1 damaged line." in listener.notices
    updates = [r["update"] for r in MetricsFile(run / "metrics.jsonl").read()[0] if r["kind"] == "update"]
    assert updates == [2, 4, 5, 6, 7]


def test_a_killed_run_records_what_one_without_interruption_does(run_training, tmp_path, listener):
    """The sums of a record lie in the checkpoint that a run resumes from, before the record is written."""
    measured = {"seconds", "target_tokens_per_second", "source_tokens_per_second", "data_wait_share"}
    measured |= {"peak_memory_bytes", "rank_target_tokens_per_second"}

    def recorded(name: str) -> list[dict]:
        return [{key: r[key] for key in r.keys() - measured} for r in records(tmp_path / name, "update")]

    often = "logging.every_updates=4", "checkpoints.every_updates=1", "training.max_updates=12"
    run_training(tmp_path / "straight", *often)
    for update in (2, 7, 8):

        def die(now, update=update):
            if now == update + 1:
                raise MemoryError

        listener.at_update = die
        with pytest.raises(MemoryError):
            run_training(tmp_path / "run", *often)
    listener.at_update = lambda update: None
    run_training(tmp_path / "run", *often)
    assert recorded("run") == recorded("straight")
    assert [r["update"] for r in recorded("run")] == [4, 8, 12]


def test_a_record_has_the_means_of_its_updates():
    meter = Meter()
    for loss, tokens, norm, rates in (
        (1.0, 10, 3.0, (4.0, 0.0)),
        (4.0, 30, 5.0, (8.0, 6.0)),
        (9.0, 8, math.inf, (0, 0)),
    ):
        result = UpdateResult(2 * loss, loss, tokens, 2 * tokens, norm, rates, wants_to_stop=False, run_seconds=1.0)
        meter.add(result, seconds=4.0, waited=1.0, memory=60 + tokens)
    again = TypeAdapter(Meter).validate_python(json.loads(json.dumps(asdict(meter))))
    assert again.record(3, epoch=1, learning_rate=0.5, seconds=99.0) == {
        "kind": "update", "update": 3, "epoch": 1, "seconds": 99.0, "learning_rate": 0.5,
        "loss": 3.25, "smoothed_loss": 6.5, "perplexity": pytest.approx(math.exp(3.25)), "gradient_norm": 4.0,
        "target_tokens": 48, "target_tokens_per_second": 4.0, "source_tokens_per_second": 8.0,
        "data_wait_share": 0.25, "peak_memory_bytes": 90, "skipped_updates": 1,
        "rank_target_tokens_per_second": [6.0, 6.0],
    }  # fmt: skip
    again.add(result, 1.0, 0.0, 1)  # of other ranks, where a run resumes with more or fewer
    again.add(replace(result, rank_tokens_per_second=(1.0, 2.0, 3.0)), 1.0, 0.0, 1)
    assert again.record(1, epoch=0, learning_rate=0, seconds=1)["rank_target_tokens_per_second"] == [1.0, 2.0, 3.0]
