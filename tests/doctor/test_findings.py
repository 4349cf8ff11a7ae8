"""The tables and warnings of an examination, and its JSON."""

import json
from dataclasses import replace

from nmt.doctor.checks import Check
from nmt.doctor.examination import Examination
from nmt.doctor.findings import tables, warnings
from nmt.doctor.machine import Machine
from nmt.doctor.rates import ProductRate
from nmt.doctor.speeds import Choice, TrainingSpeed, TranslatingSpeed

MACHINE = Machine(
    system="Linux", processor="A fast processor", instructions=["AVX2"], cores=8, usable_cores=4, busy_cores=0.1,
    memory_bytes=16_000_000_000, memory_for_use=8_000_000_000, memory_limit=None, gpus=[], compiler=None,
    versions={"python": "3.12.1"}, environment={"OMP_NUM_THREADS": "4"},
)  # fmt: skip
FOUND = Examination(
    nmt_version="1.2.3",
    date="2026-01-02T03:04:05+00:00",
    seconds=61.7,
    machine=MACHINE,
    hardware="cpu, 4 threads, bf16",
    products=[
        ProductRate("fp32", 4, 1, 2.5e10),
        ProductRate("fp32", 256, 1, 5e10),
        ProductRate("bf16", 4, 1, 1.234e12),
    ],
    memory_bytes_per_second=2.5e10,
    checks=[Check("this", True, "fine"), Check("that", None, "no such thing")],
    choices=[Choice("precision of training", "bf16", "measured", {"fp32": 1000.0, "bf16": 2000.0}, "tokens/s")],
    training=[TrainingSpeed("base", "bf16", 1234.5)],
    translating=[TranslatingSpeed("nmt fp32", "fp32", 600.0, 1300.0, 127.0, 500_000_000)],
    left_out=["training, tiny, bf16: no time was left"],
)


def test_the_tables_have_every_figure():
    found = {table.title: table.rows for table in tables(FOUND)}
    machine = dict(found.pop("Machine"))
    assert (machine["processor"], machine["cores"]) == ("A fast processor", "4 of 8 cores")
    assert (machine["variables"], machine["memory"]) == ("OMP_NUM_THREADS=4", "16.0 GB, for use 8.0 GB")
    assert found == {
        "Checks": [["this", "right", "fine"], ["that", "not possible here", "no such thing"]],
        "Choices": [["precision of training", "bf16", "measured", "fp32 1,000 · bf16 2,000 tokens/s", "yes"]],
        "Matrix products": [["fp32", "1", "25 GFLOP/s", "50 GFLOP/s"], ["bf16", "1", "1.2 TFLOP/s", "–"]],
        "Training": [["base", "bf16", "1,234"]],
        "Translating, with the sizes of base": [["nmt fp32", "600", "1,300", "127 ms", "0.5 GB"]],
    }
    [products] = [table for table in tables(FOUND) if table.title == "Matrix products"]
    assert products.header == ["", "threads", "4 rows", "256 rows"]


def test_tables_without_rows_are_left_out():
    quick = replace(FOUND, training=[], translating=[])
    assert [table.title for table in tables(quick)] == ["Machine", "Checks", "Choices", "Matrix products"]


def test_what_is_wrong_or_doubtful_is_a_warning():
    assert warnings(FOUND) == ["left out: training, tiny, bf16: no time was left"]
    assert FOUND.passed
    wrong = replace(
        FOUND,
        checks=[Check("that", False, "off by 3")],
        choices=[Choice("precision of training", "fp32", "measured", {"fp32": 1.0, "bf16": 2.0}, "tokens/s")],
        machine=replace(MACHINE, busy_cores=4.5),
        left_out=[],
    )
    assert not wrong.passed
    failed, chosen, busy = warnings(wrong)
    assert failed == "the check of that failed: off by 3"
    assert "fp32 was taken, but is not the fastest" in chosen
    assert "4.5 cores busy" in busy
    # Four cores of eight may be used: others may be busy.
    assert warnings(replace(FOUND, machine=replace(MACHINE, busy_cores=3.9), left_out=[])) == []


def test_the_json_holds_everything():
    values = json.loads(json.dumps(FOUND.values()))
    assert [choice["is_right"] for choice in values["choices"]] == [True]
    assert values["machine"]["processor"] == "A fast processor"
    assert values["training"] == [{"preset": "base", "precision": "bf16", "tokens_per_second": 1234.5}]
