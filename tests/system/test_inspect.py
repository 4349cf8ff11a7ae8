"""``nmt inspect``: from a score back to the archives and what changed on the way."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import typer.main

from nmt.checkpoint.bundle import load_bundle
from nmt.checkpoint.bundle_files import BundleFolder
from nmt.cli.app import app
from nmt.data.lineage import encoded_record
from nmt.io.hashing import sha256_of
from nmt.lineage import comparing
from nmt.record import parse_record


@pytest.fixture(scope="module")
def scored(trained_once, nmt_apart, tmp_path_factory) -> Path:
    """A folder with a whole lineage: data, run, average, translation and the JSON of its score."""
    folder = tmp_path_factory.mktemp("lineage") / "work"
    shutil.copytree(trained_once, folder, symlinks=True)
    for language in ("en", "de"):
        lines = (folder / "data/toy-en-de" / f"test.{language}").read_text("utf-8").splitlines(keepends=True)
        (folder / f"few.{language}").write_text("".join(lines[:20]), "utf-8")
    model = ["--model", "runs/toy-en-de-tiny/average"]
    nmt_apart("translate", *model, "--input", "few.en", "--output", "out.de", "--beam", "2", "--no-guard", cwd=folder)
    nmt_apart("score", "--json", "--reference", "few.de", "out.de", cwd=folder, redirected="score.json")
    return folder


@pytest.fixture
def work(scored, tmp_path) -> Path:
    """A copy of that folder."""
    shutil.copytree(scored, tmp_path / "work", symlinks=True)
    return tmp_path / "work"


def links(link: dict) -> list[dict]:
    return [link, *(each for part in link.get("made_from", ()) for each in links(part))]


def test_a_score_leads_back_to_checksums_and_licences(work, nmt):
    found = links(json.loads(nmt("inspect", "--json", "score.json", cwd=work).stdout))
    kinds = [link["kind"] for link in found]
    assert kinds[:3] == ["score", "translation", "average"]
    assert {"checkpoint", "training", "data set", "vocabulary", "file", "text"} <= set(kinds)
    assert {link["state"] for link in found} == {"unchanged", "not checked"}  # score and training are no files
    [data] = [link for link in found if link["kind"] == "data set"]
    manifest = json.loads((work / "data/toy-en-de/manifest.json").read_text())
    assert data["facts"]["licence"] == manifest["licence"]
    archives = {Path(link["name"]).name: link["facts"]["sha256"] for link in found if link["kind"] == "file"}
    assert archives == {Path(source["file"]).name: source["sha256"] for source in manifest["sources"]}
    text = nmt("inspect", "score.json", cwd=work).stdout
    assert "translation: out.de  [unchanged]" in text
    assert "average: runs/toy-en-de-tiny/average  [unchanged]" in text
    assert f"licence: {manifest['licence']}" in text


def test_every_recorded_command_is_one_that_can_be_typed(work):
    record = json.loads((work / "score.json").read_text("utf-8"))["lineage"]
    typed = {link["command"][0]: link["command"] for link in links(record) if link.get("command")}
    assert typed.keys() >= {"score", "translate", "average-checkpoints", "train", "build-vocab", "prepare-data"}
    for name, *words in typed.values():
        typer.main.get_command(app).commands[name].make_context(name, words)


def test_the_json_holds_numbers_as_numbers_and_the_text_as_people_read_them(work, nmt):
    found = links(json.loads(nmt("inspect", "--json", "score.json", cwd=work).stdout))
    facts = {link["kind"]: link["facts"] for link in found}
    manifest = json.loads((work / "data/toy-en-de/manifest.json").read_text())
    pairs = {f"{split} pairs": manifest["files"][f"{split}.en"]["lines"] for split in ("train", "valid", "test")}
    assert facts["data set"].items() >= pairs.items()
    sizes = {link["facts"]["bytes"] for link in found if link["kind"] == "file"}
    assert sizes == {source["bytes"] for source in manifest["sources"]}
    assert facts["vocabulary"].items() >= {"model type": "bpe", "pieces": 1256, "maximum pieces per side": 256}.items()
    assert facts["training"]["ranks"] == 1
    # The length penalty is shown though it is the usual one.
    assert "--beam=2 --length-penalty=0.6" in facts["translation"]["command"]
    [score] = json.loads((work / "score.json").read_text())["systems"][0]["scores"]
    assert facts["score"]["BLEU of out.de"] == score["value"]
    text = nmt("inspect", "score.json", cwd=work).stdout
    for name, count in pairs.items():
        assert f"    {name}: {count:,}\n" in text
    assert "model type: bpe\n" in text
    assert "pieces: 1,256\n" in text
    assert f"BLEU of out.de: {score['value']:.4g}\n" in text


def test_a_run_shows_how_good_and_how_large_its_model_is(work, nmt):
    """The best checkpoint is not the last, and the average is validated by itself."""
    run = work / "runs/toy-en-de-tiny"
    parameters = sum(tensor.numel() for tensor in load_bundle(run / "average").weights.values())
    scores = {update: {"loss": 1.5, "bleu": bleu} for update, bleu in ((20, 77.25), (40, 3.5), (60, 2.25))}
    for step in (run / "checkpoints").iterdir():
        path = step / "training.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"scores": scores}))
    (run / "best").unlink()
    (run / "best").symlink_to("checkpoints/step-00000020")
    notes = json.loads((run / "average/notes.json").read_text())
    (run / "average/notes.json").write_text(json.dumps(notes | {"validation": {"loss": 1.5, "bleu": 88.125}}))
    facts = json.loads(nmt("inspect", "--json", run, cwd=work, check=False).stdout)["facts"]
    assert facts["best checkpoint"] == "step-00000020, BLEU 77.25"
    assert facts["validation BLEU"] == 88.125
    weights = run / "average/model.safetensors"
    assert facts["parameters"] == parameters
    assert facts["bytes of the weights"] == weights.stat().st_size
    text = nmt("inspect", run, cwd=work, check=False).stdout
    assert "    best checkpoint: step-00000020, BLEU 77.25\n    validation BLEU: 88.12\n    parameters: " in text
    step = json.loads(nmt("inspect", "--json", run / "checkpoints/step-00000040", cwd=work, check=False).stdout)
    assert step["facts"]["validation BLEU"] == 3.5


def test_what_filters_dropped_is_a_number_each(work, nmt):
    path = work / "data/toy-en-de/manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"filters": {"ratio": 1234, "html": 5, "empty": 0}}))
    [data] = json.loads(nmt("inspect", "--json", "data/toy-en-de", cwd=work).stdout)["made_from"]
    assert {name: fact for name, fact in data["facts"].items() if name.startswith("dropped by")} == {
        "dropped by ratio": 1234,
        "dropped by html": 5,
    }
    assert "    dropped by ratio: 1,234\n" in nmt("inspect", "data/toy-en-de", cwd=work).stdout


def test_the_page_shows_the_lineage_and_changes_set_the_exit_code(work, nmt):
    result = nmt("inspect", "score.json", "--out", "lineage.html", cwd=work)
    assert result.stdout == ""
    assert "written: lineage.html" in result.stderr
    page = (work / "lineage.html").read_text("utf-8")
    for words in ("translation: out.de", "average: runs/toy-en-de-tiny/average", "vocabulary: ", "1,256"):
        assert words in page
    assert "Changes" not in page
    (work / "few.de").write_text("anders\n")
    changed = nmt("inspect", "score.json", "--out", "lineage.html", cwd=work, check=False)
    assert changed.returncode == 1
    assert "Changes" in (work / "lineage.html").read_text("utf-8")
    both = nmt("inspect", "score.json", "--out", "lineage.html", "--json", cwd=work, check=False)
    assert both.returncode == 2
    assert "--json prints, and --out lineage.html writes: give one." in both.stderr


CHANGED = [
    "out.de", "few.en", "few.de", "runs/toy-en-de-tiny/average/model.safetensors",
    "runs/toy-en-de-tiny/average/vocab.model", "runs/toy-en-de-tiny/checkpoints/step-00000040/model.safetensors",
    "data/toy-en-de/train.de", "data/toy-en-de/vocab.model",
]  # fmt: skip


@pytest.mark.parametrize("file", CHANGED)
def test_one_changed_byte_is_named(work, nmt, file):
    content = bytearray((work / file).read_bytes())
    content[len(content) // 2] ^= 1
    (work / file).write_bytes(content)
    result = nmt("inspect", "score.json", cwd=work, check=False)
    assert result.returncode == 1
    assert f"warning: the sha256 of {file} is not " in result.stderr
    assert sha256_of(work / file) not in result.stderr + result.stdout
    assert result.stdout.count("[CHANGED]") == 1


def test_an_archive_that_changed_in_the_cache_is_named(work, nmt):
    manifest = json.loads((work / "data/toy-en-de/manifest.json").read_text())
    url = "https://example.org/corpora/text.en.gz"
    manifest["sources"].append({"file": "text.en.gz", "url": url, "sha256": "0" * 64, "bytes": 3})
    (work / "data/toy-en-de/manifest.json").write_text(json.dumps(manifest))
    absent = nmt("inspect", "data/toy-en-de", cwd=work, XDG_CACHE_HOME=str(work / "cache"))
    assert "archive: text.en.gz  [not here]" in absent.stdout
    assert f"url: {url}" in absent.stdout
    cached = work / "cache/nmt/example.org/corpora/text.en.gz"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(b"abc")
    result = nmt("inspect", "data/toy-en-de", cwd=work, check=False, XDG_CACHE_HOME=str(work / "cache"))
    assert result.returncode == 1
    assert "text.en.gz is" in result.stderr


def test_a_copied_bundle_still_says_where_it_comes_from(work, nmt, tmp_path):
    shutil.copytree(work / "runs/toy-en-de-tiny/average", tmp_path / "away")
    found = links(json.loads(nmt("inspect", "--json", "away", cwd=tmp_path).stdout))
    states = {link["kind"]: link["state"] for link in found}
    assert states["average"] == "unchanged"
    assert states["data set"] == states["vocabulary"] == states["checkpoint"] == "not checked"
    assert states["file"] == "unchanged"  # of this program


def test_what_was_moved_alone_is_not_compared_with_other_files_that_lie_at_its_paths(work, nmt, tmp_path):
    """Equal files are recognised, wherever they are."""
    away = tmp_path / "away"
    shutil.copytree(work / "data/toy-en-de", away / "data/toy-en-de")
    shutil.copytree(work / "runs/toy-en-de-tiny/average", away / "model")
    shutil.copy(work / "score.json", away / "copied.json")
    (away / "few.de").write_text("anders\n")
    (away / "data/toy-en-de/vocab.model").write_bytes(b"another")
    for path, not_checked in (("model", {"vocabulary"}), ("copied.json", {"vocabulary", "text", "translation"})):
        result = nmt("inspect", path, cwd=away)
        assert "vocabulary: data/toy-en-de  [not checked: the folder of this path is not known" in result.stdout
        assert "data set: data/toy-en-de  [unchanged]" in result.stdout
        found = links(json.loads(nmt("inspect", "--json", path, cwd=away).stdout))
        why = {link["kind"] for link in found if link["why_not_checked"]}
        assert why >= not_checked
        assert "data set" not in why
        nmt("inspect", path, "--out", "page.html", cwd=away)
        assert "the folder of this path is not known" in (away / "page.html").read_text()


def test_what_is_made_from_a_moved_model_is_not_compared_with_other_files_either(work, nmt):
    (work / "runs/toy-en-de-tiny/average").rename(work / "model")
    (work / "data/toy-en-de/vocab.model").unlink()
    (work / "data/toy-en-de/train.de").write_text("anders\n")
    nmt("translate", "-m", "model", "--input", "few.en", "--output", "new.de", "--beam", "1", cwd=work)
    states = {
        link["kind"]: link["state"] for link in links(json.loads(nmt("inspect", "--json", "new.de", cwd=work).stdout))
    }
    assert states["translation"] == states["average"] == states["text"] == "unchanged"
    assert states["vocabulary"] == states["data set"] == "not checked"


def test_a_score_from_a_pipe_does_not_say_where_its_files_lie(work, nmt):
    (work / "piped.json").write_text(nmt("score", "--json", "--reference", "few.de", "out.de", cwd=work).stdout)
    assert "translation: out.de  [unchanged]" in nmt("inspect", "piped.json", cwd=work).stdout
    (work / "out.de").write_text("anders\n")
    assert "translation: out.de  [not checked: " in nmt("inspect", "piped.json", cwd=work).stdout


@pytest.mark.parametrize(
    "file",
    [
        "runs/toy-en-de-tiny/average/notes.json", "runs/toy-en-de-tiny/checkpoints/step-00000060/training.json",
        "data/toy-en-de/valid.en",
    ],
)  # fmt: skip
def test_a_missing_file_of_a_folder_is_a_change(work, nmt, file):
    (work / file).unlink()
    result = nmt("inspect", str(Path(file).parent), cwd=work, check=False)
    assert result.returncode == 1
    assert result.stderr == f"warning: {file} is missing\n"
    assert result.stdout.count("[CHANGED]") == 1


def test_the_lineage_of_a_folder_that_was_moved_whole_is_found_from_elsewhere(work, nmt):
    """Paths are those of the folder in which the commands were run."""
    text = nmt("inspect", "work/runs/toy-en-de-tiny", cwd=work.parent).stdout
    assert "vocabulary: work/data/toy-en-de  [unchanged]" in text
    assert "--data=work/data/toy-en-de:1.0" in text
    (work / "runs/elsewhere").mkdir()
    assert "data set: ../../data/toy-en-de" not in text
    inside = nmt("inspect", "../../out.de", cwd=work / "runs/elsewhere").stdout
    assert f"data set: {work / 'data/toy-en-de'}  [unchanged]" in inside


def test_a_data_set_of_several_models_is_read_once(work, monkeypatch):
    record = json.loads((work / "score.json").read_text())["lineage"]
    parts = record["made_from"][0]["made_from"]
    parts.append(parts[0])
    read = []
    comparing._sha256.cache_clear()
    monkeypatch.setattr(comparing, "sha256_of", lambda path: read.append(path.name) or sha256_of(path))
    monkeypatch.chdir(work)
    found = list(comparing.lineage_of(parse_record(record, "score.json")).all())
    assert [link.state for link in found if link.kind == "data set"] == ["unchanged", "unchanged"]
    assert read.count("train.de") == 1


AVERAGE = "average: runs/toy-en-de-tiny/average"
BEHIND = ["training: ", "vocabulary: ", "data set: ", "file: "]


@pytest.mark.parametrize(
    ("path", "kinds"),
    [
        ("runs/toy-en-de-tiny/average", [AVERAGE, "checkpoint: ", *BEHIND]),
        ("runs/toy-en-de-tiny/last", ["checkpoint: runs/toy-en-de-tiny/last", *BEHIND]),
        ("data/toy-en-de", ["vocabulary: data/toy-en-de", "data set: data/toy-en-de", "file: "]),
        ("data/toy-en-de/vocab.model", ["vocabulary: data/toy-en-de", "data set: data/toy-en-de", "file: "]),
        ("out.de", ["translation: out.de", AVERAGE, "checkpoint: ", *BEHIND]),
    ],
)
def test_everything_can_be_inspected(work, nmt, path, kinds):
    lines = [line.strip() for line in nmt("inspect", path, cwd=work).stdout.splitlines()]
    there = [kind for kind in kinds if any(line.startswith(kind) for line in lines)]
    assert there == kinds
    assert lines[0].startswith(kinds[0])


def test_a_bundle_without_checksums_is_not_called_unchanged(work, nmt):
    (work / "runs/toy-en-de-tiny/average/checksums.json").unlink()
    result = nmt("inspect", "runs/toy-en-de-tiny/average", cwd=work)
    assert "average: runs/toy-en-de-tiny/average\n" in result.stdout
    assert "checksums.json is missing or damaged, so its files cannot be checked" in result.stdout


BUNDLE = "runs/toy-en-de-tiny/average"


@pytest.mark.parametrize(
    ("file", "content", "inspected", "says"),
    [
        (".out.de.nmt.json", '{"version": 1}', "out.de", ".out.de.nmt.json is damaged: it is no record with a sha256"),
        (f"{BUNDLE}/notes.json", "{", BUNDLE, "notes.json: is damaged"),
        (f"{BUNDLE}/notes.json", '{"record": {"made_from": [{"name": 3}]}}', BUNDLE, "its lineage is damaged"),
        ("few.en", "x", "few.de", "has no lineage"),
        ("few.en", "x", "runs", "runs: has no lineage. Name one that it holds: runs/toy-en-de-tiny"),
        ("few.en", "x", "data", "data: has no lineage. Name one that it holds: data/toy-en-de"),
        ("few.en", "x", "nothing", "there is no such file"),
    ],
)
def test_what_has_no_lineage_or_a_damaged_one_is_an_error(work, nmt, file, content, inspected, says):
    (work / file).write_text(content)
    result = nmt("inspect", inspected, cwd=work, check=False)
    assert result.returncode == 2
    assert says in result.stderr


def test_a_hypothesis_that_changed_before_it_was_scored_is_a_text(work, nmt):
    (work / "out.de").write_text((work / "out.de").read_text("utf-8") + "\n", "utf-8")
    (work / "few.de").write_text((work / "few.de").read_text("utf-8") + "x\n", "utf-8")
    score = nmt("score", "--json", "--reference", "few.de", "out.de", cwd=work).stdout
    (work / "other.json").write_text(score)
    text = nmt("inspect", "other.json", cwd=work).stdout
    assert "text: out.de" in text
    assert "model:" not in text


def test_nothing_is_known_of_a_bundle_without_a_record(work, nmt):
    average = BundleFolder(work / BUNDLE)
    average.notes.write_text('{"averaged": ["step-00000040"]}')
    checksums = json.loads(average.checksums.read_text())
    average.checksums.write_text(json.dumps(checksums | {average.notes.name: sha256_of(average.notes)}))
    assert "made by: unknown" in nmt("inspect", average.path, cwd=work).stdout


@pytest.fixture
def own_sets(nmt, tmp_path):
    """Two data sets without a vocabulary."""
    for name, target, pairs in (("large", "de", 300), ("little", "fr", 40)):
        text = "".join(f"sentence {n} of {name}\t{target} Satz {n * n}\n" for n in range(pairs))
        (tmp_path / f"{name}.tsv").write_text(text)
        languages = ("--source-lang", "en", "--target-lang", target)
        nmt("prepare-data", name, "--train", f"{name}.tsv", *languages, cwd=tmp_path)
    return tmp_path


def test_a_joint_vocabulary_leads_to_all_its_data_sets(own_sets, nmt):
    both = ("--data", "data/large", "--data", "data/little")
    nmt("build-vocab", *both, "--size", "90", "--sampling-temperature", "3", cwd=own_sets)
    text = nmt("inspect", "data/little", cwd=own_sets).stdout
    assert "sampling temperature: 3\n" in text
    assert "    data set: data/large  [unchanged]" in text
    assert f"file: {own_sets / 'large.tsv'}" in text
    # Text of another member that changed is named.
    (own_sets / "data/large/train.de").write_text("changed\n")
    result = nmt("inspect", "data/little", cwd=own_sets, check=False)
    assert result.returncode == 1
    assert "the sha256 of data/large/train.de is not " in result.stderr


def test_a_vocabulary_that_is_given_back_keeps_its_record(own_sets, nmt):
    nmt("build-vocab", "--data", "data/large", "--size", "80", cwd=own_sets)
    given = ("--vocab", "data/large/vocab.model")
    nmt("build-vocab", "--data", "data/little", *given, "--max-pieces", "90", cwd=own_sets)
    # It was trained on this text.
    nmt("build-vocab", "--data", "data/large", "--vocab", "data/little/vocab.model", "--max-pieces", "80", cwd=own_sets)
    for name, is_given in (("little", True), ("large", False)):
        assert ("trained: no: given" in nmt("inspect", f"data/{name}", cwd=own_sets).stdout) == is_given


def test_a_given_vocabulary_is_found_from_elsewhere_and_is_not_another_one_at_its_path(own_sets, nmt):
    nmt("build-vocab", "--data", "data/large", "--size", "80", cwd=own_sets)
    nmt("build-vocab", "--data", "data/little", "--vocab", "data/large/vocab.model", cwd=own_sets)
    (own_sets / "elsewhere").mkdir()
    moved = nmt("inspect", "../data/little", cwd=own_sets / "elsewhere").stdout
    assert f"vocabulary: {own_sets}/data/large  [unchanged]" in moved
    shutil.copytree(own_sets / "data/little", own_sets / "elsewhere/copied")
    shutil.copytree(own_sets / "data/large", own_sets / "elsewhere/data/large")
    (own_sets / "elsewhere/data/large/vocab.model").write_bytes(b"another")
    copied = nmt("inspect", "copied", cwd=own_sets / "elsewhere").stdout
    assert "vocabulary: data/large  [not checked: " in copied


def test_data_encoded_with_the_vocabulary_of_a_bundle_leads_to_its_data(work, nmt):
    text = "".join(f"sentence {n}\tSatz {n}\n" for n in range(100))
    (work / "own.tsv").write_text(text)
    nmt("prepare-data", "own", "--train", "own.tsv", "--source-lang", "en", "--target-lang", "de", cwd=work)
    shutil.move(work / "data/toy-en-de", work / "gone")  # the bundle alone says it
    nmt("build-vocab", "--data", "data/own", "--vocab", "runs/toy-en-de-tiny", cwd=work)
    text = nmt("inspect", "data/own", cwd=work).stdout
    assert "trained: no: given" in text and "vocabulary: data/toy-en-de  [not here]" in text


def test_a_vocabulary_from_elsewhere_is_read_where_it_is(own_sets, nmt):
    nmt("build-vocab", "--data", "data/large", "--size", "80", cwd=own_sets)
    away = own_sets / "away.model"
    shutil.copy(own_sets / "data/large/vocab.model", away)
    nmt("build-vocab", "--data", "data/little", "--vocab", "away.model", cwd=own_sets)
    assert f"file: {away}  [unchanged]" in nmt("inspect", "data/little", cwd=own_sets).stdout


def test_an_average_records_the_checkpoints_that_it_was_made_from(work, nmt, monkeypatch):
    """The best checkpoints are seldom the last: here the first and the last of three."""
    monkeypatch.chdir(work)
    run = "runs/toy-en-de-tiny"
    nmt("average-checkpoints", run, "--updates", "60,20", "--out", "chosen", cwd=work)
    notes = json.loads((work / "chosen/notes.json").read_text())
    parts = notes["record"]["made_from"]
    assert [Path(part["path"]).name for part in parts] == ["step-00000020", "step-00000060", "toy-en-de-tiny"]
    shown = nmt("inspect", "chosen", cwd=work).stdout
    assert "command: nmt average-checkpoints runs/toy-en-de-tiny --updates=20,60 --out=chosen" in shown
    nmt("average-checkpoints", run, "--best", "2", "--out", "best", cwd=work)
    best = json.loads((work / "best/notes.json").read_text())["record"]
    updates = ",".join(str(int(part["path"][-8:])) for part in best["made_from"][:-1])
    assert best["command"] == ["average-checkpoints", run, f"--updates={updates}", "--out=best"]
    for words, says in (
        (("--updates", "20,30"), "has no checkpoint of update 30, but of 20, 40, 60"),
        (("--updates", "20", "--last", "2"), "--last and --updates were both given"),
    ):
        refused = nmt("average-checkpoints", run, *words, "--out", "other", cwd=work, check=False)
        assert (refused.returncode, says in refused.stderr) == (2, True)


@pytest.mark.parametrize("name", ["piped.model", "piped"])
def test_a_vocabulary_from_a_pipe_is_read_once(own_sets, nmt, name):
    nmt("build-vocab", "--data", "data/large", "--size", "80", cwd=own_sets)
    model = own_sets / "data/large/vocab.model"
    os.mkfifo(own_sets / name)
    with subprocess.Popen(["sh", "-c", f"exec cat data/large/vocab.model > {name}"], cwd=own_sets) as writer:
        nmt("build-vocab", "--data", "data/little", "--vocab", name, cwd=own_sets)
        assert writer.wait() == 0
    assert sha256_of(own_sets / "data/little/vocab.model") == sha256_of(model)
    missing = nmt("build-vocab", "--data", "data/little", "--vocab", "missing.model", cwd=own_sets, check=False)
    assert missing.returncode == 2
    assert missing.stderr.endswith("error: missing.model: cannot be read (No such file or directory).\n")


def test_samples_of_dropped_pairs_stay_with_the_data(nmt, tmp_path):
    """A bundle may be passed on, and the text of its corpus may be private."""
    text = "".join(f"sentence {n}\tSatz {n}\n" for n in range(200)) + "<b>secret</b>\tgeheim\n"
    (tmp_path / "own.tsv").write_text(text)
    options = ("--source-lang", "en", "--target-lang", "de", "--filter", "html")
    nmt("prepare-data", "own", "--train", "own.tsv", *options, cwd=tmp_path)
    assert "secret" in (tmp_path / "data/own/manifest.json").read_text()
    nmt("build-vocab", "--data", "data/own", "--size", "60", cwd=tmp_path)
    assert "secret" not in json.dumps(encoded_record(tmp_path / "data/own").stored())
