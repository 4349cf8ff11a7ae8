"""The functions of the Python API do what the commands do, in silence, and raise what the commands print."""

import json
import runpy
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import nmt
from nmt.training.progress import Ending, Progress
from nmt.training.run import Outcome
from tests.training.ranks.test_launch import forked

# An untrained model writes loops, to which a wide search and the guard would give minutes.
QUICK = {"beam": 1, "guard": False, "max_extra_length": 0, "threads": 1}
EXAMPLE = Path(__file__).parents[2] / "examples" / "python-api" / "end_to_end.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, trained_once):
    """What the example leaves behind, with a short training. Commands prepared and encoded its data."""
    folder = tmp_path_factory.mktemp("python")
    shutil.copytree(trained_once / "data", folder / "data")
    score = runpy.run_path(str(EXAMPLE))["main"](folder, max_updates=4, **QUICK)
    assert 0 <= score <= 100
    return folder


def test_a_second_call_finds_all_up_to_date(folder):
    data, run = folder / "data" / "toy-en-de", folder / "runs" / "toy"
    prepared = nmt.prepare_data("toy-en-de", out=str(data))
    assert (prepared.changed, prepared.manifest.name) == (False, "toy-en-de")
    [built] = nmt.build_vocab(data)
    assert not built.changed
    training = nmt.train(data, preset="tiny", out=run, max_updates=4, set="schedule.warmup=200")
    assert (training.run, training.outcome.was_over, training.outcome.ending) == (run, True, Ending.UPDATES)
    written = nmt.translate_file(data / "test.en", folder / "hypothesis.de", model=run, **QUICK)
    assert (written.changed, written.output) == (False, folder / "hypothesis.de")
    command = json.loads((folder / ".hypothesis.de.nmt.json").read_text("utf-8"))["record"]["command"]
    assert {"--beam=1", "--no-guard", "--max-extra-length=0", f"--input={data / 'test.en'}"} < set(command)


def test_a_run_gets_what_was_asked_for(folder, tmp_path, monkeypatch):
    heard = []

    def train(data, run, listener, **how):
        heard.append((list(data.sets.folders), run, data.config, how))
        return Outcome(run, Ending.INTERRUPTED, False, Progress(), 2)

    monkeypatch.setattr("nmt.training.run.train", train)
    monkeypatch.chdir(tmp_path)
    data, run = folder / "data" / "toy-en-de", folder / "runs" / "toy"
    shutil.copytree(data, "copy")
    how = {"fresh": True, "accept_changes": True, "init_from": run}
    settings = {"seed": 0, "threads": 1, "device": "cpu", "precision": "fp32", "max_minutes": 1.5}
    for language in ("en", "de"):  # what the other is trained on
        shutil.copy(data / f"train.{language}", f"copy/test.{language}")
    with pytest.warns(nmt.NmtWarning, match="toy-en-de: its training text has a sentence of .* of copy, so scores"):
        training = nmt.train([f"{data}:2", "copy"], **how, **settings, set="training.patience=3")
    assert training.exit_code == 130
    # A mixture does not collide with the run of its first data set.
    assert heard == [([data, Path("copy")], Path("runs/toy-en-de+toy-en-de-tuned"), training.config, how)]
    assert [part.weight for part in training.config.data.parts] == [2, 1]
    expected = {**settings, "patience": 3, "max_updates": None}
    assert {name: getattr(training.config.training, name) for name in expected} == expected


@pytest.mark.parametrize("nproc", [1, 2])
def test_a_run_is_trained_in_any_thread(folder, tmp_path, monkeypatch, nproc):
    forked(monkeypatch, tmp_path)
    how = {"preset": "tiny", "max_updates": 2, "threads": 1, "device": "cpu", "set": "schedule.warmup=2"}
    with ThreadPoolExecutor() as pool:
        training = pool.submit(nmt.train, folder / "data/toy-en-de", out=tmp_path / "run", nproc=nproc, **how).result()
    assert training.exit_code == 0
    assert (tmp_path / "run/last").exists()


def test_data_and_vocabulary_get_what_was_asked_for(folder, tmp_path):
    for language in ("en", "de"):
        lines = (folder / "data/toy-en-de" / f"valid.{language}").read_text("utf-8").splitlines(keepends=True)
        for name, begin, end in (("c", 0, 90), ("v", 90, 120), ("t", 120, 150)):
            (tmp_path / f"{name}.{language}").write_text("".join(lines[begin:end]), "utf-8")
    pair = {"train": [tmp_path / "c.en", tmp_path / "c.de"]}
    filters = {"max_words": 20, "max_ratio": 0, "dedup": False, "filter": ["html"]}
    held = {"valid": tmp_path / "v", "test": tmp_path / "t"}
    prepared = nmt.prepare_data("mine-en-de", out=tmp_path / "mine", **pair, **held, **filters, jobs=1)
    found = prepared.recipe.filters
    assert (found.max_words, found.max_ratio, found.dedup, found.html) == (20, None, False, True)
    assert prepared.manifest.files["train.en"].lines == 90
    apart = nmt.prepare_data("mine-en-de", **pair, apart_from=[tmp_path / "mine"], show_recipe=True)
    assert apart.recipe.apart_from == [str(tmp_path / "mine")]
    trained = {"size": 80, "model_type": "unigram", "character_coverage": 0.99, "normalization": "nfkc"}
    trained |= {"source_normalization": "nmt_nfkc", "byte_fallback": False}
    [built] = nmt.build_vocab(tmp_path / "mine", **trained, max_pieces=30, threads=1)
    assert built.record.settings.items() >= trained.items()
    assert (built.index.max_pieces, built.index.steps.rule) == (30, "nmt_nfkc")


def test_targets_are_scored_and_systems_compared_in_silence(folder, capsys):
    source, reference, output = (folder / f"short.{name}" for name in ("en", "de", "hypothesis"))
    whole = (folder / "data/toy-en-de/test.en", folder / "data/toy-en-de/test.de", folder / "hypothesis.de")
    for path, short in zip(whole, (source, reference, output), strict=True):
        short.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[:50]), "utf-8")
    scored = nmt.score_target(source, folder / "scores", target=reference, model=folder / "runs/toy", length_penalty=0)
    assert scored.entries == len((folder / "scores").read_text("utf-8").splitlines()) == 50
    compared = nmt.compare(output, reference, reference=reference, out=str(folder / "page.html"))
    assert compared.found.totals.lines == 50
    assert (folder / "page.html").is_file()
    sheet = nmt.score([output, reference], reference=reference, sheet=True).found
    assert list(sheet.systems) == [str(output), str(reference)]
    assert capsys.readouterr() == ("", "")


def test_what_looks_wrong_is_a_warning_of_python(folder):
    reference = folder / "data/toy-en-de/test.de"
    with pytest.warns(nmt.NmtWarning, match="^english: no language code of ISO 639"):
        nmt.score(reference, reference=reference, target_lang="english", metric="chrf")
