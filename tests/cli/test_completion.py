"""Completion in the shell, as bash, zsh and fish ask for it."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys

import pytest

from nmt.config import PRESETS
from nmt.corpora.recipe import builtin_names
from tests.commands import run_command


def completed(words: str) -> list[str]:
    """The candidates for the last word of a command line."""
    asked = {"_NMT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    result = run_command([], environment=asked)
    assert result.stderr == b""
    return result.stdout.decode().split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("nmt tr", ["train", "translate"]),
        ("nmt train --pre", ["--preset", "--precision"]),
        ("nmt train --preset ", sorted(PRESETS)),
        ("nmt train --precision ", ["auto", "fp32", "bf16", "fp16"]),
        ("nmt train --max-updates ten --precision b", ["bf16"]),
        ("nmt prepare-data wmt", [name for name in builtin_names() if name.startswith("wmt")]),
        ("nmt export runs/x --to c", ["ctranslate2"]),
        ("nmt train --set model.drop", ["model.dropout="]),
        ("nmt translate --input ", []),  # files: the shell's own completion
        ("nmt --version tr", ["train", "translate"]),
        ("nmt nonsense --d", []),
        ("nmt train --nonsense x --fre", ["--fresh"]),
    ],
)
def test_candidates(words, expected):
    assert completed(words) == expected


def test_completion_imports_nothing_that_takes_long():
    program = (
        "import atexit, os, sys\n"
        "names = ('torch', 'numpy', 'sentencepiece')\n"
        "atexit.register(lambda: print([name for name in names if name in sys.modules], file=sys.stderr))\n"
        "from nmt.cli.app import main\n"
        "main()\n"
    )
    asked = {"_NMT_COMPLETE": "complete_bash", "COMP_WORDS": "nmt train --precision ", "COMP_CWORD": "3"}
    result = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | asked, capture_output=True, text=True, check=True
    )
    assert (result.stdout.split()[0], result.stderr) == ("auto", "[]\n")


@pytest.mark.parametrize(
    ("shell", "line", "expected"),
    [
        ("zsh", {"_TYPER_COMPLETE_ARGS": "nmt train --precision b"}, '"bf16"'),
        ("fish", {"_TYPER_COMPLETE_ARGS": "nmt tr", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}, "train\tTrain a"),
    ],
)
def test_other_shells_are_answered_in_their_own_form(shell, line, expected):
    asked = {"_NMT_COMPLETE": f"complete_{shell}"} | line
    assert expected in run_command([], environment=asked).stdout.decode()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes(tmp_path):
    """A real bash: the script of --show-completion is loaded, and Tab is pressed."""
    (tmp_path / "nmt").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m nmt "$@"\n')
    (tmp_path / "nmt").chmod(0o755)
    (tmp_path / "captions.en").touch()
    environment = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PS1": "> ", "TERM": "dumb"}
    environment["HOME"] = str(tmp_path)
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path,
        env=environment, start_new_session=True,
    ) as bash:  # fmt: skip
        os.close(theirs)
        try:
            os.write(ours, b'bind "set enable-bracketed-paste off"; eval "$(nmt --show-completion)"; echo rea""dy\n')
            read_until(ours, "ready\r\n")
            os.write(ours, b"nmt comp\t--ref\tcapt\t")
            read_until(ours, "nmt compare --reference captions.en ")
        finally:
            bash.kill()
            os.close(ours)


def read_until(descriptor: int, text: str) -> None:
    """Read what a terminal shows until a text comes; without an answer, the test fails after a minute."""
    seen = ""
    while text not in re.sub(r"\a|\x1b\[[0-9;?]*[a-zA-Z]", "", seen):
        readable, _, _ = select.select([descriptor], [], [], 60)
        assert readable, seen
        seen += os.read(descriptor, 4096).decode()


def test_installing_it_where_home_cannot_be_written_is_an_error_without_a_traceback(tmp_path):
    (tmp_path / ".bashrc").mkdir()
    command = f'"{sys.executable}" -m nmt --install-completion; exit $?'
    environment = os.environ | {"HOME": str(tmp_path)}
    result = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr == f"error: {tmp_path / '.bashrc'}: Is a directory.\n"
