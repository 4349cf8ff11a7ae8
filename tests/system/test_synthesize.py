"""``nmt synthesize``, with untrained models: what matters is which lines become which pairs."""

import gzip
import json
import random
import shutil
import time
from pathlib import Path

import pytest
from sacrebleu import sentence_chrf

import nmt as toolkit
from nmt.api import synthesizing
from nmt.checkpoint.bundle import load_bundle, save_bundle
from nmt.synthesis.chat_server import KEY
from tests.commands import running_command
from tests.kit.chat import ChatDouble, chat_server, completion, error
from tests.system.test_translate import WORDS, write_bundle

EVALUATED = ("--valid", "v", "--test", "t")
QUICK = ("--threads", "1", "--jobs", "1", "--beam", "2", "--filter", "max-ratio=100", *EVALUATED)


def write_lines(path: Path, count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    lines = [" ".join(draw.choices(WORDS, k=draw.randint(2, 7))) for _ in range(count)]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return lines


def lines_of(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """A model from en to de, and one back."""
    folder = tmp_path_factory.mktemp("models")
    made = load_bundle(write_bundle(folder / "en-de"))
    data = made.config.data.model_copy(update={"source_lang": "de", "target_lang": "en"})
    save_bundle(folder / "de-en", made.weights, made.config.model_copy(update={"data": data}), made.vocab)
    return folder


@pytest.fixture
def project(models, tmp_path) -> Path:
    shutil.copytree(models, tmp_path, dirs_exist_ok=True)
    for number, name in enumerate(("v.en", "v.de", "t.en", "t.de", "reference.de")):
        write_lines(tmp_path / name, 40 if name == "reference.de" else 5, number)
    write_lines(tmp_path / "mono.en", 40, 9)
    (tmp_path / "short.de.gz").write_bytes(gzip.compress((tmp_path / "v.de").read_bytes()))
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".en", ".de")}


def test_text_and_its_back_translation_become_a_data_set(nmt, project):
    with (project / "mono.en").open("a") as stream:
        stream.write("ba\tdo ki\n\n")
    command = ("synthesize", "bt-de-en", "--mono", "mono.en", "--model", "en-de", "--tag", "BT", *QUICK)
    made = nmt(*command, cwd=project)
    assert "written: data/bt-de-en" in made.stderr
    assert [path.name for path in (project / "data").iterdir()] == ["bt-de-en"]
    folder = project / "data" / "bt-de-en"
    translated = nmt("translate", "-m", "en-de", "--beam", "2", "mono.en", cwd=project).stdout.splitlines()
    both = zip(translated, lines_of(project / "mono.en"), strict=True)
    # A tab would end a column.
    expected = dict.fromkeys(tuple(text.replace("\t", " ") for text in pair) for pair in both if all(pair))
    assert len(expected) > 20
    assert list(zip(lines_of(folder / "train.de"), lines_of(folder / "train.en"), strict=True)) == list(expected)
    assert lines_of(folder / "valid.de") == lines_of(project / "v.de")
    assert json.loads((folder / "manifest.json").read_bytes())["tag"] == "BT"

    shown = nmt("inspect", "data/bt-de-en", cwd=project).stdout
    command_shown = next(line for line in shown.splitlines() if "command:" in line)
    assert f"nmt synthesize bt-de-en --model={project}/en-de --mono={project}/mono.en" in command_shown
    assert "mono.en  [unchanged]" in shown
    assert "pairs.tsv" not in shown
    assert "not here" not in shown
    assert "is up to date" in nmt(*command, cwd=project).stderr
    assert "is up to date" not in nmt(*command, "--min-length", "2", cwd=project).stderr
    write_lines(project / "v.en", 5, 77)
    assert "is up to date" not in nmt(*command, "--min-length", "2", cwd=project).stderr
    assert lines_of(folder / "valid.en") == lines_of(project / "v.en")


