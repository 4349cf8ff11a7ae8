"""The command lines of README, docs and examples parse: also those in sentences, and in blocks that no test runs."""

import re
import shlex
from pathlib import Path

import pytest
import typer.main

from nmt.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").glob("**/README.md"))]
BLOCK = re.compile(r"^```(?:sh|sh no-test|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
IN_SENTENCE = re.compile(r"`nmt ([^`]+)`")
GROUP = typer.main.get_command(app)
STARTS = {"nmt", ".venv/bin/nmt"}


def commands_in(script: str) -> list[list[str]]:
    """The words behind each ``nmt`` of a script, without redirections."""
    script = re.sub(r"(?m)(^|\s)#.*$|\d?>&\d", " ", script.replace("\\\n", " "))
    script = re.sub(r"<\([^)]*\)", "PIPE", script)
    lexer = shlex.shlex(script, posix=True, punctuation_chars="|<>;&()\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    found: list[list[str]] = []
    current: list[str] | None = None
    words = iter(lexer)
    for word in words:
        if word[0] in "<>":
            next(words)
        elif set(word) <= set("|;&()\n"):
            current = None
        elif current is not None:
            current.append(word)
        elif word in STARTS:
            found.append(current := [])
    return found


def parse(words: list[str]) -> None:
    """Parse a command, with its subcommands; what is wrong is an error."""
    group, context = GROUP, GROUP.make_context("nmt", [], resilient_parsing=True)
    while words and (command := group.commands.get(words[0])) is not None:
        name, *words = words
        if not hasattr(command, "commands"):
            command.make_context(name, words, parent=context)
            return
        group = command
    assert words == [] or words[0].startswith("-"), f"no command: {words[0]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_documented_command_parses(page):
    for block in BLOCK.findall(page.read_text("utf-8")):
        for words in commands_in(re.sub(r"^\$ ", "", block, flags=re.MULTILINE)):
            try:
                parse(words)
            except Exception as error:
                raise AssertionError(f"nmt {' '.join(words)}: {error}") from error


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_option_in_a_sentence_exists(page):
    for text in IN_SENTENCE.findall(page.read_text("utf-8")):
        group, words = GROUP, text.split()
        while words and hasattr(group, "commands"):
            group = group.commands.get(words.pop(0))
        if group is not None:
            known = {option for param in group.params for option in (*param.opts, *param.secondary_opts)} | {"--help"}
            assert {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)} <= known, text


def test_commands_are_found_wherever_they_stand_in_a_script():
    script = (
        "for n in 1 2; do nmt train \\\n  --out r$n; done\ncat a < b | nmt translate -q > c 2>&1 && nmt score 'd e'\n"
    )
    assert commands_in(script) == [["train", "--out", "r$n"], ["translate", "-q"], ["score", "d e"]]
