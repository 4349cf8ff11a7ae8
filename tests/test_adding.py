"""CONTRIBUTING.md says where an option, a command and a report are added: one of each is added to a copy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

SEARCH_OPTION = {
    "nmt/search/settings.py": (
        "    no_repeat_ngram: Annotated[int, Option()]",
        '    forbidden_piece: Annotated[int, Option()] = Field(0, ge=0, description="A piece never written.")\n',
    ),
    "nmt/translation/options.py": ("    no_repeat_ngram: int | None\n", "    forbidden_piece: int | None\n"),
    "nmt/search/step.py": (
        "    for piece in NEVER_EMITTED:\n",
        "    logits_NV[:, settings.forbidden_piece].fill_(-torch.inf)\n",
    ),
}
TRAIN_OPTION = {
    "nmt/api/training.py": ("    nproc: Annotated[\n", '    label: Annotated[str, Option("A name.")] = "none",\n')
}
COMMAND = {
    "nmt/api/counting.py": (
        "",
        '''"""Counting."""

from pathlib import Path
from typing import Annotated

from nmt.option_fields import Argument, Option


def count(
    text: Annotated[Path, Argument("A text.", metavar="TEXT")],
    *,
    out: Annotated[Path, Option("The page to write.", letter="o")] = Path("count.html"),
) -> int:
    """Count the lines of a text."""
    from nmt.reports.count_page import write_count

    number = len(text.read_text("utf-8").splitlines())
    write_count(number, out)
    return number
''',
    ),
    "nmt/cli/count.py": (
        "",
        '''"""``nmt count``."""

from nmt.api import counting
from nmt.cli.console import write_stdout
from nmt.cli.options import command


@command(counting.count)
def count(given) -> None:
    """Example: nmt count text.txt"""
    write_stdout(f"{counting.count(**given)}\\n")
''',
    ),
    "nmt/cli/app.py": ('    "compare": (', '    "count": ("count", "Count lines."),\n'),
    "nmt/__init__.py": ('    "nmt.api.data": "', '    "nmt.api.counting": "count",\n', '"load", ', '"count", '),
}
REPORT = {
    "nmt/reports/count_page.py": (
        "",
        '''"""The page of a count."""

from pathlib import Path

from nmt.reports.pages import Page

COUNT = Page("nmt count", "count.html")


def write_count(number: int, path: Path) -> None:
    """Write the page."""
    COUNT.write(path, COUNT.html("Count", number=number))
''',
    ),
    "nmt/reports/templates/count.html": (
        "", '{% extends "page.html" %}{% block content %}{{ number }} lines{% endblock %}'
    ),
}  # fmt: skip

LOOK = """
import json, sys
from typer.testing import CliRunner
import nmt
from nmt.cli.app import app
from nmt.translation.options import recorded, recorded_words, translate_options
from nmt.config.sections import DecodingConfig
sys.path.insert(0, sys.argv[1])
from command_pages import command_pages
from python_page import python_page

def typed(*words):
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return result.stdout

options = recorded(translate_options(DecodingConfig(), forbidden_piece=5))
open("text", "w").write("a\\nb\\n")
counted = typed("count", "text")
print(json.dumps({
    "helps": [typed(command, "--help") for command in ("translate", "train", "count")] + [typed("--help")],
    "words": recorded_words(options), "record": options["forbidden_piece"],
    "python": nmt.Model.translate.__doc__, "pages": dict(command_pages()), "reference": python_page(),
    "counted": counted, "page": open("count.html").read(), "again": nmt.count(__import__("pathlib").Path("text")),
}))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "nmt", folder / "nmt", ignore=shutil.ignore_patterns("__pycache__"))
    for added in (SEARCH_OPTION, TRAIN_OPTION, COMMAND, REPORT):
        for name, changes in added.items():
            path = folder / name
            code = path.read_text("utf-8") if path.exists() else ""
            for before, text in zip(changes[::2], changes[1::2], strict=True):
                assert code.count(before) == 1, f"{name}: {before}"
                code = code.replace(before, text + before)
            path.write_text(code, "utf-8")
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", LOOK, ROOT / "docs" / "site"]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_a_search_option_takes_three_places(found):
    assert len(SEARCH_OPTION) == 3
    assert "--forbidden-piece" in found["helps"][0] and "--forbidden-piece" in found["pages"]["translate"]
    assert found["record"] == 5 and "--forbidden-piece=5" in found["words"]
    assert "forbidden_piece: A piece never written." in found["python"] and "forbidden_piece" in found["reference"]


def test_an_option_of_train_takes_one_place(found):
    assert len(TRAIN_OPTION) == 1
    assert "--label" in found["helps"][1] and "--label" in found["pages"]["train"]
    assert "label: str='none'" in found["reference"]


def test_a_command_takes_four_places_and_its_report_two(found):
    assert len(COMMAND) == 4 and len(REPORT) == 2
    assert "Count lines." in found["helps"][3] and "The page to write." in found["pages"]["count"]
    assert found["counted"] == "2\n" and found["again"] == 2 and "2 lines" in found["page"]
    assert "## count" in found["reference"]
