"""A small project to make mistakes in, and the command line in this process."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from nmt.cli.app import app
from tests.convert.unexamined import examine_nothing
from tests.data.one_data_set import build_vocabulary
from tests.training.conftest import SETTINGS, complete, make_data_set

QUICK = SETTINGS.replace("max_updates: 20", "max_updates: 3").replace("every_updates: 5", "every_updates: 1")


def type_command(command: str) -> Result:
    """Run ``nmt COMMAND`` in this process, in the current folder."""
    return CliRunner().invoke(app, shlex.split(command.removeprefix("nmt ")), input="ba do\n")


def succeed(command: str) -> None:
    """Run a command that must succeed."""
    result = type_command(command)
    assert result.exit_code == 0, f"nmt {command}\n{result.stderr}{result.exception!r}"


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project: ``data/a`` and ``data/b``, encoded with different vocabularies; ``runs/r``, a run of three updates
    on ``data/a``; ``quick.yaml``, its settings; ``corpus/c`` and ``corpus/d``, parallel text of one's own."""
    project = tmp_path_factory.mktemp("advice") / "project"
    make_data_set(project / "data" / "b", pairs=60, seed=3)
    build_vocabulary(project / "data" / "b", size=30, threads=1)
    make_data_set(project / "data" / "a", pairs=200)
    (project / "corpus").mkdir()
    for language in ("en", "de"):
        for name, data in (("c", "a"), ("d", "b")):
            shutil.copy(project / "data" / data / f"train.{language}", project / "corpus" / f"{name}.{language}")
    (project / "quick.yaml").write_text(complete(QUICK))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        succeed("train --data data/a --config quick.yaml --out runs/r")
    return project


@pytest.fixture
def project(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the project, as the current folder."""
    examine_nothing(monkeypatch)
    copy = tmp_path / "project"
    shutil.copytree(template, copy, symlinks=True)
    monkeypatch.chdir(copy)
    return copy
