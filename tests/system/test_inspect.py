"""``nmt inspect``: from a score back to the archives, what changed on the way, and a script that makes it again."""

import copy
import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from nmt.checkpoint.bundle import load_bundle
from nmt.checkpoint.bundle_files import BundleFolder
from nmt.data.lineage import encoded_record
from nmt.errors import DataError
from nmt.io.hashing import sha256_of
from nmt.lineage.chain import chain as chain_of
from nmt.lineage.link import link_of
from nmt.lineage.scores import score_record
from nmt.lineage.script import script_for
from nmt.record import Record, parse_record
from tests.commands import nmt_for_scripts


@pytest.fixture(scope="module")
def scored(trained_once, nmt, tmp_path_factory) -> Path:
    """A folder with the whole chain: data, run, average, translation and the JSON of its score."""
    folder = tmp_path_factory.mktemp("chain") / "work"
    shutil.copytree(trained_once, folder, symlinks=True)
    for language in ("en", "de"):
        lines = (folder / "data/toy-en-de" / f"test.{language}").read_text("utf-8").splitlines(keepends=True)
        (folder / f"few.{language}").write_text("".join(lines[:20]), "utf-8")
    model = ["--model", "runs/toy-en-de-tiny/average"]
    nmt("translate", *model, "--input", "few.en", "--output", "out.de", "--beam", "2", "--no-guard", cwd=folder)
    nmt("score", "--json", "--reference", "few.de", "out.de", cwd=folder, redirected="score.json")
    return folder


@pytest.fixture
def chain(scored, tmp_path) -> Path:
    """A copy of that folder."""
    shutil.copytree(scored, tmp_path / "work", symlinks=True)
    return tmp_path / "work"


def links(link: dict) -> list[dict]:
    return [link, *(each for part in link["made_from"] for each in links(part))]


def test_nothing_is_known_of_standard_input_where_a_file_has_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("-", "reference.de"):
        Path(name).write_text("Eine Zeile.\n", "utf-8")
    hypothesis, reference = score_record([Path("-")], [Path("reference.de")], {}).made_from
    assert hypothesis.files == {}
    assert reference.files == {".": sha256_of(Path("reference.de"))}


def test_a_score_leads_back_to_checksums_and_licences(chain, nmt):
    found = links(json.loads(nmt("inspect", "--json", "score.json", cwd=chain).stdout))
    kinds = [link["kind"] for link in found]
    assert kinds[:3] == ["score", "translation", "average"]
    assert {"checkpoint", "training", "data set", "vocabulary", "file", "text"} <= set(kinds)
    assert {link["state"] for link in found} == {"unchanged", "not checked"}  # score and training are no files
    [data] = [link for link in found if link["kind"] == "data set"]
    manifest = json.loads((chain / "data/toy-en-de/manifest.json").read_text())
    assert data["facts"]["licence"] == manifest["licence"]
    archives = {Path(link["name"]).name: link["facts"]["sha256"] for link in found if link["kind"] == "file"}
    assert archives == {Path(source["file"]).name: source["sha256"] for source in manifest["sources"]}
    text = nmt("inspect", "score.json", cwd=chain).stdout
    assert "translation: out.de  [unchanged]" in text
    assert "average: runs/toy-en-de-tiny/average  [unchanged]" in text
    assert f"licence: {manifest['licence']}" in text


def test_the_json_holds_numbers_as_numbers_and_the_text_as_people_read_them(chain, nmt):
    found = links(json.loads(nmt("inspect", "--json", "score.json", cwd=chain).stdout))
    facts = {link["kind"]: link["facts"] for link in found}
    manifest = json.loads((chain / "data/toy-en-de/manifest.json").read_text())
    pairs = {f"{split} pairs": manifest["files"][f"{split}.en"]["lines"] for split in ("train", "valid", "test")}
    assert facts["data set"].items() >= pairs.items()
    sizes = {link["facts"]["bytes"] for link in found if link["kind"] == "file"}
    assert sizes == {source["bytes"] for source in manifest["sources"]}
    assert facts["vocabulary"].items() >= {"model type": "bpe", "pieces": 1256, "maximum pieces per side": 256}.items()
    assert facts["training"]["ranks"] == 1
    # The length penalty is shown though it is the usual one.
    assert "--beam=2 --length-penalty=0.6" in facts["translation"]["command"]
    [score] = json.loads((chain / "score.json").read_text())["systems"][0]["scores"]
    assert facts["score"]["BLEU of out.de"] == score["value"]
    text = nmt("inspect", "score.json", cwd=chain).stdout
    for name, count in pairs.items():
        assert f"    {name}: {count:,}\n" in text
    assert "model type: bpe\n" in text
    assert "pieces: 1,256\n" in text
    assert f"BLEU of out.de: {score['value']:.4g}\n" in text


def test_a_run_shows_how_good_and_how_large_its_model_is(chain, nmt):
    """The best checkpoint is not the last, and the average is validated by itself."""
    run = chain / "runs/toy-en-de-tiny"
    parameters = sum(tensor.numel() for tensor in load_bundle(run / "average").weights.values())
    scores = {20: 77.25, 40: 3.5, 60: 2.25}
    for step in (run / "checkpoints").iterdir():
        path = step / "training.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"scores": scores}))
    (run / "best").unlink()
    (run / "best").symlink_to("checkpoints/step-00000020")
    notes = json.loads((run / "average/notes.json").read_text())
    (run / "average/notes.json").write_text(json.dumps(notes | {"validation": {"loss": 1.5, "bleu": 88.125}}))
    facts = json.loads(nmt("inspect", "--json", run, cwd=chain, check=False).stdout)["facts"]
    assert facts["best checkpoint"] == "step-00000020, BLEU 77.25"
    assert facts["validation BLEU"] == 88.125
    weights = run / "average/model.safetensors"
    assert facts["parameters"] == parameters
    assert facts["bytes of the weights"] == weights.stat().st_size
    text = nmt("inspect", run, cwd=chain, check=False).stdout
    assert "    best checkpoint: step-00000020, BLEU 77.25\n    validation BLEU: 88.12\n    parameters: " in text
    step = json.loads(nmt("inspect", "--json", run / "checkpoints/step-00000040", cwd=chain, check=False).stdout)
    assert step["facts"]["validation BLEU"] == 3.5


def test_what_filters_dropped_is_a_number_each(chain, nmt):
    path = chain / "data/toy-en-de/manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"filters": {"ratio": 1234, "html": 5, "empty": 0}}))
    [data] = json.loads(nmt("inspect", "--json", "data/toy-en-de", cwd=chain).stdout)["made_from"]
    assert {name: fact for name, fact in data["facts"].items() if name.startswith("dropped by")} == {
        "dropped by ratio": 1234,
        "dropped by html": 5,
    }
    assert "    dropped by ratio: 1,234\n" in nmt("inspect", "data/toy-en-de", cwd=chain).stdout


