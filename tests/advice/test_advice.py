"""What an error recommends helps: advice is followed, and the command succeeds."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from nmt.io.locking import exclusive
from tests.advice.conftest import succeed, type_command
from tests.trees import contents

RUN, DATA = Path("runs/r"), Path("data/a")
TRAIN = "train --data data/a --config quick.yaml"
TO_RUN, NEW = f"{TRAIN} --out runs/r", f"{TRAIN} --out runs/new"
OWN = "prepare-data my-en-de --train corpus/c"
TABLE = "prepare-data my-en-de --train corpus/scored.tsv"
REMAKE = "prepare-data a --source-lang en --target-lang de --train corpus/c --out data/a"
TO_OUT = "translate --model runs/r --input corpus/c.en --output out"
AVERAGE = "average-checkpoints runs/r"
DECAY = f"{NEW} --set schedule.decay=linear --set"
FROM = "train --data data/a --init-from runs/r --out runs/new"
PRINTED = "what the message prints in backticks, then the same command"


def nothing() -> None:
    """Change nothing."""


def typed(*commands: str) -> Callable[[], None]:
    return lambda: [succeed(command) for command in commands] and None


def written(name: str, text: str = "") -> Callable[[], object]:
    return lambda: Path(name).write_text(text)


def removed(name: str) -> Callable[[], object]:
    return lambda: shutil.rmtree(name) if Path(name).is_dir() else Path(name).unlink()


def damage_checkpoints() -> None:
    for path in (RUN / "checkpoints").iterdir():
        (path / "model.safetensors").write_bytes(b"")


def forget_scores() -> None:
    for path in (RUN / "checkpoints").iterdir():
        (path / "checksums.json").unlink()
        changed = json.loads((path / "training.json").read_text()) | {"scores": {}}
        (path / "training.json").write_text(json.dumps(changed))


def lose_data() -> None:
    DATA.rename("data/b2")
    entries = json.loads((RUN / "data.json").read_text())
    (RUN / "data.json").write_text(json.dumps([entry | {"path": "/nowhere"} for entry in entries]))


def change_manifest(**changed: object) -> Callable[[], object]:
    path = DATA / "manifest.json"
    return lambda: path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def cut_shards() -> None:
    path = DATA / "shards/train.source.tokens"
    path.write_bytes(path.read_bytes()[:-4])


def spoil_shards() -> None:
    """Pieces beyond the vocabulary."""
    path = DATA / "shards/train.target.tokens"
    path.write_bytes(b"\xff" * path.stat().st_size)


def add_rare_character() -> None:
    path = DATA / "train.en"
    path.write_text("漢 do\n" + path.read_text().split("\n", 1)[1])


def add_line() -> None:
    with (DATA / "train.en").open("a") as stream:
        stream.write("one more\n")


def need_no_gpu() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")


normalised = typed("build-vocab --data data/a --vocab data/a/vocab.model --source-normalization nfkc")

# By what is done before: a command that fails, what is typed next, and words of the error. By default, these are the
# options by which the two differ.
CASES: dict[Callable[[], object], list[tuple[str, ...]]] = {
    nothing: [
        (f"{TO_RUN} --set model.d_model=32", f"{TO_RUN} --set model.d_model=32 --fresh"),
        (f"{TO_RUN} --set model.d_model=32", "train --resume runs/r", "nmt train --resume runs/r"),
        (f"{TO_RUN} --set optimizer.beta1=0.5", f"{TO_RUN} --set optimizer.beta1=0.5 --accept-changes"),
        ("train --data data/b --init-from runs/r --out runs/new", PRINTED),
        (f"{FROM} --set model.d_model=32", FROM),
        ("train --resume runs/r --preset tiny", "train --resume runs/r --set training.patience=3"),
        ("train --resume runs/r --fresh", "train --resume runs/r"),
        ("train --resume data/a", NEW, "nmt train"),
        (f"{TRAIN} --out data/a", NEW),
        ("train --data data/a --preset quick.yaml --out runs/new", NEW, "--config"),
        (f"{TO_RUN} --set model.heads", f"{TO_RUN} --set model.heads=2"),
        (f"{TO_RUN} --set data.weight=2", f"{NEW} --data data/a:2", "--data DIR[:WEIGHT]"),
        (f"{DECAY} schedule.decay_updates=40 --max-updates 50", f"{DECAY} schedule.decay_updates=40 --max-updates 40"),
        (
            f"{DECAY} training.max_updates=null",
            f"{NEW} --set schedule.decay=linear --max-minutes 0.01",
            "--max-minutes",
        ),
        (f"{NEW} --set model.d_model=1000000", f"{NEW} --preset tiny --set model.d_model=32", "--preset", "--set"),
        (f"{NEW} --data data/b", PRINTED, "`nmt build-vocab --data data/b --vocab data/a/vocab.model`"),
        ("train --data data/b --config quick.yaml --out runs/new --set model.max_positions=6", PRINTED, "--max-pieces"),
        ("build-vocab --data none", "build-vocab --data data/b"),
        ("build-vocab --data data/toy-en-de", PRINTED, "nmt prepare-data toy-en-de"),
        ("build-vocab --data data/b --size 5", "build-vocab --data data/b --size 40"),
        ("build-vocab data/a --size 40", "build-vocab --data data/a --size 40"),
        ("build-vocab --data data/a --vocab data/b/vocab.model --size 40", "build-vocab --data data/a --size 40"),
        ("translate --model runs/r --max-source-length 5000", "translate --model runs/r --max-source-length 1023"),
        ("prepare-data", OWN, "--train"),
        ("prepare-data mine-en-de --valid corpus/d", "prepare-data mine-en-de --valid corpus/d --train corpus/c"),
        ("prepare-data mine --train corpus/c", "prepare-data mine --train corpus/c --source-lang en --target-lang de"),
        (f"{OWN} --filter htlm", f"{OWN} --filter html"),
        (f"{OWN} --train corpus/d.en", f"{OWN} --train corpus/d"),
        (f"{OWN} --valid corpus/none", f"{OWN} --valid corpus/d"),
        (f"{OWN} --out corpus", f"{OWN} --out free"),
        (f"{OWN} --out data/a", f"{OWN} --out data/a --force", "--force", "holds the data set a from en to de"),
        (f"{OWN} --out data/a", f"{OWN} --out data/c"),
        ("report data/a", "report runs/r", "nmt train"),
        ("report runs/r --out data/a", "report runs/r --out page.html"),
        (f"{AVERAGE} --last 2 --best 2", f"{AVERAGE} --last 2"),
        (f"{AVERAGE} --last 2 --out runs/r/checkpoints/mean", f"{AVERAGE} --last 2 --out mean"),
        ("score corpus/c.de", "score --reference corpus/c.de corpus/c.de"),
        ("nmt import runs/r --out runs/r", "nmt import runs/r --out models/r"),
        ("translate --model runs/r --fresh", f"{TO_OUT} --fresh", "--output"),
    ],
    typed("build-vocab --data data/a --size 32 --force"): [(TO_RUN, PRINTED)],
    normalised: [(TO_RUN, PRINTED, "data.source_text"), (FROM, PRINTED, "prepares text otherwise")],
    typed("build-vocab --data data/b --vocab data/a/vocab.model --source-normalization nfkc"): [
        (f"{NEW} --data data/b", PRINTED, "--source-normalization")
    ],
    damage_checkpoints: [(TO_RUN, f"{TO_RUN} --fresh")],
    lose_data: [("train --resume runs/r", "train --resume runs/r --data data/b2")],
    written("runs/r/data.json", "["): [("train --resume runs/r", "train --resume runs/r --data data/a", "is damaged")],
    written("taken"): [
        (f"{TRAIN} --out taken", NEW),
        (f"{TRAIN} --out taken/run", NEW),
        (f"{TRAIN} --fresh --out taken/run", f"{TRAIN} --fresh --out free/run"),
        (f"{OWN} --out taken", f"{OWN} --out free"),
        ("inspect runs/r --out taken", "inspect runs/r --out free"),
    ],
    cut_shards: [(NEW, PRINTED)],
    spoil_shards: [(NEW, PRINTED)],
    removed("data/a/shards"): [(NEW, PRINTED, "has no shards yet")],
    removed("data/a/vocab.model"): [(NEW, PRINTED)],
    removed("data/b/shards"): [(f"{NEW} --data data/b", PRINTED, "--data data/b --vocab data/a/vocab.model")],
    written("data/a/shards/index.json", "{"): [(NEW, PRINTED, "is damaged")],
    change_manifest(fingerprint="of other text"): [(NEW, PRINTED, "its text has changed")],
    change_manifest(of_another_version=1): [(NEW, f"{REMAKE} --force", "nmt prepare-data", "--force")],
    add_rare_character: [
        (NEW, PRINTED, "train.en changed after the text was encoded"),
        (
            "build-vocab --data data/a --size 20 --force",
            "build-vocab --data data/a --size 20 --force --character-coverage 0.9995",
        ),
    ],
    add_line: [
        (NEW, f"{REMAKE} --force", "must be parallel", "nmt prepare-data", "--force"),
        ("build-vocab --data data/a", f"{REMAKE} --force", "nmt prepare-data", "--force"),
        (REMAKE, f"{REMAKE} --force", "train.en was edited", "--force"),
    ],
    need_no_gpu: [(f"{NEW} --device cuda", f"{NEW} --device auto")],
    removed("data"): [("build-vocab", PRINTED, "nmt prepare-data toy-en-de")],
    removed("runs"): [("translate", NEW, "nmt train")],
    removed("runs/r/checkpoints"): [("average-checkpoints", PRINTED, "nmt train --resume")],
    forget_scores: [(f"{AVERAGE} --best 2", f"{AVERAGE} --last 2")],
    written("corpus/scored.tsv", "".join(f"ba {n}\tdo {n}\t0.9\n" for n in range(60))): [
        (f"{TABLE} --filter min_score=0.5", f"{TABLE} --filter min_score=0.5 --columns en,de,score"),
        (f"{TABLE} --columns en,de,score --filter min_score", f"{TABLE} --columns en,de,score --filter min_score=0.5"),
    ],
    written("out", "x\n"): [(TO_OUT, f"{TO_OUT} --fresh")],
    written("out.partial", "x\n"): [(TO_OUT, f"{TO_OUT} --fresh")],
    typed(f"{TO_OUT} --beam 3"): [(f"{TO_OUT} --beam 2", f"{TO_OUT} --beam 2 --fresh")],
}


def differing_options(*commands: str) -> set[str]:
    """The options that not all commands have, or not with the same values."""
    with_values = [set(re.findall(r"(--[a-z-]+)((?: (?!--)\S+)*)", command)) for command in commands]
    return {name for name, _ in set.union(*with_values) - set.intersection(*with_values)}


@pytest.mark.parametrize(
    ("prepare", "case"),
    [
        pytest.param(prepare, case, id=f"{number}: {case[0][:60]} -> {case[1][:30]}")
        for number, (prepare, cases) in enumerate(CASES.items())
        for case in cases
    ],
)
def test_advice_that_is_followed_fixes_the_error(prepare: Callable[[], object], case: tuple[str, ...], project: Path):
    command, then, *words = case
    prepare()
    failed = type_command(command)
    assert failed.exit_code == 2, failed.stderr
    error = failed.stderr[failed.stderr.index("error: ") :]
    for word in words or (differing_options(command, then) if then != PRINTED else ()):
        assert re.search(rf"{re.escape(word)}(?![\w-])", error), f"{word!r} is not in: {error}"
    printed = re.findall(r"`(nmt [^`]*)`", error) if then == PRINTED else []
    assert printed or then != PRINTED, error
    for advised in (*dict.fromkeys(printed), command if then == PRINTED else then):
        succeed(advised)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--target-lang zh", "猫坐在垫子上"),
        ("--tokenize char", "猫がマットの上に座っている"),
        ("--target-lang th", "แมวนั่งบนเสื่อ"),
    ],
)
def test_advice_that_is_followed_ends_the_warning(project: Path, option: str, text: str):
    Path("reference").write_text(f"{text}\n")
    [warning] = warnings_of("score --reference reference reference")
    assert option.split()[0] in warning
    assert warnings_of(f"score --reference reference reference {option}") == []


def warnings_of(command: str) -> list[str]:
    result = type_command(command)
    assert result.exit_code == 0, result.stderr
    return [line for line in result.stderr.splitlines() if line.startswith("warning: ")]


def test_a_data_set_that_a_run_trains_on_is_not_changed(project: Path):
    before = contents(DATA)
    changing = (
        "build-vocab --data data/a --size 36",
        "build-vocab --data data/a --size 40 --max-pieces 9",
        "build-vocab --data data/a --vocab data/b/vocab.model",
        "build-vocab --data data/b --data data/a --size 38",
        REMAKE,
    )
    with exclusive(RUN / ".lock"):
        for command in changing:
            error = type_command(f"{command} --force").stderr
            message = rf"data/a: runs/r is training on it \(process {os.getpid()} on .*work on a copy"
            assert re.search(message, " ".join(error.split())), error
            assert contents(DATA) == before
        succeed("build-vocab --data data/a --size 40")  # up to date
        succeed("build-vocab --data data/b --size 40")
        shutil.copytree("data/a", "data/copy")
        succeed("build-vocab --data data/copy --size 36")
    for command in changing:
        error = " ".join(type_command(command).stderr.split())
        assert "data/a: runs/r was trained on it" in error and "add --force to replace it" in error, command
        assert contents(DATA) == before
    succeed("build-vocab --data data/a --size 40")  # up to date
    succeed("build-vocab --data data/b --size 32")
    for command in changing:
        succeed(f"{command} --force")
    succeed("build-vocab --data data/a --size 34")  # the run stands on it no more


def test_a_vocabulary_whose_shards_are_lost_stays_trained_if_the_advice_is_followed(project: Path):
    before = contents(DATA)
    shutil.rmtree(DATA / "shards")
    [command] = re.findall(r"`(nmt [^`]*)`", type_command(NEW).stderr)
    succeed(command)
    after = contents(DATA)
    assert after.keys() == before.keys()
    assert after["vocab.json"] == before["vocab.json"] and after["vocab.model"] == before["vocab.model"]


@pytest.mark.parametrize("options", ["--data data/b", "--data data/a --preset tiny", "--data data/b --fresh"])
def test_initial_weights_that_do_not_fit_are_refused_before_the_run_begins(project: Path, options: str):
    failed = type_command(f"train {options} --init-from runs/r --out new/run")
    assert failed.exit_code == 2
    assert "error: runs/r/" in failed.stderr and "run: " not in failed.stderr
    assert not Path("new").exists()
