"""What an error recommends helps: each piece of advice is followed, and every piece is looked for in the sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

from nmt.cli.app import app
from tests.advice.cases import AS_PRINTED, CASES, EXCEPTIONS, WARNINGS, Case
from tests.advice.conftest import succeed, type_command
from tests.advice.scan import COMMAND, SOURCES, advice_in, advice_in_sources, messages


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


def test_every_piece_of_advice_has_a_case_or_a_reason_why_not():
    in_sources = {f"{module}: {advice}" for advice, modules in advice_in_sources().items() for module in modules}
    covered = {piece for case in (*CASES, *WARNINGS) for piece in case.covers}
    assert covered <= in_sources, "cases for advice that is given no more"
    assert EXCEPTIONS.keys() <= in_sources, "exceptions for advice that is given no more"
    assert not covered & EXCEPTIONS.keys()
    assert in_sources - covered - EXCEPTIONS.keys() == set(), "add a case to cases.py"


def options_by_command() -> dict[str, set[str]]:
    group = typer.main.get_command(app)
    found: dict[str, set[str]] = {}

    def visit(command, path: str) -> None:
        for name, inner in getattr(command, "commands", {}).items():
            visit(inner, f"{path} {name}")
        words = (word for parameter in command.params for word in (*parameter.opts, *parameter.secondary_opts))
        found[path] = {"--help", *words}

    visit(group, "nmt")
    return found


def test_every_option_that_is_named_exists():
    by_command = options_by_command()
    known = set().union(*by_command.values())
    for advice, modules in advice_in_sources().items():
        if advice.startswith("nmt "):
            command = max((name for name in by_command if f"{advice} ".startswith(f"{name} ")), key=len)
            assert command != "nmt", f"{advice} ({modules}): there is no such command"
            for option in advice_in(advice.removeprefix("nmt")):
                assert option in by_command[command], f"{advice} ({modules}): {command} has no {option}"
        elif not OTHER_PROGRAMS.get(advice):
            assert advice in known, f"{advice} ({modules}): no command has it"


OTHER_PROGRAMS = {
    "--pad": "SentencePiece's --pad_id",
    "--unk": "SentencePiece's --unk_id",
    "--bos": "SentencePiece's --bos_id",
    "--eos": "SentencePiece's --eos_id",
}


def test_the_scan_finds_advice_and_leaves_out_what_is_none():
    import ast

    source = '''
"""Not --this."""
def f(a: Annotated[int, typer.Option("--that", help="nor --those")]):
    """Nor --these."""
    raise NmtError(f"{a}: Run `nmt train --data {a}` with --fresh" f" or {', '.join(['--out'])}.")
'''
    found = [advice for text in messages(ast.parse(source)) for advice in advice_in(text)]
    assert found == ["nmt train --data {}", "--fresh", "--out"]
    assert (SOURCES / "errors.py").is_file()
