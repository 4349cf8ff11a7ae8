"""The page about training runs tells what their folders hold, and nothing that it loads from elsewhere."""

import itertools
import json
import math
import os
from pathlib import Path

import pytest

from nmt.checkpoint.run_folder import newest_run
from nmt.errors import CheckpointError, ConfigError
from nmt.reports.run_report import run_report, write_run_report
from nmt.training.metrics_file import MetricsFile


def update(number: int, **fields) -> dict:
    return {
        "kind": "update", "update": number, "epoch": 0, "loss": 4.0, "learning_rate": 1e-4,
        "target_tokens_per_second": 1000.0, "seconds": number * 0.6,
    } | fields  # fmt: skip


def validation(number: int, **fields) -> dict:
    return {
        "kind": "validation", "update": number, "valid_loss": 3.0, "valid_bleu": 20.0, "seconds": number * 0.6,
        "samples": [],
    } | fields  # fmt: skip


def start(number: int = 0, **fields) -> dict:
    versions = {"nmt": "0.1.0", "torch": "2.13.0"}
    return {"kind": "start", "update": number, "versions": versions, "hardware": "cpu, 2 threads"} | fields


def event(number: int, name: str, message: str) -> dict:
    return {"kind": "event", "update": number, "event": name, "message": message}


@pytest.fixture
def make_run(tmp_path):
    """Write a run's folder out of its records."""

    def make(name: str, records: list[dict], *, settings: str = "model: {heads: 4}\n", manifests=None) -> Path:
        run = tmp_path / "runs" / name
        run.mkdir(parents=True)
        (run / "config.yaml").write_text(settings, "utf-8")
        (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
        for file_name, content in (manifests or {}).items():
            (run / "manifests").mkdir(exist_ok=True)
            (run / "manifests" / file_name).write_text(content, "utf-8")
        return run

    return make


def manifest_of(**changed) -> str:
    return json.dumps(
        {
            "name": "tiny", "source_lang": "en", "target_lang": "de", "licence": "CC0", "fingerprint": "f00d",
            "recipe": {}, "sources": [], "filters": {},
            "files": {"train.en": {"lines": 29000, "sha256": "beef"}}, "source_text": [], "target_text": [],
        }
        | changed
    )  # fmt: skip


TOY = [start(), *(update(u, loss=9 - u / 10) for u in (10, 20, 30)), validation(20), validation(30, valid_bleu=31.5)]


def figures(page) -> dict[str, str]:
    """The headline figures of one run."""
    words = [word for word in page.text.split("\n") if word]
    return dict(itertools.pairwise(words))


def chart_titles(page) -> list[str]:
    return [attributes["aria-label"].removesuffix(" by update") for attributes in page.having("svg", "by-update")]


def chart_data(page, title: str) -> list[dict]:
    """The curves of a chart, by its place among the charts."""
    return json.loads(page.scripts[chart_titles(page).index(title)])


def test_headline_figures(make_run, parsed):
    """fp16 skips updates to find its scale, which are no events."""
    skipped = [update(31, loss=6.0, skipped_updates=2), update(32, loss=6.0, skipped_updates=1, seconds=18)]
    events = [event(31, "skipped", "not finite"), event(32, "budget_lowered", "out of memory")]
    last = validation(32, valid_loss=3.5, seconds=25)
    elsewhere = [start(30, hardware="cuda"), start(30, hardware="cuda")]
    run = make_run("toy", [*TOY, *elsewhere, *skipped, *events, last])
    found = figures(parsed(run_report([run])))
    assert found["updates"] == "32"
    assert found["time trained"] == "0 min 25 s"  # with the validation after the last update
    assert found["best validation BLEU"] == "31.50 at update 30"
    assert found["best validation loss"] == "3.000 at update 20"
    assert found["final training loss"] == "6.000"
    assert found["final validation loss"] == "3.500"
    assert found["median target tokens/s"] == "1,000"
    assert found["skipped updates"] == "3"
    assert found["hardware"] == "cpu, 2 threads; then cuda"
    assert found["versions"] == "nmt 0.1.0, torch 2.13.0"


@pytest.mark.parametrize("last", [start(40), update(40), validation(40), event(40, "skipped", "not finite")])
def test_the_last_update_is_that_of_any_record(make_run, parsed, last):
    assert figures(parsed(run_report([make_run("toy", [*TOY, last])])))["updates"] == "40"


def test_curves_hold_the_recorded_values(make_run, parsed):
    page = parsed(run_report([make_run("toy", TOY)]))
    training, valid = chart_data(page, "Loss")
    assert (training["update"], training["value"]) == ([10, 20, 30], [8, 7, 6])
    assert training["minutes"] == [0.1, 0.2, 0.3]
    assert (valid["update"], valid["value"]) == ([20, 30], [3, 3])
    assert chart_data(page, "Validation BLEU")[0]["value"] == [20, 31.5]


def test_a_chart_without_data_is_left_out(make_run, parsed):
    old = chart_titles(parsed(run_report([make_run("old", [update(10), update(20)])])))
    assert old == ["Loss", "Learning rate", "Throughput"]
    new = [update(10, gradient_norm=1.5, data_wait_share=0.1, peak_memory_bytes=2**30)]
    page = parsed(run_report([make_run("new", new)]))
    assert chart_titles(page) == [*old, "Gradient norm", "Waiting for data", "Peak memory"]
    assert [chart_data(page, title)[0]["value"] for title in chart_titles(page)[-3:]] == [[1.5], [10], [1]]


@pytest.mark.parametrize("wrong", [math.nan, math.inf, None, "7", True, 10**400])
def test_values_that_are_no_numbers_are_left_out(make_run, parsed, wrong):
    page = parsed(run_report([make_run("toy", [update(10), update(20, loss=wrong, seconds=wrong), update(30)])]))
    assert chart_data(page, "Loss")[0]["update"] == [10, 30]
    assert chart_data(page, "Learning rate")[0]["minutes"] == [0.1, None, 0.3]
    assert "NaN" not in page.scripts[0] and "Infinity" not in page.scripts[0]
    assert page.text.count("Left out since infinite or not a number: 1.") == 1


@pytest.mark.parametrize("wrong", [5e-324, -1e308, -10, -(10**400)])
@pytest.mark.parametrize("field", ["update", "seconds", "loss", "valid_bleu", "learning_rate"])
def test_odd_figures_do_no_harm(make_run, parsed, field, wrong):
    records = [*TOY, update(40, **{field: wrong}) | {field: wrong}, validation(40, **{field: wrong}) | {field: wrong}]
    parsed(run_report([make_run("toy", records)]))
    parsed(run_report([make_run("odd", [each | {field: wrong} for each in TOY])]))


def test_figures_of_different_valid_sets_are_not_compared(make_run, parsed):
    def run(name, sha256):
        files = {"valid.en": {"lines": 9, "sha256": "aa"}, "valid.de": {"lines": 9, "sha256": sha256}}
        mixed = {"2-more.json": manifest_of(files={"valid.en": {"lines": 7, "sha256": name}})}
        return make_run(name, TOY, manifests={"1-data.json": manifest_of(files=files), **mixed})

    runs, note = [run("one", "bb"), run("two", "bb"), run("three", "cc")], "validated on different sentences"
    assert parsed(run_report(runs)).text.count(note) == 2  # loss and BLEU
    assert note not in parsed(run_report(runs[:2])).text
    assert note not in parsed(run_report([runs[0], make_run("unknown", TOY)])).text


def test_figures_that_a_run_found_infinite_are_counted(make_run, parsed):
    """As a run writes them: JSON has no infinity. BLEU is null where it was not measured."""
    run = make_run("toy", TOY)
    metrics = MetricsFile(run / "metrics.jsonl")
    metrics.append(update(40, loss=math.inf, gradient_norm=math.nan))
    metrics.append(update(45, gradient_norm=1.0))
    metrics.append(validation(50, valid_loss=math.nan, valid_bleu=None))
    text = parsed(run_report([run])).text
    assert text.count("Left out since infinite or not a number: 2.") == 1  # the losses
    assert text.count("Left out since infinite or not a number: 1.") == 1


@pytest.mark.parametrize(
    "records",
    [
        [], [start()], [{"kind": "update"}, {"kind": "other", "update": 1}, {}], [[1], "x", {"kind": ["update"]}],
        *([{"kind": "validation", "update": 0, "samples": odd}] for odd in (None, "text", [1, None, {}])),
    ],
)  # fmt: skip
@pytest.mark.parametrize("manifest", ["{", "[]", '{"sources": [1], "files": {"a": 1}, "filters": 7}'])
def test_a_run_without_figures_or_with_files_of_another_shape_has_a_page(make_run, parsed, records, manifest):
    page = parsed(run_report([make_run("toy", records, manifests={"odd.json": manifest})]))
    assert "Nothing is recorded yet." in page.text
    assert "Sample translations" not in page.text
    assert "odd.json" in page.text
    assert figures(page)["best validation BLEU"] == "–"


def test_all_text_is_escaped(make_run, parsed):
    evil = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
    sample = {"source": evil, "reference": evil, "translation": evil}
    manifest = manifest_of(name=evil, licence=evil, fingerprint=evil)
    records = [start(hardware=evil, versions={evil: evil}), update(10), validation(10, samples=[sample])]
    settings = f"data: {{source_lang: '\" onload=\"alert(3)', name: '{evil}'}}\n"
    first = make_run(
        "<script>alert(4)<", [*records, event(10, evil, evil)], settings=settings, manifests={"a.json": manifest}
    )
    second = make_run("other", TOY)
    for runs in ([first], [first, second]):
        page = parsed(run_report(runs))
        assert not page.having("img")
        *data, read_out = page.scripts
        assert len(data) == len(chart_titles(page)) and "alert" not in read_out
        assert all(isinstance(json.loads(script), list) for script in data)
        assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
        assert evil in page.text


def test_the_page_loads_nothing(make_run, parsed):
    content = run_report([make_run("toy", TOY, manifests={"d.json": manifest_of()})])
    assert not any({"src", "href", "srcset", "action"} & set(attributes) for _, attributes in parsed(content).elements)
    for word in ("http://", "https://", "@import", "url(", "fetch(", "<link"):
        assert word not in content


def test_settings_of_one_run(make_run, parsed):
    settings = "model: {heads: 4, d_k: null, attention_bias: true}\nvalidation: {decoding: {beam: 1}}\n"
    words = parsed(run_report([make_run("toy", TOY, settings=settings)])).text.split("\n")
    for row in (["heads", "4"], ["d_k", "null"], ["attention_bias", "true"], ["validation.decoding", "beam", "1"]):
        assert any(words[at : at + len(row)] == row for at in range(len(words))), row


ONE = "model: {heads: 4, d_ff: 64, norm: post}\n"


def test_of_several_runs_the_settings_that_differ_stand_first(make_run, parsed):
    one = make_run("one", TOY, settings=ONE)
    two = make_run("two", TOY, settings="model: {heads: 8, d_ff: 64, bias: true}\n")
    page = parsed(run_report([one, two]))
    comparison = page.text.partition("setting that differs")[2].partition("All settings of one")[0].split()
    assert comparison == ["one", "two", "model.heads", "4", "8", "model.norm", "post", "–", "model.bias", "–", "true"]
    assert len(page.having("details")) - len(page.having("details", "values")) == 2
    assert "All settings are the same." in parsed(run_report([one, make_run("three", TOY, settings=ONE)])).text


def test_several_runs_have_a_colour_each_and_their_paths_where_they_have_one_name(make_run, parsed):
    runs = [make_run("toy", TOY), make_run("../elsewhere/toy", [start(), update(10, loss=5), validation(10)])]
    page = parsed(run_report(runs))
    one, two = map(str, runs)
    curves = [(each["label"], each["colour"]) for each in chart_data(page, "Loss")]
    labels = [(f"{one}, training", 0), (f"{one}, validation", 0), (f"{two}, training", 1), (f"{two}, validation", 1)]
    assert curves == labels
    assert [each["label"] for each in chart_data(page, "Learning rate")] == [one, two]


def test_samples_show_how_a_translation_came_about_in_the_languages_of_the_run_that_has_them(make_run, parsed):
    def run(name: str, languages: str, **translations: str) -> Path:
        pair = {"source": "A dog.", "reference": "Ein Hund."}
        records = [
            validation(int(number[1:]), samples=[pair | {"translation": text}]) for number, text in translations.items()
        ]
        return make_run(
            name, records, settings=f"data: {{source_lang: {languages[:2]}, target_lang: {languages[3:]}}}\n"
        )

    runs = [run("none", "de-cs"), run("one", "en-de", u1000="Ein", u2000="Ein Hund"), run("two", "en-de", u500="Der")]
    page = parsed(run_report(runs))
    after = page.text.partition("Sample translations")[2].partition("Settings")[0].split("\n")
    assert [word for word in after if word] == [
        "source", "A dog.", "reference", "Ein Hund.", "update", "one", "two", "500", "Der", "1,000", "Ein",
        "2,000", "Ein Hund",
    ]  # fmt: skip
    marked = [attributes.get("lang") for attributes in page.having("span") if "dir" in attributes]
    assert (marked[0], set(marked[1:])) == ("en", {"de"})


def test_data_sets_are_described_once(make_run, parsed):
    manifests = {"tiny.json": manifest_of()}
    text = parsed(run_report([make_run(name, TOY, manifests=manifests) for name in ("one", "two")])).text
    words = text.partition("\nData\n")[2].split("\n")
    assert {"tiny", "en → de", "CC0", "29,000"} <= set(words)
    assert text.count("f00d") == 1


def test_events_stand_in_the_order_of_their_updates_and_are_cut_short(make_run, parsed):
    many = [event(number, "skipped", "again") for number in range(30, 730)]
    run = make_run("toy", [start(), event(15, "skipped", "first"), start(20), event(25, "skipped", "second"), *many])
    words = parsed(run_report([run])).text.partition("\nEvents\n")[2].split("\n")
    found = [word for word in words if word in ("started", "resumed", "first", "second")]
    assert found == ["started", "first", "resumed", "second"]
    assert words.count("again") == 496
    assert "And 204 more." in words


def test_the_page_of_a_long_run_stays_small(make_run):
    run = make_run("long", [update(number, loss=math.sin(number)) for number in range(1, 30_001)])
    assert len(run_report([run])) < 400_000


def test_what_is_no_run_is_refused(make_run, tmp_path):
    with pytest.raises(CheckpointError, match="there is no such run"):
        run_report([tmp_path / "nowhere"])
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"file: there is no such run\.$"):
        run_report([tmp_path / "file"])
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "config.yaml").write_text("{}")
    with pytest.raises(CheckpointError, match=r"holds no metrics\.jsonl"):
        run_report([tmp_path / "bundle"])
    run = make_run("toy", TOY)
    with pytest.raises(ConfigError, match="given twice"):
        run_report([run, run / ".." / "toy"])


def test_looking_at_a_run_does_not_make_it_the_newest(make_run, tmp_path):
    old, new = make_run("old", TOY), make_run("new", TOY)
    for run, when in ((old, 1_000_000), (new, 2_000_000)):
        for path in (*run.iterdir(), run):
            os.utime(path, (when, when))
    write_run_report([old], old / "report.html")
    assert (old / "report.html").is_file()
    assert newest_run(tmp_path / "runs") == new