def test_the_page_shows_the_chain_and_changes_set_the_exit_code(chain, nmt):
    result = nmt("inspect", "score.json", "--html", "chain.html", cwd=chain)
    assert result.stdout == ""
    assert "written: chain.html" in result.stderr
    page = (chain / "chain.html").read_text("utf-8")
    for words in ("translation: out.de", "average: runs/toy-en-de-tiny/average", "vocabulary: ", "1,256"):
        assert words in page
    assert "Changes" not in page
    (chain / "few.de").write_text("anders\n")
    changed = nmt("inspect", "score.json", "--html", "chain.html", cwd=chain, check=False)
    assert changed.returncode == 1
    assert "Changes" in (chain / "chain.html").read_text("utf-8")
    both = nmt("inspect", "score.json", "--html", "chain.html", "--json", cwd=chain, check=False)
    assert both.returncode == 2
    assert "--reproduce, --json and --html exclude each other. Give one." in both.stderr


CHANGED = [
    "out.de", "few.en", "few.de", "runs/toy-en-de-tiny/average/model.safetensors",
    "runs/toy-en-de-tiny/average/vocab.model", "runs/toy-en-de-tiny/checkpoints/step-00000040/model.safetensors",
    "data/toy-en-de/train.de", "data/toy-en-de/vocab.model",
]  # fmt: skip


