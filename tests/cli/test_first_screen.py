"""``nmt`` alone: in a terminal the state of this folder and the next command, elsewhere the help."""

import json
import os
import pty
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.cli.first_screen import first_screen, screen_lines
from nmt.config import load_preset, parse_config
from nmt.corpora.prepare import prepare
from nmt.corpora.recipe import own_recipe
from nmt.locking import exclusive
from nmt.training.progress import Ending, Progress

NMT = [sys.executable, "-m", "nmt"]


@pytest.fixture
def data_set(tmp_path, monkeypatch):
    """The current folder, with a data set in it that has no vocabulary."""
    monkeypatch.chdir(tmp_path)
    for language, word in (("en", "apple"), ("de", "Apfel")):
        (tmp_path / f"corpus.{language}").write_text("".join(f"{word} {number}\n" for number in range(100)))
    recipe = own_recipe("mine", source_lang="en", target_lang="de", train=["corpus"], valid=[], test=[])
    prepare(recipe, Path("data/mine"))
    return tmp_path


def shown() -> str:
    return "\n".join(left + right for left, right in screen_lines(first_screen()))


def next_commands() -> list[str]:
    return [command for command, _ in first_screen().next]


def a_run(name: str = "mine-tiny", *, update: int | None, **progress) -> Path:
    run = Path("runs") / name
    run.mkdir(parents=True)
    settings = load_preset("tiny") | {"data": {"name": "mine", "source_lang": "en", "target_lang": "de"}}
    (run / "config.yaml").write_text(json.dumps(settings))
    if update is not None:
        checkpoint = run / "checkpoints" / f"step-{update:08d}"
        checkpoint.mkdir(parents=True)
        (checkpoint / "model.safetensors").touch()
        state = Progress(update=update, **progress).values()
        (checkpoint / "training.json").write_text(json.dumps(state))
    return run


def test_an_empty_folder_offers_a_beginning(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "no data set and no run yet" in shown()
    assert next_commands()[0] == "nmt prepare-data toy-en-de"


def test_each_state_leads_to_its_command(data_set):
    assert re.search(r"data/mine +en-de, 90 training pairs; no vocabulary yet", shown())
    assert next_commands() == ["nmt build-vocab"]
    Path("data/mine/vocab.model").touch()
    assert next_commands() == ["nmt train"]
    run = a_run(update=None)
    assert next_commands() == ["nmt train --resume runs/mine-tiny"]
    shutil.rmtree(run)
    run = a_run(update=400)
    assert "stopped at update 400" in shown()
    assert next_commands() == ["nmt train --resume runs/mine-tiny"]
    shutil.rmtree(run)
    run = a_run(update=1200)
    assert next_commands() == [
        "nmt translate",
        "nmt translate < data/mine/test.en > hypothesis.de",
        "nmt score --reference data/mine/test.de hypothesis.de",
    ]


def test_what_bare_commands_would_not_take_is_named(data_set):
    shutil.copytree("data/mine", "data/my own")
    os.utime("data/my own/manifest.json", (1, 1))
    Path("data/my own/vocab.model").touch()
    os.utime("data/my own/vocab.model")
    os.utime("data/mine/manifest.json", (2, 2))
    assert next_commands() == ["nmt train --data 'data/my own'"]


def test_a_run_that_a_process_works_on_is_left_to_it(data_set):
    run = a_run(update=400)
    with exclusive(run / ".lock"):
        assert "training now, last checkpoint at update 400" in shown()
        assert next_commands() == ["nmt report"]
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (run / ".lock").write_text(f"{ended.pid} on {socket.gethostname()}")
    assert next_commands() == ["nmt train --resume runs/mine-tiny"]


@pytest.mark.parametrize(
    ("progress", "ending"),
    [
        ({"update": 1200}, Ending.UPDATES),
        ({"update": 10, "validations_without_gain": 5}, Ending.PATIENCE),
        ({"update": 10, "validations_without_gain": 4}, None),
    ],
)
def test_a_run_is_over_when_training_says_so(data_set, progress, ending):
    assert Progress(**progress).ending(parse_config(load_preset("tiny"), name="tiny")) == ending
    a_run(**progress)
    assert ("finished" in shown()) == (ending is not None)


def test_damaged_files_are_shown_and_lead_nowhere(data_set):
    Path("data/mine/manifest.json").write_text("{")
    assert "cannot be read" in shown()
    run = a_run(update=400)
    (run / "config.yaml").write_text(": [")
    (run / "checkpoints" / "step-00000400" / "training.json").write_text("[]")
    assert next_commands() == ["nmt train --resume runs/mine-tiny"]


def test_only_the_newest_are_shown(data_set):
    for number in range(6):
        a_run(f"run-{number}", update=None)
    assert "and 2 older" in shown()


def in_terminal(*command: str, cwd: Path) -> tuple[str, int]:
    """What a command shows in a terminal, and its exit code."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        try:
            while block := os.read(ours, 4096):
                shown += block
        except OSError:  # Linux says so when the other side is closed
            pass
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()), process.returncode


def test_a_terminal_gets_the_screen_and_a_pipe_the_help(data_set):
    text, code = in_terminal(*NMT, cwd=data_set)
    assert code == 2
    assert re.search(r"Next\r\n  nmt build-vocab  train a vocabulary", text)
    piped = subprocess.run(NMT, cwd=data_set, capture_output=True, text=True, check=False)
    assert (piped.returncode, piped.stdout) == (2, "")
    assert piped.stderr.startswith("Usage: nmt [OPTIONS] COMMAND")
    closed = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *NMT], cwd=data_set, capture_output=True, check=False)
    assert (closed.returncode, closed.stderr.decode()) == (2, piped.stderr)


def test_the_screen_needs_no_torch(data_set):
    Path("data/mine/vocab.model").touch()
    a_run(update=1200)
    program = (
        "import sys; from nmt.cli.first_screen import *; list(screen_lines(first_screen())); "
        "print([name for name in ('torch', 'numpy', 'sentencepiece') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[]\n"