def test_parts_of_several_machines_become_one_data_set_with_their_lineage(nmt, project):
    mono = (project / "mono.en").read_text().splitlines(keepends=True)
    for number, lines in enumerate((mono[:25], mono[25:])):
        (project / f"part-{number}").write_text("".join(lines))
        nmt("synthesize", f"bt{number}-de-en", "--mono", f"part-{number}", "--model", "en-de", *QUICK, cwd=project)
    nmt("synthesize", "whole-de-en", "--mono", "mono.en", "--model", "en-de", *QUICK, cwd=project)
    parts = [word for number in (0, 1) for word in ("--train", f"data/bt{number}-de-en/train")]
    nmt("prepare-data", "bt-de-en", *parts, "--jobs", "1", *QUICK[6:], cwd=project)
    assert files(project / "data/bt-de-en") == files(project / "data/whole-de-en")
    shown = nmt("inspect", "data/bt-de-en", cwd=project).stdout
    assert [shown.count(f"nmt synthesize bt{number}-de-en --model={project}/en-de") for number in (0, 1)] == [1, 1]
    assert shown.count(f"model: {project}/en-de  [unchanged]") == 2
    with (project / "data/bt1-de-en/train.de").open("a") as stream:
        stream.write("edited\n")
    changed = nmt("inspect", "data/bt-de-en", cwd=project, check=False)
    assert (changed.returncode, "bt1-de-en/train.de" in changed.stderr) == (1, True)


