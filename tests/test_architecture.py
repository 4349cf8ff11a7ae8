"""docs/architecture.md names no file that is gone, and every file says its subject."""

import ast
import re
from pathlib import Path

import nmt

ROOT = Path(nmt.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"


def test_every_named_file_exists():
    named = re.findall(r"(?<![\w/.])((?:nmt|tests)/[a-z0-9_/]+\.py|[a-z0-9_]+\.py)\b", PAGE.read_text("utf-8"))
    names = {path.name for path in ROOT.rglob("*.py")}
    assert len(named) > 40
    assert [name for name in named if "/" in name and not (ROOT.parent / name).is_file()] == []
    assert [name for name in named if "/" not in name and name not in names] == []


def test_every_file_says_its_subject():
    """The page of all modules is made of these docstrings."""
    files = [path for path in ROOT.rglob("*.py") if path.name != "__init__.py"]
    assert [path for path in files if not ast.get_docstring(ast.parse(path.read_text("utf-8")))] == []


def test_no_pattern_has_a_possessive_group():
    """Python before 3.11.5, as in Debian 12, matches them wrongly. Possessive characters and sets are right."""
    possessive_group = re.compile(r"(?<!\\)\)(?:[*+?]|\{[\d,]*\})\+")
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in ROOT.rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if re.search(r"\br[\"'].*\\|re\.compile\(", line) and possessive_group.search(line)
    ]
    assert found == []
