"""The lines of code that docs/the-paper.md quotes are the lines that stand there."""

import ast
import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
TOUR = (PROJECT / "docs" / "the-paper.md").read_text("utf-8")
QUOTE = re.compile(r"\[`([\w/]+\.py)`\]\(\.\./\1\), `([\w.]+)`:\n\n```python no-test\n(.*?)```", re.DOTALL)


def lines_of(path: str, name: str) -> str:
    """The code of a function or method, without its indentation."""
    source = (PROJECT / path).read_text("utf-8")
    nodes: list[ast.AST] = [ast.parse(source)]
    for part in name.split("."):
        nodes = [
            child
            for node in nodes
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.FunctionDef | ast.ClassDef) and child.name == part
        ]
    [node] = nodes
    return without_indents("\n".join(source.splitlines()[node.lineno - 1 : node.end_lineno]))


def without_indents(code: str) -> str:
    return "\n".join(line.strip() for line in code.splitlines())


@pytest.mark.parametrize(("path", "name", "code"), QUOTE.findall(TOUR))
def test_quoted_lines_stand_in_the_code(path, name, code):
    assert f"\n{without_indents(code)}\n" in f"\n{lines_of(path, name)}\n"


def test_every_block_of_code_names_where_it_stands():
    assert TOUR.count("```python no-test") == len(QUOTE.findall(TOUR)) > 20


def test_equations_and_sections_are_all_there():
    for section in ("3.1", "3.2", "3.3", "3.4", "3.5", "5.1", "5.2", "5.3", "5.4", "6.1", "6.2"):
        assert f"### {section} " in TOUR
    for number in (1, 2, 3):
        assert f"Equation {number}" in TOUR
