"""docs/architecture.md names every file, and none that is gone."""

import re
from pathlib import Path

import typer.main

import nmt
from nmt.cli.app import app

ROOT = Path(nmt.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"


def test_every_file_is_named():
    named = set(re.findall(r"(?<![\w/])(?:nmt/)?([a-z0-9_]+\.py)\b", PAGE.read_text("utf-8"))) - {"__init__.py"}
    files = {path.name for path in ROOT.rglob("*.py")} - {"__init__.py", "__main__.py"}
    modules = {f"{name.replace('-', '_')}.py" for name in typer.main.get_command(app).commands}
    assert named <= files
    assert files - named <= modules


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
