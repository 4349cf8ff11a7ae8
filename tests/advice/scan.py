"""What the program's messages recommend: every command in backticks and every option, found in its sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import nmt

SOURCES = Path(nmt.__file__).parent
COMMAND = re.compile(r"`(nmt [^`]*)`")
OPTION = re.compile(r"(?<![\w`-])--[a-z][a-z0-9-]*")
_SCRIPTS = ("lineage/script.py",)
"""Modules that write the lines of a script, which is run by a test. Only their errors are messages."""
UNKNOWN = "{}"
"""Stands for what a message fills in."""


def advice_in_sources() -> dict[str, list[str]]:
    """All pieces of advice in messages, each with the modules that give it."""
    found: dict[str, list[str]] = {}
    for path in sorted(SOURCES.rglob("*.py")):
        module = path.relative_to(SOURCES).as_posix()
        tree = ast.parse(path.read_text("utf-8"))
        trees = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)] if module in _SCRIPTS else [tree]
        for text in (text for tree in trees for text in messages(tree)):
            for advice in advice_in(text):
                modules = found.setdefault(advice, [])
                if module not in modules:
                    modules.append(module)
    return found


def advice_in(text: str) -> Iterator[str]:
    """The commands and, outside of them, the options that a message names."""
    yield from COMMAND.findall(text)
    yield from OPTION.findall(COMMAND.sub("", text))


def messages(tree: ast.AST) -> Iterator[str]:
    """The texts of a module that people may read: no docstrings, no help of options, no commands to start.

    What is filled in is unknown.
    """
    skipped = {id(node) for parent in ast.walk(tree) for node in _not_messages(parent)}

    def visit(node: ast.AST) -> Iterator[str]:
        if id(node) in skipped:
            return
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else UNKNOWN for part in node.values)
            for part in node.values:
                if isinstance(part, ast.FormattedValue):
                    yield from visit(part.value)
        else:
            for child in ast.iter_child_nodes(node):
                yield from visit(child)

    yield from visit(tree)


def _not_messages(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
        # Docstrings, those of attributes included.
        yield from (part for part in node.body if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
    if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in (
        "Option",
        "Argument",
    ):
        yield node
    # The words of a command that the program starts.
    if isinstance(node, ast.List) and any(getattr(part, "attr", None) == "executable" for part in node.elts):
        yield node