@pytest.mark.parametrize("file", CHANGED)
def test_one_changed_byte_is_named(chain, nmt, file):
    content = bytearray((chain / file).read_bytes())
    content[len(content) // 2] ^= 1
    (chain / file).write_bytes(content)
    result = nmt("inspect", "score.json", cwd=chain, check=False)
    assert result.returncode == 1
    assert f"warning: the sha256 of {file} is not " in result.stderr
    assert sha256_of(chain / file) not in result.stderr + result.stdout
    assert result.stdout.count("[CHANGED]") == 1


def test_an_archive_that_changed_in_the_cache_is_named(chain, nmt):
    manifest = json.loads((chain / "data/toy-en-de/manifest.json").read_text())
    url = "https://example.org/corpora/text.en.gz"
    manifest["sources"].append({"file": "text.en.gz", "url": url, "sha256": "0" * 64, "bytes": 3})
    (chain / "data/toy-en-de/manifest.json").write_text(json.dumps(manifest))
    absent = nmt("inspect", "data/toy-en-de", cwd=chain, XDG_CACHE_HOME=str(chain / "cache"))
    assert "archive: text.en.gz  [not here]" in absent.stdout
    assert f"url: {url}" in absent.stdout
    cached = chain / "cache/nmt/example.org/corpora/text.en.gz"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(b"abc")
    result = nmt("inspect", "data/toy-en-de", cwd=chain, check=False, XDG_CACHE_HOME=str(chain / "cache"))
    assert result.returncode == 1
    assert "text.en.gz is" in result.stderr


def test_a_copied_bundle_still_says_where_it_comes_from(chain, nmt, tmp_path):
    shutil.copytree(chain / "runs/toy-en-de-tiny/average", tmp_path / "away")
    found = links(json.loads(nmt("inspect", "--json", "away", cwd=tmp_path).stdout))
    states = {link["kind"]: link["state"] for link in found}
    assert states["average"] == "unchanged"
    assert states["data set"] == states["vocabulary"] == states["checkpoint"] == "not checked"
    assert states["file"] == "unchanged"  # of this program


def test_what_was_moved_alone_is_not_compared_with_other_files_that_lie_at_its_paths(chain, nmt, tmp_path):
    """Equal files are recognised, wherever they are."""
    away = tmp_path / "away"
    shutil.copytree(chain / "data/toy-en-de", away / "data/toy-en-de")
    shutil.copytree(chain / "runs/toy-en-de-tiny/average", away / "model")
    shutil.copy(chain / "score.json", away / "copied.json")
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
        nmt("inspect", path, "--html", "page.html", cwd=away)
        assert "the folder of this path is not known" in (away / "page.html").read_text()


def test_what_is_made_from_a_moved_model_is_not_compared_with_other_files_either(chain, nmt):
    (chain / "runs/toy-en-de-tiny/average").rename(chain / "model")
    (chain / "data/toy-en-de/vocab.model").unlink()
    (chain / "data/toy-en-de/train.de").write_text("anders\n")
    nmt("translate", "-m", "model", "--input", "few.en", "--output", "new.de", "--beam", "1", cwd=chain)
    states = {
        link["kind"]: link["state"] for link in links(json.loads(nmt("inspect", "--json", "new.de", cwd=chain).stdout))
    }
    assert states["translation"] == states["average"] == states["text"] == "unchanged"
    assert states["vocabulary"] == states["data set"] == "not checked"


def test_a_score_from_a_pipe_does_not_say_where_its_files_lie(chain, nmt):
    (chain / "piped.json").write_text(nmt("score", "--json", "--reference", "few.de", "out.de", cwd=chain).stdout)
    assert "translation: out.de  [unchanged]" in nmt("inspect", "piped.json", cwd=chain).stdout
    (chain / "out.de").write_text("anders\n")
    assert "translation: out.de  [not checked: " in nmt("inspect", "piped.json", cwd=chain).stdout


@pytest.mark.parametrize(
    "file",
    [
        "runs/toy-en-de-tiny/average/notes.json", "runs/toy-en-de-tiny/checkpoints/step-00000060/training.json",
        "data/toy-en-de/valid.en",
    ],
)  # fmt: skip
def test_a_missing_file_of_a_folder_is_a_change(chain, nmt, file):
    (chain / file).unlink()
    result = nmt("inspect", str(Path(file).parent), cwd=chain, check=False)
    assert result.returncode == 1
    assert result.stderr == f"warning: {file} is missing\n"
    assert result.stdout.count("[CHANGED]") == 1


def test_the_chain_of_a_folder_that_was_moved_whole_is_found_from_elsewhere(chain, nmt):
    """Paths are those of the folder in which the commands were run."""
    text = nmt("inspect", "work/runs/toy-en-de-tiny", cwd=chain.parent).stdout
    assert "vocabulary: work/data/toy-en-de  [unchanged]" in text
    assert "--data=work/data/toy-en-de:1.0" in text
    (chain / "runs/elsewhere").mkdir()
    assert "data set: ../../data/toy-en-de" not in text
    inside = nmt("inspect", "../../out.de", cwd=chain / "runs/elsewhere").stdout
    assert f"data set: {chain / 'data/toy-en-de'}  [unchanged]" in inside


def test_a_data_set_of_several_models_is_read_once(chain, monkeypatch):
    record = json.loads((chain / "score.json").read_text())["lineage"]
    parts = record["made_from"][0]["made_from"]
    parts.append(parts[0])
    read = []
    monkeypatch.setattr("nmt.lineage.link.sha256_of", lambda path: read.append(path.name) or sha256_of(path))
    monkeypatch.chdir(chain)
    found = list(link_of(parse_record(record, "score.json")).all())
    assert [link.state for link in found if link.kind == "data set"] == ["unchanged", "unchanged"]
    assert read.count("train.de") == 1


AVERAGE = "average: runs/toy-en-de-tiny/average"
CHAIN = ["training: ", "vocabulary: ", "data set: ", "file: "]


@pytest.mark.parametrize(
    ("path", "kinds"),
    [
        ("runs/toy-en-de-tiny/average", [AVERAGE, "checkpoint: ", *CHAIN]),
        ("runs/toy-en-de-tiny/last", ["checkpoint: runs/toy-en-de-tiny/last", *CHAIN]),
        ("data/toy-en-de", ["vocabulary: data/toy-en-de", "data set: data/toy-en-de", "file: "]),
        ("data/toy-en-de/vocab.model", ["vocabulary: data/toy-en-de", "data set: data/toy-en-de", "file: "]),
        ("out.de", ["translation: out.de", AVERAGE, "checkpoint: ", *CHAIN]),
    ],
)
def test_every_link_can_be_inspected(chain, nmt, path, kinds):
    lines = [line.strip() for line in nmt("inspect", path, cwd=chain).stdout.splitlines()]
    there = [kind for kind in kinds if any(line.startswith(kind) for line in lines)]
    assert there == kinds
    assert lines[0].startswith(kinds[0])


def test_a_copied_checkpoint_is_made_again_by_its_update(chain, nmt, tmp_path):
    shutil.copytree(chain / "runs/toy-en-de-tiny/checkpoints/step-00000040", tmp_path / "copied40")
    script = nmt("inspect", "--reproduce", "copied40", cwd=tmp_path).stdout
    assert "runs/toy-en-de-tiny/checkpoints/step-00000040/model.safetensors" in script


def test_a_bundle_without_checksums_is_not_called_unchanged(chain, nmt):
    (chain / "runs/toy-en-de-tiny/average/checksums.json").unlink()
    result = nmt("inspect", "runs/toy-en-de-tiny/average", cwd=chain)
    assert "average: runs/toy-en-de-tiny/average\n" in result.stdout
    assert "checksums.json is missing or damaged, so its files cannot be checked" in result.stdout


@pytest.mark.parametrize(
    ("file", "content", "inspected", "says"),
    [
        (".out.de.nmt.json", '{"version": 1}', "out.de", ".out.de.nmt.json is damaged: it is no record with a sha256"),
        (".out.de.nmt.json", "{", "out.de", ".out.de.nmt.json is damaged: it is no record with a sha256"),
        ("runs/toy-en-de-tiny/average/notes.json", "{", "runs/toy-en-de-tiny/average", "notes.json: is damaged"),
    ],
)
def test_a_damaged_record_is_an_error_that_names_it(chain, nmt, file, content, inspected, says):
    (chain / file).write_text(content)
    result = nmt("inspect", inspected, cwd=chain, check=False)
    assert result.returncode == 2
    assert says in result.stderr


def test_the_script_computes_the_same_scores(chain, nmt):
    options = ("--metric", "chrf", "--metric", "ter", "--lowercase", "--target-lang", "de")
    score = nmt("score", "--json", *options, "--reference", "few.de", "out.de", cwd=chain).stdout
    (chain / "other.json").write_text(score)
    script = nmt("inspect", "--reproduce", "other.json", cwd=chain).stdout
    words = f"nmt score --metric=chrf --metric=ter --lowercase --target-lang=de --reference={chain / 'few.de'} out.de"
    assert words in script
    assert "--beam=2 --length-penalty=0.6" in script


def test_a_script_scores_in_the_language_that_the_references_name_said(chain, nmt):
    """In the script, a file with the same text and another name may stand for the reference."""
    shutil.copy(chain / "few.de", chain / "few.zh")
    score = nmt("score", "--json", "--reference", "few.zh", "out.de", cwd=chain).stdout
    (chain / "other.json").write_text(score)
    assert "tok:zh" in score
    assert " --target-lang=zh " in nmt("inspect", "--reproduce", "other.json", cwd=chain).stdout


def test_a_reference_from_a_pipe_cannot_be_read_again(chain, nmt):
    record = json.loads((chain / "score.json").read_text())
    record["lineage"]["command"][-2] = "--reference=/dev/fd/63"
    record["lineage"]["made_from"][1] = {"kind": "text", "path": "/dev/fd/63", "facts": {"role": "reference"}}
    (chain / "piped.json").write_text(json.dumps(record))
    result = nmt("inspect", "--reproduce", "piped.json", cwd=chain, check=False)
    assert result.returncode == 2
    assert "this reference came through a pipe" in result.stderr


@pytest.mark.parametrize(("path", "says"), [("few.de", "has no lineage"), ("nothing", "there is no such file")])
def test_what_has_no_lineage_is_an_error(chain, nmt, path, says):
    result = nmt("inspect", path, cwd=chain, check=False)
    assert result.returncode == 2
    assert says in result.stderr


def test_a_hypothesis_that_changed_before_it_was_scored_is_a_text(chain, nmt):
    (chain / "out.de").write_text((chain / "out.de").read_text("utf-8") + "\n", "utf-8")
    (chain / "few.de").write_text((chain / "few.de").read_text("utf-8") + "x\n", "utf-8")
    score = nmt("score", "--json", "--reference", "few.de", "out.de", cwd=chain).stdout
    (chain / "other.json").write_text(score)
    text = nmt("inspect", "other.json", cwd=chain).stdout
    assert "text: out.de" in text
    assert "model:" not in text
    script = nmt("inspect", "--reproduce", "other.json", cwd=chain).stdout
    assert f"same {sha256_of(chain / 'out.de')} {chain / 'out.de'}\n" in script
    assert script.endswith(f"--reference={chain / 'few.de'} {chain / 'out.de'}\n")


def test_a_bundle_of_an_earlier_version_is_unknown(chain, nmt):
    average = BundleFolder(chain / "runs/toy-en-de-tiny/average")
    average.notes.write_text('{"averaged": ["step-00000040"]}')
    checksums = json.loads(average.checksums.read_text())
    average.checksums.write_text(json.dumps(checksums | {average.notes.name: sha256_of(average.notes)}))
    assert "origin: unknown" in nmt("inspect", average.path, cwd=chain).stdout
    result = nmt("inspect", "--reproduce", average.path, cwd=chain, check=False)
    assert result.returncode == 2
    assert "how it was made is not recorded" in result.stderr


def test_a_damaged_lineage_is_an_error(chain, nmt):
    average = BundleFolder(chain / "runs/toy-en-de-tiny/average")
    notes = json.loads(average.notes.read_text())
    notes["record"]["made_from"][-1] = {"name": 3}
    average.notes.write_text(json.dumps(notes))
    record = json.loads((chain / "score.json").read_text())
    record["systems"][0]["scores"][0]["value"] = 10**400
    (chain / "huge.json").write_text(json.dumps(record))
    for path in ("runs/toy-en-de-tiny/average", "huge.json"):
        result = nmt("inspect", path, cwd=chain, check=False)
        assert result.returncode == 2
        assert "its lineage is damaged" in result.stderr


def test_own_text_is_made_again_from_where_it_lies_and_a_pipe_is_not(nmt, tmp_path):
    text = "".join(f"sentence {n}\tSatz {n}\n" for n in range(200))
    (tmp_path / "own.tsv").write_text(text)
    options = ("--source-lang", "en", "--target-lang", "de")
    nmt("prepare-data", "filed", "--train", "own.tsv", *options, cwd=tmp_path)
    nmt("prepare-data", "piped", "--train", "-", *options, cwd=tmp_path, text=text)
    script = nmt("inspect", "--reproduce", "data/filed", cwd=tmp_path).stdout
    assert f"files: {tmp_path / 'own.tsv'}" in script
    with nmt_for_scripts(tmp_path) as program:
        environment = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
        subprocess.run(["sh", "-c", script], cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert sha256_of(tmp_path / "again/data/filed/train.de") == sha256_of(tmp_path / "data/filed/train.de")
    assert "file: standard input" in nmt("inspect", "data/piped", cwd=tmp_path).stdout
    refused = nmt("inspect", "--reproduce", "data/piped", cwd=tmp_path, check=False)
    assert refused.returncode == 2
    assert "piped: was read from a pipe" in refused.stderr
    path = tmp_path / "data/filed/manifest.json"
    path.write_text(path.read_text().replace(str(tmp_path / "own.tsv"), "/dev/fd/63"))
    refused = nmt("inspect", "--reproduce", "data/filed", cwd=tmp_path, check=False)
    assert refused.returncode == 2
    assert "filed: was read from a pipe" in refused.stderr


def make_again(script, folder):
    """Run a script, which compares all results with their checksums; a first difference ends it."""
    with nmt_for_scripts(folder) as program:
        environment = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
        subprocess.run(["sh", "-c", script], cwd=folder, env=environment, check=True, capture_output=True)


@pytest.fixture
def own_sets(nmt, tmp_path):
    """Two data sets without a vocabulary."""
    for name, target, pairs in (("large", "de", 300), ("little", "fr", 40)):
        text = "".join(f"sentence {n} of {name}\t{target} Satz {n * n}\n" for n in range(pairs))
        (tmp_path / f"{name}.tsv").write_text(text)
        languages = ("--source-lang", "en", "--target-lang", target)
        nmt("prepare-data", name, "--train", f"{name}.tsv", *languages, cwd=tmp_path)
    return tmp_path


def test_a_joint_vocabulary_is_made_again_from_all_its_data_sets(own_sets, nmt):
    both = ("--data", "data/large", "--data", "data/little")
    nmt("build-vocab", *both, "--size", "90", "--sampling-temperature", "3", cwd=own_sets)
    text = nmt("inspect", "data/little", cwd=own_sets).stdout
    assert "sampling temperature: 3\n" in text
    assert "    data set: data/large  [unchanged]" in text
    assert f"file: {own_sets / 'large.tsv'}" in text
    script = nmt("inspect", "--reproduce", "data/little", cwd=own_sets).stdout
    assert script.count("nmt prepare-data") == 2 and script.count("nmt build-vocab") == 1
    make_again(script, own_sets)
    assert sha256_of(own_sets / "again/data/little/vocab.model") == sha256_of(own_sets / "data/little/vocab.model")
    # Text of another member that changed is named.
    (own_sets / "data/large/train.de").write_text("changed\n")
    result = nmt("inspect", "data/little", cwd=own_sets, check=False)
    assert result.returncode == 1
    assert "the sha256 of data/large/train.de is not " in result.stderr


@pytest.mark.slow
def test_data_encoded_with_the_vocabulary_of_another_is_made_again(own_sets, nmt):
    nmt("build-vocab", "--data", "data/large", "--size", "80", cwd=own_sets)
    given = ("--vocab", "data/large/vocab.model")
    nmt("build-vocab", "--data", "data/little", *given, "--max-length", "90", cwd=own_sets)
    # The vocabulary that is given back was trained on this text, so its record stays.
    nmt("build-vocab", "--data", "data/large", "--vocab", "data/little/vocab.model", "--max-length", "80", cwd=own_sets)
    for name, is_given in (("little", True), ("large", False)):
        text = nmt("inspect", f"data/{name}", cwd=own_sets).stdout
        assert ("trained: no: given" in text) == is_given
        make_again(nmt("inspect", "--reproduce", f"data/{name}", cwd=own_sets).stdout, own_sets)
        shards = f"data/{name}/shards/train.target.tokens"
        assert sha256_of(own_sets / "again" / shards) == sha256_of(own_sets / shards)
        shutil.rmtree(own_sets / "again")


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


def test_data_encoded_with_the_vocabulary_of_a_bundle_leads_to_its_data(chain, nmt):
    text = "".join(f"sentence {n}\tSatz {n}\n" for n in range(100))
    (chain / "own.tsv").write_text(text)
    nmt("prepare-data", "own", "--train", "own.tsv", "--source-lang", "en", "--target-lang", "de", cwd=chain)
    shutil.move(chain / "data/toy-en-de", chain / "gone")  # the bundle alone says it
    nmt("build-vocab", "--data", "data/own", "--vocab", "runs/toy-en-de-tiny", cwd=chain)
    text = nmt("inspect", "data/own", cwd=chain).stdout
    assert "trained: no: given" in text and "vocabulary: data/toy-en-de  [not here]" in text
    script = nmt("inspect", "--reproduce", "data/own", cwd=chain).stdout
    steps = [line.split()[:3] for line in script.splitlines() if line.startswith("nmt ")]
    assert steps == [
        ["nmt", "prepare-data", "own.yaml"], ["nmt", "prepare-data", "toy-en-de.yaml"],
        ["nmt", "build-vocab", "--data=data/toy-en-de"], ["nmt", "build-vocab", "--data=data/own"],
    ]  # fmt: skip
    assert "--data=data/own --vocab=data/toy-en-de/vocab.model" in script


def test_a_vocabulary_from_elsewhere_is_read_where_it_is(own_sets, nmt):
    nmt("build-vocab", "--data", "data/large", "--size", "80", cwd=own_sets)
    away = own_sets / "away.model"
    shutil.copy(own_sets / "data/large/vocab.model", away)
    nmt("build-vocab", "--data", "data/little", "--vocab", "away.model", cwd=own_sets)
    assert f"file: {away}  [unchanged]" in nmt("inspect", "data/little", cwd=own_sets).stdout
    script = nmt("inspect", "--reproduce", "data/little", cwd=own_sets).stdout
    assert f"same {sha256_of(away)} {away}\n" in script
    make_again(script, own_sets)
    assert sha256_of(own_sets / "again/data/little/vocab.model") == sha256_of(away)


@pytest.mark.slow
def test_two_data_sets_of_one_name_are_made_in_folders_of_their_own(own_sets, nmt):
    nmt("build-vocab", "--data", "data/large", "--size", "80", cwd=own_sets)
    languages = ("--source-lang", "en", "--target-lang", "fr")
    nmt("prepare-data", "large", "--train", "little.tsv", "--out", "other", *languages, cwd=own_sets)
    nmt("build-vocab", "--data", "other", "--vocab", "data/large/vocab.model", cwd=own_sets)
    make_again(nmt("inspect", "--reproduce", "other", cwd=own_sets).stdout, own_sets)
    assert sha256_of(own_sets / "again/other/train.fr") == sha256_of(own_sets / "other/train.fr")
    shutil.rmtree(own_sets / "again")
    both = ("--data", "data/large", "--data", "other", "--data", "data/little")
    nmt("build-vocab", *both, "--size", "90", cwd=own_sets)
    make_again(nmt("inspect", "--reproduce", "data/little", cwd=own_sets).stdout, own_sets)
    assert sha256_of(own_sets / "again/other/vocab.model") == sha256_of(own_sets / "other/vocab.model")


def script_of(values):
    """The commands of the script that makes a score again, by the score's JSON."""
    script, _ = script_for(parse_record(values["lineage"], "score.json"))
    return [shlex.split(line) for line in script.splitlines() if line.startswith("nmt ")]


def after(flag, command):
    """The values of an option, wherever it stands in a command."""
    return [word.removeprefix(f"{flag}=") for word in command if word.startswith(f"{flag}=")]


def renamed(values, before, after):
    """A record in which a path has another beginning everywhere."""
    return json.loads(json.dumps(values).replace(before, after))


def test_runs_and_outputs_of_one_name_are_made_under_names_of_their_own(chain):
    """Two runs of the name toy-en-de-tiny are an ensemble; two files of the name out.de are compared."""
    values = json.loads((chain / "score.json").read_text())
    first = values["lineage"]["made_from"][0]
    second = copy.deepcopy(first) | {"path": "/elsewhere/out.de", "files": {".": "0" * 64}}
    second["command"][-1] = "--output=/elsewhere/out.de"
    other = renamed(second["made_from"][0], "runs/toy-en-de-tiny", "/seed2/toy-en-de-tiny")
    other["made_from"][-1]["settings"]["training"]["seed"] = 2
    second["made_from"].append(other)
    second["command"].insert(1, "--model=/seed2/toy-en-de-tiny/average")
    values["lineage"]["made_from"].insert(1, second)
    values["lineage"]["command"].append("/elsewhere/out.de")
    commands = script_of(values)
    runs = [after("--out", command) for command in commands if "train" in command]
    assert runs == [["runs/toy-en-de-tiny"], ["toy-en-de-tiny"]]
    averages = ["runs/toy-en-de-tiny/average", "average"]
    alone, ensemble = (command for command in commands if "translate" in command)
    assert (after("--model", alone), after("--output", alone)) == (averages[:1], ["out.de"])
    assert (sorted(after("--model", ensemble)), after("--output", ensemble)) == (sorted(averages), ["out-2.de"])
    assert commands[-1][-2:] == ["out.de", "out-2.de"]


def test_two_runs_with_one_path_in_two_folders_stay_apart(chain, nmt):
    """An ensemble of the runs of two folders, in both of which the same commands were run."""
    shutil.copytree(chain / "data", chain / "seed2/data")
    shutil.copytree(chain / "runs", chain / "seed2/runs", symlinks=True)
    config = BundleFolder(chain / "seed2/runs/toy-en-de-tiny/average")
    config.config.write_text(config.config.read_text().replace("seed: 1", "seed: 2"))
    config.checksums.unlink()
    run = "runs/toy-en-de-tiny/average"
    models = ("--model", run, "--model", f"seed2/{run}")
    nmt("translate", *models, "--input", "few.en", "--output", "both.de", "--beam", "1", "--no-guard", cwd=chain)
    script = nmt("inspect", "--reproduce", "both.de", cwd=chain).stdout
    assert f"--model={run} --model=seed2/{run}" in script
    assert "--out=seed2/runs/toy-en-de-tiny " in script


def test_an_average_and_a_checkpoint_of_one_run_are_made_by_one_training(chain, nmt, monkeypatch):
    monkeypatch.chdir(chain)
    run = "runs/toy-en-de-tiny"
    models = ("--model", f"{run}/average", "--model", f"{run}/checkpoints/step-00000060")
    nmt("translate", *models, "--input", "few.en", "--output", "both.de", "--beam", "1", "--no-guard", cwd=chain)
    script = nmt("inspect", "--reproduce", "both.de", cwd=chain).stdout
    assert script.count("nmt train ") == 1
    assert f"--model={run}/average --model={run}/checkpoints/step-00000060" in script


def trained(**changed) -> Record:
    """The record of a training of 60 updates.

    Args:
        changed: settings that differ, by their names with the section.
    """
    settings = {
        "training": {"max_updates": 60, "max_minutes": None},
        "schedule": {"decay": "inverse_sqrt", "decay_updates": None, "warmup": 10},
        "checkpoints": {"every_updates": 20, "every_minutes": None, "keep_last": 5},
    }
    for name, value in changed.items():
        section, _, key = name.partition("__")
        settings[section][key] = value
    command = ("train", "--config=settings.yaml", "--out=runs/x")
    return Record(kind="training", path="runs/x", command=command, settings=settings)


def average_of(training, updates) -> Record:
    named = ",".join(map(str, updates))
    command = ("average-checkpoints", "runs/x", f"--updates={named}", "--out=runs/x/average")
    return Record(kind="average", path="runs/x/average", command=command, made_from=(training,))


def further_options(training, updates) -> tuple[list[str], list[str]]:
    """The options that a script adds to a training, and the script's doubts."""
    script, doubts = script_for(average_of(training, updates))
    assert [line for line in script.splitlines() if "warning" in line] == [
        f"echo {shlex.quote(f'warning: {doubt}')} >&2" for doubt in doubts
    ]
    [train] = [line for line in script.splitlines() if line.startswith("nmt train")]
    return shlex.split(train)[4:], doubts


KEEP = "--set=checkpoints.keep_every="
EVERY = "--set=checkpoints.every_updates="
UNTIMED = "--set=training.max_minutes=null"


@pytest.mark.parametrize(
    ("changed", "updates", "further"),
    [
        ({}, [20, 40, 60], []),
        ({"checkpoints__keep_last": 2}, [40, 60], []),
        ({"checkpoints__keep_last": 1}, [40, 60], [f"{KEEP}40"]),
        ({"checkpoints__keep_last": 2}, [20, 60], [f"{KEEP}20"]),
        ({"checkpoints__keep_last": 1}, [40], ["--max-updates=40"]),
        ({"checkpoints__every_updates": None}, [60], []),
        ({"training__max_minutes": 7.0}, [20, 40], [UNTIMED, "--max-updates=40"]),
        # Ctrl-C saves at any update.
        ({}, [37], ["--max-updates=37"]),
        ({}, [20, 37], ["--max-updates=37"]),
        ({"training__max_updates": None}, [37], ["--max-updates=37"]),
        # So does every_minutes.
        (
            {"checkpoints__every_updates": None, "checkpoints__every_minutes": 5.0, "checkpoints__keep_last": 3},
            [14, 35, 43],
            ["--set=checkpoints.every_minutes=null", "--max-updates=43", f"{EVERY}7", f"{KEEP}7"],
        ),
        # A run of many updates is no long list.
        ({"training__max_updates": 10**15, "checkpoints__every_updates": 1}, [10**15], []),
    ],
)
def test_a_training_saves_keeps_and_ends_with_the_checkpoints_that_are_needed(changed, updates, further):
    assert further_options(trained(**changed), updates) == (further, [])


@pytest.mark.parametrize(
    ("changed", "updates", "further", "is_doubtful"),
    [
        ({}, [60], [], False),
        ({}, [37], ["--max-updates=37", "--set=schedule.decay_updates=60"], False),
        ({"schedule__decay_updates": 50}, [37], ["--max-updates=37"], False),
        ({"schedule__warmup": 31}, [37], ["--max-updates=37"], True),
        ({"training__max_updates": None}, [37], ["--max-updates=37"], True),
        ({"training__max_minutes": 7.0}, [60], [UNTIMED], True),
        # Whatever a record holds is one word.
        (
            {"training__max_updates": "z; touch evil", "schedule__warmup": "a"},
            [60],
            ["--max-updates=60", "--set=schedule.decay_updates=z; touch evil"],
            False,
        ),
    ],
)
def test_a_rate_that_falls_until_the_end_falls_as_it_did_or_is_doubted(changed, updates, further, is_doubtful):
    found, doubts = further_options(trained(schedule__decay="linear", **changed), updates)
    assert found == further
    assert ["its learning rate fell until an end" in doubt for doubt in doubts] == [True] * is_doubtful


def test_a_training_that_was_resumed_with_other_settings_is_made_in_its_steps(tmp_path):
    before = trained(checkpoints__keep_last=1)
    before = before.model_copy(update={"command": (*before.command, "--max-updates=20")})
    resumed = trained(checkpoints__keep_last=1)
    command = (*resumed.command, "--accept-changes")
    resumed = resumed.model_copy(update={"command": command, "made_from": (before,)})
    script, _ = script_for(average_of(resumed, [20, 40]))
    lines = [line for line in script.splitlines() if line.startswith("nmt ")]
    assert lines == [
        "nmt train --config=x.yaml --out=runs/x --max-updates=20",
        "nmt train --config=x-2.yaml --out=runs/x --accept-changes --max-updates=40 --set=checkpoints.keep_every=20",
        "nmt average-checkpoints runs/x --updates=20,40 --out=runs/x/average",
    ]


def test_an_average_is_made_again_from_the_same_checkpoints(chain, nmt, monkeypatch):
    """The best checkpoints are seldom the last: here the first and the last of three."""
    monkeypatch.chdir(chain)
    run = "runs/toy-en-de-tiny"
    nmt("average-checkpoints", run, "--updates", "60,20", "--out", "chosen", cwd=chain)
    notes = json.loads((chain / "chosen/notes.json").read_text())
    parts = notes["record"]["made_from"]
    assert [Path(part["path"]).name for part in parts] == ["step-00000020", "step-00000060", "toy-en-de-tiny"]
    script, _ = script_for(chain_of(Path("chosen")).record)
    assert "nmt average-checkpoints runs/toy-en-de-tiny --updates=20,60 --out=chosen" in script
    nmt("average-checkpoints", run, "--best", "2", "--out", "best", cwd=chain)
    best = json.loads((chain / "best/notes.json").read_text())["record"]
    updates = ",".join(str(int(part["path"][-8:])) for part in best["made_from"][:-1])
    assert best["command"] == ["average-checkpoints", run, f"--updates={updates}", "--out=best"]
    for words, says in (
        (("--updates", "20,30"), "has no checkpoint of update 30, but of 20, 40, 60"),
        (("--updates", "20", "--last", "2"), "--last and --updates were both given"),
    ):
        refused = nmt("average-checkpoints", run, *words, "--out", "other", cwd=chain, check=False)
        assert (refused.returncode, says in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("changed", "is_doubtful"),
    [({}, False), ({"max_minutes": 7.0}, False), ({"max_minutes": 7.0, "decay": "linear"}, True)],
)
def test_what_a_script_may_not_make_again_is_said_before(chain, nmt, changed, is_doubtful):
    values = json.loads((chain / "score.json").read_text())
    training = values["lineage"]["made_from"][0]["made_from"][0]["made_from"][-1]
    training["settings"]["training"]["max_minutes"] = changed.get("max_minutes")
    training["settings"]["schedule"]["decay"] = changed.get("decay", "inverse_sqrt")
    (chain / "other.json").write_text(json.dumps(values))
    result = nmt("inspect", "--reproduce", "other.json", cwd=chain)
    beginning = result.stdout[: result.stdout.index("mkdir")]
    for text in (result.stderr, beginning):
        assert text.count("warning: ") == is_doubtful
        assert ("its learning rate fell until an end" in text) == is_doubtful


def test_a_vocabulary_from_a_pipe_is_read_once(own_sets, nmt):
    nmt("build-vocab", "--data", "data/large", "--size", "80", cwd=own_sets)
    model = own_sets / "data/large/vocab.model"
    os.mkfifo(own_sets / "piped.model")
    with subprocess.Popen(["sh", "-c", "exec cat data/large/vocab.model > piped.model"], cwd=own_sets) as writer:
        nmt("build-vocab", "--data", "data/little", "--vocab", "piped.model", cwd=own_sets)
        assert writer.wait() == 0
    assert sha256_of(own_sets / "data/little/vocab.model") == sha256_of(model)
    missing = nmt("build-vocab", "--data", "data/little", "--vocab", "missing.model", cwd=own_sets, check=False)
    assert missing.returncode == 2
    assert missing.stderr.endswith("error: missing.model: cannot be read (No such file or directory).\n")


EVIL = "x\nEND OF FILE\ntouch evil\n"


def model_of(metric="COMET", path="/models/checkpoints/model.ckpt", sha256="0" * 64):
    return {"kind": "file", "path": path, "files": {".": sha256}, "facts": {"role": f"model of {metric}"}}


def learned(score, **changed):
    model = model_of(**changed)
    score["command"].append(f"--comet-model={model['path']}")
    score["made_from"].append(model)


def users_model(score, option):
    """A model that is called a reference."""
    score["command"].append(f"{option}=/models/model.ckpt")
    score["made_from"].append(model_of(path="/models/model.ckpt") | {"facts": {"role": "reference"}})


NEVER = {"every_updates": 0, "every_minutes": None, "keep_last": 5}

# What is done to a record, and what the refusal says; None where a script is written, which is harmless.
# The records are those of the score, the translation, the average, the training, the vocabulary and the data set.
ATTACKS = [
    (lambda score, out, average, train, vocab, data: out["command"].append(f"--precision={EVIL}"), None),
    (lambda score, out, average, train, vocab, data: out["command"].append(f"--guard-report={EVIL}"), "never holds"),
    (lambda score, out, average, train, vocab, data: out["command"].append("--output=/etc/evil"), "this path alone"),
    (lambda score, out, average, train, vocab, data: out["command"].append("--output=out.de/../evil"), "path alone"),
    (lambda score, out, average, train, vocab, data: out["command"].append("evil"), "no record has"),
    (lambda score, out, average, train, vocab, data: out["command"].__setitem__(0, "evil"), "never made by"),
    (lambda score, out, average, train, vocab, data: out["command"].__setitem__(0, "; touch evil"), "never made"),
    (lambda score, out, average, train, vocab, data: out["made_from"][1].update(path=f"$({EVIL})"), "no record has"),
    (lambda score, out, average, train, vocab, data: out["files"].update({".": "$(touch evil)"}), "is damaged"),
    (lambda score, out, average, train, vocab, data: out.update(path="../evil"), "this path alone"),
    (lambda score, out, average, train, vocab, data: average.update(command=[]), "is not recorded"),
    (lambda score, out, average, train, vocab, data: average["files"].update({"model.safetensors": EVIL}), "damaged"),
    (lambda score, out, average, train, vocab, data: average["command"].append(f"--updates=20,{EVIL}"), None),
    (lambda score, out, average, train, vocab, data: train["settings"].update(x=EVIL), None),
    (lambda score, out, average, train, vocab, data: train["settings"].update({EVIL: 1}), None),
    (lambda score, out, average, train, vocab, data: train.update(settings={"x": 1}), "is damaged"),
    (lambda score, out, average, train, vocab, data: train["settings"].update(schedule=[1]), "is damaged"),
    (lambda score, out, average, train, vocab, data: train["settings"].update(checkpoints=NEVER), "is damaged"),
    (lambda score, out, average, train, vocab, data: train["facts"].update(versions=EVIL), None),
    (lambda score, out, average, train, vocab, data: train["command"].append(f"--set={EVIL}"), None),
    (lambda score, out, average, train, vocab, data: train["command"].append("--init-from=/evil"), "no record has"),
    (lambda score, out, average, train, vocab, data: vocab["command"].append(f"--size={EVIL}"), None),
    (lambda score, out, average, train, vocab, data: vocab.update(made_from=[]), "is damaged"),
    (lambda score, out, average, train, vocab, data: vocab["files"].update({"vocab.model": "$(evil)"}), "is damaged"),
    (lambda score, out, average, train, vocab, data: data["files"].update({"../../evil": "0" * 64}), "could lead"),
    (lambda score, out, average, train, vocab, data: data["settings"].update(description=EVIL), None),
    (lambda score, out, average, train, vocab, data: data["command"].append("--cache=/tmp/evil"), "never holds"),
    (lambda score, out, average, train, vocab, data: score["command"].append("--cache=/tmp/evil"), "never holds"),
    (lambda score, out, average, train, vocab, data: score["command"].append(f"--target-lang={EVIL}"), None),
    (lambda score, out, average, train, vocab, data: score["command"].append("--test-set=--cache=evil"), None),
    (lambda score, out, average, train, vocab, data: score["command"].append("--comet-model=/evil"), "no record has"),
    (lambda score, out, average, train, vocab, data: users_model(score, "--comet-model"), "does not choose the model"),
    (lambda score, out, average, train, vocab, data: users_model(score, "--bleurt-model"), "does not choose the model"),
    (lambda score, out, average, train, vocab, data: learned(score, metric="BLEURT"), "does not choose the model"),
    (lambda score, out, average, train, vocab, data: learned(score, sha256=EVIL), "is damaged"),
    (lambda score, out, average, train, vocab, data: learned(score, path=f"/a/{EVIL}"), "could lead"),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "refusal"), ATTACKS)
def test_nothing_of_a_record_becomes_a_command_or_a_path_elsewhere(chain, nmt, spoil, refusal, tmp_path):
    """A double of nmt does nothing, so that the script runs on to its first comparison."""
    score = json.loads((chain / "score.json").read_text())
    records = [score["lineage"]]
    for number in (0, 0, -1, 0, 0):
        records.append(records[-1]["made_from"][number])
    spoil(*records)
    (chain / "spoilt.json").write_text(json.dumps(score))
    result = nmt("inspect", "--reproduce", "spoilt.json", cwd=chain, check=False)
    if refusal is not None:
        assert (result.returncode, result.stdout) == (2, "")
        assert refusal in result.stderr
        return
    assert result.returncode == (1 if "is recorded" in result.stderr else 0), result.stderr
    assert "../" not in result.stdout
    (tmp_path / "bin").mkdir()
    for name in ("nmt", "sha256sum"):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path / 'called'}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    # Without the comparisons, all commands are reached.
    script = result.stdout.replace('test "$found" = "$1" ||', "true ||")
    subprocess.run(["sh", "-c", script], cwd=chain, env=environment, check=True, capture_output=True)
    assert not list(chain.rglob("evil"))
    assert {"nmt", "sha256sum"} == set((tmp_path / "called").read_text().split())


