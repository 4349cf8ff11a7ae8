"""The page of the Python API: the public names of ``nmt`` with their signatures, docstrings and attributes."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import nmt
from nmt.option_fields import option_fields

TITLE = """# Python reference

The public names of the package `nmt`, from their docstrings. [nmt from Python](../python-api.md) shows how to use
them.
"""


def python_page() -> str:
    """The whole page: the functions, then the classes."""
    values = {name: getattr(nmt, name) for name in nmt.__all__}
    ordered = sorted(values, key=lambda name: inspect.isclass(values[name]))
    return "\n".join([TITLE, *(_name(name, values[name]) for name in ordered)])


def _name(name: str, value: Any) -> str:
    parts = [f"## {name}"]
    if isinstance(value, FunctionType):
        parts.append(_signature(value, f"nmt.{name}"))
    elif bases := [f"`{base.__name__}`" for base in value.__bases__ if base is not object]:
        parts.append(f"A kind of {', '.join(bases)}.")
    parts.append(_docstring(value))
    if inspect.isclass(value):
        parts += [f"- **`{attribute}`** (`{kind}`): {text}" for attribute, kind, text in _attributes(value)]
        parts += _members(name, value)
    return "\n\n".join(filter(None, parts)) + "\n"


def _signature(function: FunctionType, name: str) -> str:
    """A block of code with the types as they are written in the source, without their checks."""
    [node] = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(node, ast.FunctionDef)
    _Unchecked().visit(node)
    text = f"{name}({ast.unparse(node.args)}) -> {ast.unparse(node.returns) if node.returns else None}"
    wrapped = textwrap.fill(text.replace("(self, ", "("), 88, subsequent_indent="    ", break_on_hyphens=False)
    return f"```python\n{wrapped}\n```"


class _Unchecked(ast.NodeTransformer):
    """Replaces ``Annotated[int, Field(ge=1)]`` by ``int``."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if ast.unparse(node.value) == "Annotated" and isinstance(node.slice, ast.Tuple):
            return node.slice.elts[0]
        return self.generic_visit(node)


def _docstring(value: Any) -> str:
    """A docstring as Markdown: its sections become lists."""
    lines = []
    for line in (inspect.getdoc(value) or "").splitlines():
        if found := re.fullmatch(r"(Args|Raises|Returns|Yields):", line):
            line = f"**{'Arguments' if found[1] == 'Args' else found[1]}**\n"
        elif found := re.fullmatch(r"    (\w+(?:, \w+)*): (.*)", line):
            line = f"- **`{found[1].replace(', ', '`, `')}`**: {found[2]}"
        lines.append(line)
    return _markdown("\n".join(lines))


def _markdown(text: str) -> str:
    """The text with code as in Markdown."""
    return re.sub(r"``([^`]+)``", r"`\1`", re.sub(r":\w+:(`[^`]+`)", r"\1", text))


def _attributes(kind: type) -> Iterator[tuple[str, str, str]]:
    """The attributes of a class itself: name, type, description. A docstring may follow a field; options have help."""
    [node] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(node, ast.ClassDef)
    options = {field.name: field for field in option_fields(kind)} if hasattr(kind, "model_fields") else {}
    for field, following in zip(node.body, [*node.body[1:], None], strict=True):
        is_named = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if is_named and not field.target.id.startswith("_"):
            name, annotation, text = field.target.id, field.annotation, ""
            if name in options:
                text = options[name].python_text
            elif isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                text = inspect.cleandoc(str(following.value.value))
            yield name, ast.unparse(_Unchecked().visit(annotation)), _markdown(" ".join(text.split()))


def _members(name: str, kind: type) -> Iterator[str]:
    """The properties and methods of a class itself."""
    for member, value in vars(kind).items():
        if member.startswith("_"):
            continue
        if isinstance(value, property):
            yield f"- **`{member}`**: {_docstring(value)}"
        elif isinstance(value, FunctionType):
            yield "\n\n".join([f"### {name}.{member}", _signature(value, member), _docstring(value)])
