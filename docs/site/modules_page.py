"""The page of all modules: each file with the first paragraph of its docstring, in the order of the layers."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TITLE = """# Modules

Every file of `nmt/`, with the beginning of its docstring. A folder imports the folders above it, never those below. The
[architecture](../architecture.md) says how they work together.
"""


def modules_page() -> str:
    """The whole page."""
    parts = [TITLE]
    for folder, files in _folders():
        parts.append(f"## {folder.relative_to(ROOT)}/\n\n| file | subject |\n|---|---|")
        parts += [f"| `{path.name}` | {subject(path)} |" for path in files]
        parts.append("")
    return "\n".join(parts)


def subject(path: Path) -> str:
    """The first paragraph of a module's docstring on one line; empty without a docstring."""
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    paragraph = re.sub(r":\w+:(`[^`]+`)", r"\1", text.split("\n\n")[0].replace("``", "`"))
    return " ".join(paragraph.replace("|", "\\|").split())


def _folders() -> Iterator[tuple[Path, list[Path]]]:
    """The folders of the package with their files, from the lowest layer of import-linter's contract to the highest."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    folders = [name.strip(" ()") for line in reversed(layers) for name in line.split("|")]
    top = ROOT / "nmt"
    for folder in (top, *(folder for room in folders for folder in _with_inner(top / room))):
        files = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py" and subject(path)]
        if files:
            yield folder, files


def _with_inner(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield folder
        yield from (path for path in sorted(folder.rglob("*")) if path.is_dir())