def users_file(path, kind="file", **changed):
    return {"kind": kind, "path": path, "files": {".": "0" * 64}, **changed}


# Records whose command would write outside of the script's folder, and what the refusal says.
ELSEWHERE = [
    ({"kind": "data set", "path": "data/x", "command": ["prepare-data", "settings.yaml", "--out=/x/evil"],
      "settings": {"name": "x"}, "made_from": [users_file("/x")]}, "does not write to this path alone"),
    (users_file("/x/evil2", "text", command=["prepare-data", "settings.yaml", "--out=/x/evil2"]), "never made by"),
    (users_file("/x/evil2", command=["translate", "--output=/x/evil2"]), "never made by"),
    ({"kind": "translation", "path": "out.de", "command": ["translate", "--output=/x/.bash_login"],
      "made_from": [users_file("/x/.bash_login", "text")]}, "does not write to this path alone"),
    ({"kind": "translation", "path": "out.de", "command": ["translate", "--output=out.de", "--output", "/x/evil"]},
     "does not write to this path alone"),
    ({"kind": "translation", "path": "out.de", "command": ["translate"]}, "does not write to this path alone"),
    ({"kind": "translation", "path": "data", "command": ["prepare-data", "settings.yaml", "--out=data"]},
     "never made by"),
    ({"kind": "checkpoint", "path": "x", "command": ["train", "--out=x"]}, "never made by"),
    ({"kind": "average", "path": "average", "command": ["average-checkpoints", "/x"], "made_from": [users_file("/x")]},
     "does not write to this path alone"),
    ({"kind": "vocabulary", "path": "data/x", "command": ["build-vocab", "--data=/x/evil"],
      "made_from": [{"kind": "data set", "path": "data/x"}, users_file("/x")]}, "could lead"),
    ({"kind": "average", "path": "a", "command": ["average-checkpoints", "/x", "--out=a"],
      "made_from": [users_file("/x")]}, "could lead"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "says"), ELSEWHERE)
