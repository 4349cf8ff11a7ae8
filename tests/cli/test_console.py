"""Output of the commands: one place, which lets nothing steer the terminal."""

import contextlib
import io
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import nmt
from nmt.cli import console
from nmt.cli import progress_lines as progress

EVIL = "a\x1b]0;owned\x07\x1b[2J\u202eb\r[bold red]c[/nonsense]:smile:"
HARMLESS = r"a\u001b]0;owned\u0007\u001b[2J\u202eb\u000d[bold red]c[/nonsense]:smile:"


@pytest.fixture(params=[True, False], ids=["terminal", "file"])
def shown(request, monkeypatch):
    """What is shown on stderr, a terminal or not."""
    stream = io.StringIO()
    made = Console(
        file=stream, width=400, force_terminal=request.param, color_system=None, soft_wrap=True, highlight=False,
        markup=False, emoji=False,
    )  # fmt: skip
    monkeypatch.setattr(console, "stderr", lambda: made)
    monkeypatch.setattr(progress, "stderr", lambda: made)
    monkeypatch.setattr(progress, "is_terminal", lambda: request.param)
    clock = itertools.count(0, 20)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    return stream


def test_an_error_quotes_no_password(shown):
    console.print_error("there is no data set 'https://me:secret@host.example/a@b?c=1'. Is it right?")
    assert "'https://host.example/a@b?c=1'. Is it right?" in shown.getvalue()
    assert "secret" not in shown.getvalue()


@pytest.mark.parametrize("tell", [console.notice, console.warn, console.print_error])
def test_messages_are_harmless(shown, tell):
    tell(EVIL)
    assert shown.getvalue().removeprefix("warning: ").removeprefix("error: ") == f"{HARMLESS}\n"


def test_what_progress_is_about_is_harmless(shown):
    with progress.progress_display() as display:
        update = display("pairs")
        for done in (0, 10):
            update(f"{EVIL}\n", done, 20)
    assert HARMLESS in shown.getvalue()
    assert "\x1b]" not in shown.getvalue()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_standard_output_is_harmless_on_a_terminal_and_exact_elsewhere(monkeypatch, is_terminal):
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
    monkeypatch.setattr(console.sys, "stdout", stream)
    console.write_stdout(f"{EVIL}\udcff\n")
    assert stream.getvalue() == (HARMLESS if is_terminal else EVIL) + "\\udcff\n"


def test_no_other_module_writes_text():
    """All output of the commands goes through the functions of one module."""
    writes = re.compile(r"std(out|err)\.write\(|\bConsole\(|TextColumn\((?!.*markup=False)|\becho\(|\bprint\(")
    found = [
        f"{path.name}:{number}"
        for path in sorted((Path(nmt.__file__).parent / "cli").glob("*.py"))
        if path.name != "console.py"
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if writes.search(line) and "stderr().print(" not in line
    ]
    assert found == []


@pytest.mark.parametrize(
    ("encoding", "written"),
    [("ascii", r'"\u2013 \u00e9 \ud83d\ude00"'), ("latin-1", r'"\u2013 é \ud83d\ude00"'), ("utf-8", '"– é 😀"')],
)
def test_what_the_encoding_of_standard_output_lacks_is_escaped_as_json_escapes_it(monkeypatch, encoding, written):
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr(console.sys, "stdout", stream)
    console.write_stdout('"– é 😀"')
    stream.flush()
    assert stream.buffer.getvalue().decode(encoding) == written
    assert json.loads(written) == "– é 😀"


@pytest.mark.parametrize(
    ("file", "found"),
    [("out.json", "out.json"), ("sub/out.json", "sub/out.json"), ("../out.json", "None"), (None, "None")],
)
def test_a_file_below_the_current_folder_is_known_as_standard_output(tmp_path, file, found):
    """A file elsewhere or a pipe is not."""
    (tmp_path / "here/sub").mkdir(parents=True)
    program = "import sys; from nmt.cli.console import file_of_stdout; print(file_of_stdout(), file=sys.stderr)"
    with contextlib.nullcontext(subprocess.PIPE) if file is None else (tmp_path / "here" / file).open("wb") as out:
        command = [sys.executable, "-c", program]
        ended = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, cwd=tmp_path / "here", check=True)
    assert ended.stderr.decode() == f"{found}\n"