def test_an_interrupted_call_resumes_and_fresh_starts_beside_it(nmt, project, monkeypatch):
    command = ("synthesize", "bt-de-en", "--mono", "mono.en", "--model", "en-de", *QUICK)
    with monkeypatch.context() as patch:
        patch.setattr(synthesizing, "prepare_data", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            nmt(*command, cwd=project)
    work = project / "data/bt-de-en.synthesis"
    assert len(lines_of(work / "translation.de")) == 40
    refused = nmt(*command, "--min-length", "3", cwd=project, check=False)
    assert (refused.returncode, "was made differently: min_length" in refused.stderr) == (2, True), refused.stderr
    beside = nmt(*command, "--min-length", "3", "--fresh", cwd=project)
    assert "written: data/bt-de-en-2" in beside.stderr
    (work / "notes.txt").write_text("mine")
    resumed = nmt(*command, cwd=project)
    assert "translation.de: up to date" in resumed.stderr
    assert [path.name for path in work.iterdir()] == ["notes.txt"]
    assert files(project / "data/bt-de-en") != files(project / "data/bt-de-en-2")


def test_of_an_n_best_list_the_nearest_to_a_reference_is_taken(nmt, project):
    options = ("--mono", "mono.en", "--model", "en-de", "--forward", "--reference", "reference.de", "--nbest", "4")
    nmt("synthesize", "kd-en-de", *options, "--beam", "4", *QUICK[:4], *QUICK[6:], cwd=project)
    listed = nmt("translate", "-m", "en-de", "--beam", "4", "--nbest", "4", "mono.en", cwd=project).stdout.splitlines()
    references, sources = lines_of(project / "reference.de"), lines_of(project / "mono.en")
    expected = []
    for number, reference in enumerate(references):
        candidates = listed[4 * number : 4 * number + 4]
        nearest = max(candidates, key=lambda text: sentence_chrf(text, [reference]).score)
        expected += [(sources[number], nearest)] if nearest else []
    assert expected != [pair for pair in zip(sources, listed[::4], strict=True) if all(pair)]
    folder = project / "data/kd-en-de"
    found = zip(lines_of(folder / "train.en"), lines_of(folder / "train.de"), strict=True)
    assert list(found) == list(dict.fromkeys(expected))


@pytest.mark.parametrize("scored_by", [None, "de-en"])
def test_the_share_with_the_best_scores_per_piece_is_kept(project, monkeypatch, scored_by):
    monkeypatch.chdir(project)
    settings = {"length_normalization": "length", "length_penalty": 1.0}
    options = {"mono": "mono.en", "model": "en-de", "valid": "v", "test": "t", "filter": "max-ratio=100", "threads": 1}
    with pytest.warns(toolkit.NmtWarning, match="looping"):
        prepared = toolkit.synthesize("bt-de-en", **options, keep=0.5, scored_by=scored_by, beam=2, jobs=1)
    mono = lines_of(project / "mono.en")
    model = toolkit.load("en-de", device="cpu", threads=1)
    pairs = [(line, found.text) for line, found in zip(mono, model.translate(mono, beam=2), strict=True) if found.text]
    if scored_by is None:
        scored = model.score(*zip(*pairs, strict=True), **settings)
    else:
        scored = toolkit.load(scored_by, device="cpu", threads=1).score(
            [text for _, text in pairs], [line for line, _ in pairs], **settings
        )
    ranked = sorted(zip((each.score for each in scored), pairs, strict=True), reverse=True)
    expected = {pair for _, pair in ranked[: (len(pairs) + 1) // 2]}
    found = zip(lines_of(prepared.folder / "train.en"), lines_of(prepared.folder / "train.de"), strict=True)
    assert set(found) == expected
    assert prepared.manifest.filters["score"] == len(pairs) // 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--reference", "reference.de"], "--reference only goes with --forward"),
        (["--forward", "--reference", "short.de.gz"], "short.de.gz has 5"),
        (["--nbest", "2"], "--nbest only goes with --reference"),
        (["--scored-by", "de-en"], "--scored-by only goes with --keep"),
        (["--forward"], "en-de: translates from en to de, but one from de to en is needed."),
        (
            ["--keep", "0.5", "--scored-by", "en-de"],
            "en-de: translates from en to de, but one from de to en is needed.",
        ),
        (["--filter", "nonsense"], "--filter nonsense: unknown filter"),
        (["--keep", "0.5", "--filter", "min-score=1"], "the filter min_score is given twice"),
        (["--mono", "nowhere"], "nowhere: there is no such file. It was given by --mono."),
        (["--mono", "-"], "--mono -: is read several times, so a pipe will not do."),
        (["--out", "en-de"], "en-de: holds "),
        (["--mbr", "--beam", "1", "--out", "sets"], "--mbr needs several candidates"),
    ],
)
def test_mistakes_are_refused_before_anything_is_written(nmt, project, words, message):
    before = sorted(project.rglob("*"))
    command = ("synthesize", "bt-de-en", "--mono", "mono.en", "--model", "en-de", *QUICK, *words)
    refused = nmt(*command, cwd=project, check=False)
    assert (refused.returncode, message in refused.stderr) == (2, True), refused.stderr
    assert sorted(project.rglob("*")) == before


ADDRESS = ("--teacher", "http://localhost:1/v1", "--teacher-model", "big")
TAUGHT = ("--threads", "1", "--jobs", "1", "--filter", "max-ratio=100", *EVALUATED)


def asking(name: str, server: ChatDouble) -> tuple[str, ...]:
    """The command that asks a teacher."""
    address = ("--teacher", server.address, "--teacher-model", "big")
    return ("synthesize", name, "--mono", "mono.en", *address, *TAUGHT)


def test_a_teacher_translates_and_what_is_no_translation_is_dropped_and_counted(nmt, project, monkeypatch):
    monkeypatch.setenv(KEY, "secret")
    lines = lines_of(project / "mono.en")
    bad = {
        lines[0]: completion("Sorry, I cannot translate that."),
        lines[1]: completion("eins\nzwei"),
        lines[2]: completion("zwei\nzwei"),
        lines[3]: error(400, "no"),
        lines[4]: completion(""),
    }

    def answer(text, times):
        return error(429, Retry_After="0") if times == 0 else bad.get(text, completion(f"a\t{text} b"))

    with chat_server(answer) as server:
        made = nmt(*asking("kd-en-de", server), "--forward", cwd=project)
        assert "answers dropped as several lines: 2 (lines " in made.stderr
        folder = project / "data/kd-en-de"
        good = list(dict.fromkeys(line for line in lines if line not in bad))
        assert lines_of(folder / "train.en") == good
        assert lines_of(folder / "train.de") == [f"a {line} b" for line in good]
        assert sorted(path.name for path in (project / "data").iterdir()) == ["kd-en-de", "kd-en-de.answers"]
        shown = nmt("inspect", "data/kd-en-de", cwd=project).stdout
        assert "answers dropped as refused: 1" in shown
        assert (
            f"nmt synthesize kd-en-de --mono={project}/mono.en --teacher={server.address} --teacher-model=big" in shown
        )
        assert b"secret" not in b"".join(path.read_bytes() for path in (project / "data").rglob("*") if path.is_file())
        asked = len(server.requests)
        assert "is up to date" in nmt(*asking("kd-en-de", server), "--forward", cwd=project).stderr
        options = ("--forward", "--keep", "0.5", "--scored-by", "de-en")
        nmt(*asking("kd-en-de", server), *options, cwd=project)
        assert 0 < len(lines_of(folder / "train.en")) <= (len(good) + 1) // 2
        assert server.texts[asked:] == [lines[3]]  # the one that was not paid for


def test_a_teacher_that_goes_away_loses_nothing(nmt, project):
    lines = list(dict.fromkeys(lines_of(project / "mono.en")))
    with chat_server(lambda text, times: completion(f"<{text}>") if text in lines[:20] else error(503)) as server:
        stopped = nmt(*asking("kd-en-de", server), "--forward", "--tries", "1", cwd=project, check=False)
    assert (stopped.returncode, "Run the same command to resume" in stopped.stderr) == (2, True), stopped.stderr
    with chat_server(lambda text, times: completion(f"<{text}>")) as moved:
        nmt(*asking("kd-en-de", moved), "--forward", cwd=project)
    assert sorted(moved.texts) == sorted(lines[20:])
    assert lines_of(project / "data/kd-en-de/train.de") == [f"<{line}>" for line in lines]


def test_lines_that_a_teacher_never_answers_are_left_out_and_named(nmt, project):
    lines = write_lines(project / "mono.en", 40, 9)
    long = lines[30:]
    options = ("--forward", "--tries", "1", "--concurrency", "1")
    with chat_server(lambda text, times: error(504) if text in long else completion(f"<{text}>")) as server:
        made = nmt(*asking("kd-en-de", server), *options, cwd=project)
    without = [number for number, line in enumerate(lines, start=1) if line in long]
    shown = ", ".join(map(str, without[:5]))
    assert (
        f"answers dropped as no answer: {len(without)} (lines {shown} and {len(without) - 5} more). The same command "
        "with --force asks for them again" in " ".join(made.stderr.split())
    )
    assert set(lines_of(project / "data/kd-en-de/train.en")) == set(lines) - set(long)
    with chat_server(lambda text, times: completion(f"<{text}>")) as again:
        nmt(*asking("kd-en-de", again), *options, "--force", cwd=project)
    assert set(again.texts) == set(long)
    assert set(lines_of(project / "data/kd-en-de/train.en")) == set(lines)


def test_killed_while_a_teacher_answers_it_asks_for_nothing_twice(nmt, project):
    lines = list(dict.fromkeys(write_lines(project / "mono.en", 200, 9)))
    answered: set[str] = set()

    def answer(text, times):
        time.sleep(0.01)
        answered.add(text)
        return completion(f"<{text}>")

    with chat_server(answer) as server:
        command = [*asking("kd-en-de", server), "--forward", "--concurrency", "2"]
        for number in (40, 120):
            with running_command(command, cwd=project) as process:
                while len(answered) < number and process.poll() is None:
                    time.sleep(0.005)
                process.kill()
        nmt(*command, cwd=project)
        twice = len(server.texts) - len(set(server.texts))
    assert twice <= 2 * 2  # what was on its way, at each kill
    assert lines_of(project / "data/kd-en-de/train.de") == [f"<{line}>" for line in lines]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--teacher", "http://localhost:1/v1"], "--teacher needs --teacher-model"),
        (
            ["--teacher", "localhost:1", "--teacher-model", "big"],
            "--teacher localhost:1: is not the address of a server",
        ),
        (["-m", "en-de", "--teacher", "http://localhost:1/v1"], "give one."),
        ([], "--model MODEL translates the text, or a language model with --teacher URL: give one."),
        (["-m", "en-de", "--teacher-model", "big"], "--teacher-model only goes with --teacher"),
        ([*ADDRESS, "--beam", "2"], "only go with --model"),
        ([*ADDRESS, "--sample"], "only go with --model"),
        ([*ADDRESS, "--keep", "0.5"], "--keep needs --scored-by MODEL beside --teacher"),
        ([*ADDRESS, "--teacher-request", "nowhere.yaml"], "nowhere.yaml: there is no such file."),
        ([*ADDRESS, "--concurrency", "0"], "--concurrency: must be at least 1"),
    ],
)
def test_mistakes_about_a_teacher_are_refused_before_anything_is_written(nmt, project, words, message):
    before = sorted(project.rglob("*"))
    refused = nmt("synthesize", "kd-de-en", "--mono", "mono.en", *TAUGHT, *words, cwd=project, check=False)
    assert (refused.returncode, message in refused.stderr) == (2, True), refused.stderr
    assert sorted(project.rglob("*")) == before


@pytest.mark.slow
def test_killed_at_any_moment_it_resumes_to_the_same_bytes(nmt, project):
    write_lines(project / "mono.en", 9_000, 9)
    options = ("--mono", "mono.en", "--model", "en-de", "--keep", "0.7", "--scored-by", "de-en", *QUICK)
    nmt("synthesize", "whole-de-en", *options, cwd=project)
    expected, draw, kills = files(project / "data/whole-de-en"), random.Random(0), 0
    while True:
        with running_command(["synthesize", "killed-de-en", *options], cwd=project) as process:
            deadline = time.monotonic() + draw.uniform(1, 2 + kills)
            while process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            if process.poll() is not None:
                assert process.returncode == 0
                break
            process.kill()
            kills += 1
    assert kills > 2
    assert files(project / "data/killed-de-en") == expected
    assert not (project / "data/killed-de-en.synthesis").exists()