def test_no_command_writes_outside_of_the_scripts_folder(values, says):
    with pytest.raises(DataError, match=says):
        script_for(parse_record(values, "score.json"))


def test_results_of_absolute_paths_are_made_in_the_scripts_folder():
    out = "/x/y/out.de"
    values = {"kind": "translation", "path": out, "command": ["translate", "--input=/x/in", f"--output={out}"]}
    script, _ = script_for(parse_record(values | {"made_from": [users_file("/x/in", "text")]}, "out.de"))
    assert script.endswith(f"\nsame {'0' * 64} /x/in\nnmt translate --input=/x/in --output=out.de\n")


def test_all_data_sets_are_made_before_their_files_are_read():
    """The systems of two data sets are scored on the test set of the second."""

    def system(name):
        data = f"data/{name}"
        files = {"test.en": ("1" if name == "one" else "2") * 64}
        command = ("prepare-data", "settings.yaml", f"--out={data}")
        made = Record(kind="data set", path=data, command=command, files=files, settings={"name": name})
        command = ("build-vocab", f"--data={data}")
        vocabulary = Record(kind="vocabulary", path=data, command=command, made_from=(made,))
        read = Record(kind="text", path="mine.en", files={".": "2" * 64}, facts={"role": "input"})
        command = ("translate", "--input=mine.en", f"--output={name}.de")
        return Record(kind="translation", path=f"{name}.de", command=command, made_from=(vocabulary, read))

    score = Record(
        kind="score", path="-", command=("score", "one.de", "two.de"), made_from=(system("one"), system("two"))
    )
    lines = script_for(score)[0].splitlines()
    assert [line for line in lines if line.startswith("nmt ")] == [
        "nmt prepare-data one.yaml --out=data/one",
        "nmt prepare-data two.yaml --out=data/two",
        "nmt build-vocab --data=data/one",
        "nmt translate --input=data/two/test.en --output=one.de",
        "nmt build-vocab --data=data/two",
        "nmt translate --input=data/two/test.en --output=two.de",
        "nmt score one.de two.de",
    ]
    assert "same " + "2" * 64 + " data/two/test.en" in lines


