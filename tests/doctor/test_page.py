"""The page, the JSON and the summary of an examination."""

import json
from dataclasses import replace

import pytest

from nmt.doctor.checks import Check
from nmt.doctor.examination import Examination
from nmt.doctor.findings import headlines, summary, tables, warnings
from nmt.doctor.machine import Machine
from nmt.doctor.page import check_paths, examination_json, examination_page, write_examination
from nmt.doctor.rank_checks import ExchangeRate
from nmt.doctor.rates import ProductRate
from nmt.doctor.speeds import Choice, TrainingSpeed, TranslatingSpeed
from nmt.errors import ConfigError, OutputError

MACHINE = Machine(
    system="Linux", processor="A <fast> processor", instructions=["AVX2"], cores=8, usable_cores=4, busy_cores=0.1,
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
    exchange=[ExchangeRate(8_000_000, 0.004, 8, "cuda")],
    checks=[Check("this", True, "fine"), Check("that", None, "no such thing")],
    choices=[Choice("precision of training", "bf16", "measured", {"fp32": 1000.0, "bf16": 2000.0}, "tokens/s")],
    training=[TrainingSpeed("base", "bf16", 1234.5, 0.82)],
    translating=[
        TranslatingSpeed("nmt fp32", "fp32", 600.0, 1300.0, 127.0, 500_000_000, 0.7),
        TranslatingSpeed("nmt int8", "int8", 900.0, 1900.0, 80.0, 400_000_000, 0.4),
        TranslatingSpeed("nmt-ctranslate2 int8", "int8", 9_999.0, 9_999.0, 1.0, 300_000_000, None),
    ],
    left_out=["training, tiny, bf16: too slow"],
)


def test_the_summary_has_every_figure_of_ours():
    assert dict(summary(FOUND)) == {
        "machine": "A <fast> processor, 4 of 8 cores, 16.0 GB",
        "instructions": "AVX2",
        "checks": "1 of 1 right",
        "precision of training": "bf16 (fp32 1,000 · bf16 2,000 tokens/s)",
        "training": "base bf16 1,234 target tokens/s",
        "translating": "fp32 600 · int8 900 target tokens/s with the sizes of base and beam 4",
        "one sentence": "fp32 127 ms · int8 80 ms",
    }
    tiles = dict(headlines(FOUND))
    assert tiles["training, base, bf16"] == "1,234 tokens/s"
    assert tiles["translating, base, int8"] == "900 tokens/s"
    assert tiles["one sentence, int8"] == "80 ms"


def test_the_exchange_is_told_as_what_each_rank_sends():
    [table] = [table for table in tables(FOUND) if table.title == "Exchange between ranks (8 ranks, cuda)"]
    assert table.rows == [["8 MB", "4.0 ms", "3.5 GB/s"]]


def test_tables_without_rows_are_left_out():
    quick = replace(FOUND, training=[], translating=[], exchange=[])
    assert [table.title for table in tables(quick)] == ["Machine", "Checks", "Choices", "Matrix products"]
    assert "training" not in dict(summary(quick))
    assert len(headlines(quick)) == 3


def test_products_stand_in_a_row_per_type_and_a_column_per_number_of_rows():
    [products] = [table for table in tables(FOUND) if table.title == "Matrix products"]
    assert products.header == ["", "threads", "4 rows", "256 rows"]
    assert products.rows == [["fp32", "1", "25 GFLOP/s", "50 GFLOP/s"], ["bf16", "1", "1.2 TFLOP/s", "–"]]


def test_what_is_wrong_or_doubtful_is_a_warning():
    assert warnings(FOUND) == ["left out: training, tiny, bf16: too slow"]
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
    assert "NOT the fastest" in dict(summary(wrong))["precision of training"]


def test_the_page_and_the_json_hold_everything_and_replace_only_their_own_kind(tmp_path):
    page = tmp_path / "machine.html"
    write_examination(FOUND, page)
    html = page.read_text("utf-8")
    assert "A &lt;fast&gt; processor" in html
    assert "<fast>" not in html
    for text in (
        "no such thing",
        "1,234",
        "82%",
        "9,999",
        "left out: training, tiny",
        "62 seconds",
        "OMP_NUM_THREADS=4",
    ):
        assert text in html, text
    values = json.loads((tmp_path / "machine.json").read_text())
    assert [choice["is_right"] for choice in values["choices"]] == [True]
    assert values == json.loads(examination_json(FOUND))
    assert values["machine"]["processor"] == "A <fast> processor"
    assert values["training"][0]["share_of_products"] == 0.82
    write_examination(replace(FOUND, left_out=["another"]), page)
    assert "left out: another" in page.read_text("utf-8")
    assert examination_page(FOUND).count("<h1>") == 1


def test_the_page_may_not_have_the_name_of_its_json(tmp_path):
    with pytest.raises(ConfigError, match=r"names the page, as mine\.html does"):
        write_examination(FOUND, tmp_path / "mine.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["mine.html", "mine.json"])
def test_what_is_not_an_examination_stays(tmp_path, name):
    (tmp_path / name).write_text('{"examination": 3}')
    with pytest.raises(OutputError, match=r"mine\.(html|json): is a file, but not"):
        check_paths(tmp_path / "mine.html")
    with pytest.raises(OutputError):
        write_examination(FOUND, tmp_path / "mine.html")
    assert [entry.name for entry in tmp_path.iterdir()] == [name]
