"""What an error recommends helps: advice is followed."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from nmt.io.locking import exclusive
from tests.advice.cases import AS_PRINTED, CASES, WARNINGS, Case
from tests.advice.conftest import succeed, type_command
from tests.trees import contents

COMMAND = re.compile(r"`(nmt [^`]*)`")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.command} -> {case.then[:60]}")
def test_advice_that_is_followed_fixes_the_error(case: Case, project: Path):
    case.prepare(project)
    failed = type_command(case.command)
    assert failed.exit_code == 2, failed.stderr
    error = failed.stderr[failed.stderr.index("error: ") :]
    assert case.fixed in error
    for piece in case.covers:
        advice = piece.split(": ", 1)[1]
        assert re.search(pattern(advice), error), f"{advice!r} is not in: {error}"
    if case.then != AS_PRINTED:
        case.by_hand(project)
        if case.first:
            succeed(case.first)
        succeed(case.then)
        return
    for command in dict.fromkeys(printed for printed in COMMAND.findall(error) if is_covered(printed, case)):
        succeed(command)
    succeed(case.command)


@pytest.mark.parametrize("case", WARNINGS, ids=lambda case: f"{case.command} -> {case.then[:60]}")
def test_advice_that_is_followed_ends_the_warning(case: Case, project: Path):
    case.prepare(project)
    [warning] = warnings_of(case.command)
    for piece in case.covers:
        assert re.search(pattern(piece.split(": ", 1)[1]), warning)
    assert warnings_of(case.then) == []


def warnings_of(command: str) -> list[str]:
    result = type_command(command)
    assert result.exit_code == 0, result.stderr
    return [line for line in result.stderr.splitlines() if line.startswith("warning: ")]


def pattern(advice: str) -> str:
    """What a piece of advice looks like in a message, with something in place of what it fills in."""
    return ".+?".join(map(re.escape, advice.split("{}"))) + r"(?![\w-])"


def is_covered(printed: str, case: Case) -> bool:
    return any(re.fullmatch(pattern(piece.split(": ", 1)[1]), printed) for piece in case.covers)


def test_a_vocabulary_whose_shards_are_lost_stays_trained_if_the_advice_is_followed(project: Path):
    data = project / "data" / "a"
    before = contents(data)
    shutil.rmtree(data / "shards")
    [command] = COMMAND.findall(type_command("train --data data/a --config quick.yaml --out runs/new").stderr)
    succeed(command)
    after = contents(data)
    assert after.keys() == before.keys()
    assert after["vocab.json"] == before["vocab.json"] and after["vocab.model"] == before["vocab.model"]


@pytest.mark.parametrize("options", ["--data data/b", "--data data/a --preset tiny", "--data data/b --fresh"])
def test_initial_weights_that_do_not_fit_are_refused_before_the_run_begins(project: Path, options: str):
    failed = type_command(f"train {options} --init-from runs/r --out new/run")
    assert failed.exit_code == 2
    assert "error: runs/r/" in failed.stderr and "run: " not in failed.stderr
    assert not (project / "new").exists()


def test_a_data_set_that_a_run_trains_on_is_not_changed(project: Path):
    before = contents(project / "data" / "a")
    changing = (
        "build-vocab --data data/a --size 36",
        "build-vocab --data data/a --size 40 --max-pieces 9",
        "build-vocab --data data/a --vocab data/b/vocab.model",
        "build-vocab --data data/b --data data/a --size 38",
        "prepare-data a --source-lang en --target-lang de --train corpus/c --out data/a",
    )
    with exclusive(project / "runs" / "r" / ".lock"):
        for command in changing:
            error = type_command(f"{command} --force").stderr
            message = rf"data/a: runs/r is training on it \(process {os.getpid()} on .*work on a copy"
            assert re.search(message, " ".join(error.split())), error
            assert contents(project / "data" / "a") == before
        succeed("build-vocab --data data/a --size 40")  # up to date
        succeed("build-vocab --data data/b --size 40")
        shutil.copytree("data/a", "data/copy")
        succeed("build-vocab --data data/copy --size 36")
    for command in changing:
        error = " ".join(type_command(command).stderr.split())
        assert "data/a: runs/r was trained on it" in error and "add --force to replace it" in error, command
        assert contents(project / "data" / "a") == before
    succeed("build-vocab --data data/a --size 40")  # up to date
    succeed("build-vocab --data data/b --size 32")
    for command in changing:
        succeed(f"{command} --force")
    succeed("build-vocab --data data/a --size 34")  # the run stands on it no more