def test_a_training_is_made_once_though_one_of_its_models_was_moved():
    average = average_of(trained(), [20, 40])
    moved = average.model_copy(update={"path": "moved", "command": (*average.command[:-1], "--out=moved")})
    both = (average, moved.below(None).model_copy(update={"unlocated": False}))
    assert [part.unlocated for part in both[1].all()] == [False, True]
    models = ("--model=runs/x/average", "--model=moved")
    output = Record(
        kind="translation", path="out.de", command=("translate", *models, "--output=out.de"), made_from=both
    )
    assert script_for(output)[0].count("nmt train ") == 1


@pytest.mark.parametrize(
    ("name", "is_compared"), [("model.npz", True), ("translate-en_de-1_0.argosmodel", False), ("config.yaml", False)]
)
def test_the_files_of_an_export_are_compared_but_for_times_and_choices_of_a_machine(name, is_compared):
    exported = Record(
        kind="exported model",
        path="models/x",
        command=("export", "runs/x/average", "--to=marian", "--out=models/x"),
        files={name: "3" * 64},
        made_from=(average_of(trained(), [20, 40]),),
    )
    lines = script_for(exported)[0].splitlines()
    last = "nmt export runs/x/average --to=marian --out=models/x"
    assert lines[lines.index(last) + 1 :] == ["", f"same {'3' * 64} models/x/{name}"][: 2 * is_compared]


