"""The help of every command as a page: written by the code that prints the help, with a formatter for Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import typer.main

from nmt.cli.app import app


def command_pages() -> Iterator[tuple[str, str]]:
    """The name of each command and its page."""
    group = typer.main.get_command(app)
    context = group.make_context("nmt", [], resilient_parsing=True)
    for name, command in group.commands.items():
        page = _MarkdownHelp(f"nmt {name}")
        command.format_help(command.make_context(name, [], parent=context, resilient_parsing=True), page)
        yield name, page.text


class _MarkdownHelp:
    """What the command line needs of a formatter of help."""

    width = 10_000
    """Longer descriptions of commands are shortened."""

    def __init__(self, title: str) -> None:
        self.text = f"# {title}\n"

    def write_usage(self, program: str, words: str = "") -> None:
        """Write how to call the command."""
        self.text += f"\n```text\n{program} {words}\n```\n"

    def write_paragraph(self) -> None:
        """Write nothing: every part begins with an empty line."""

    @contextmanager
    def indentation(self) -> Iterator[None]:
        """Indent nothing."""
        yield

    def write_text(self, text: str) -> None:
        """Write paragraphs; an example becomes a block of code."""
        for paragraph in text.split("\n\n"):
            words = " ".join(paragraph.split())
            example = words.removeprefix("Example: ")
            self.text += f"\n{_escaped(words)}\n" if example == words else f"\n```sh\n{example}\n```\n"

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Write a heading."""
        self.text += f"\n## {name}\n"
        yield

    def write_dl(self, rows: Iterable[tuple[str, str]], **_: Any) -> None:
        """Write options, arguments or commands as a table; their defaults, if any, have a column of their own."""
        parts = [(name, *text.partition("  [")[::2]) for name, text in rows]
        columns = 3 if any(default for _, _, default in parts) else 2
        table = [("", "", "default"), ("---", "---", "---")]
        table += [(f"`{name}`", _escaped(text), _escaped(default.removesuffix("]"))) for name, text, default in parts]
        self.text += "\n" + "".join(f"| {' | '.join(row[:columns])} |\n" for row in table)


def _escaped(text: str) -> str:
    """Text without Markdown or HTML of its own; options are code."""
    text = re.sub(r"([\\*_\[\]<>|])", r"\\\1", text)
    return re.sub(r"(?<![\w`-])--?[a-z][a-z-]*(?![^`]*`)", r"`\g<0>`", text)