def test_samples_of_dropped_pairs_stay_with_the_data(nmt, tmp_path):
    """A bundle may be passed on, and the text of its corpus may be private."""
    text = "".join(f"sentence {n}\tSatz {n}\n" for n in range(200)) + "<b>secret</b>\tgeheim\n"
    (tmp_path / "own.tsv").write_text(text)
    options = ("--source-lang", "en", "--target-lang", "de", "--filter", "html")
    nmt("prepare-data", "own", "--train", "own.tsv", *options, cwd=tmp_path)
    assert "secret" in (tmp_path / "data/own/manifest.json").read_text()
    nmt("build-vocab", "--data", "data/own", "--size", "60", cwd=tmp_path)
    assert "secret" not in json.dumps(encoded_record(tmp_path / "data/own").stored())


@pytest.mark.slow
def test_the_script_makes_the_same_again(chain, nmt, tmp_path):
    """Bit for bit: it compares each result with the recorded checksum, and so does this test."""
    script = nmt("inspect", "--reproduce", "score.json", cwd=chain).stdout
    assert "nmt translate --model=runs/toy-en-de-tiny/average" in script
    with nmt_for_scripts(tmp_path) as program:
        environment = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
        subprocess.run(["sh", "-c", script], cwd=chain, env=environment, check=True, capture_output=True)
    for file in ("runs/toy-en-de-tiny/average/model.safetensors", "out.de", "data/toy-en-de/vocab.model"):
        assert sha256_of(chain / "again" / file) == sha256_of(chain / file), file
