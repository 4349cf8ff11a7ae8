"""docs/formats.md describes every kind of file that is replaced, and the fields of records."""

from __future__ import annotations

import ast
import functools
from dataclasses import fields
from pathlib import Path

import pytest

import nmt
from nmt.convert.certificate.record import Certificate, Check
from nmt.doctor.examination import Examination
from nmt.record import Record

ROOT = Path(nmt.__file__).parent
PAGE = (ROOT.parent / "docs" / "formats.md").read_text("utf-8")


@functools.cache
def kinds() -> set[str]:
    """The names of all kinds of files, without articles."""
    calls = [
        (node.func.id, node.args[0].value)
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Kind", "Page")
        if isinstance(node.args[0], ast.Constant)
    ]
    names = {f"page of {name}" if function == "Page" else name for function, name in calls}
    return {name.removeprefix("a ").removeprefix("an ").removeprefix("the ") for name in names}


def test_every_kind_that_is_replaced_stands_in_the_table():
    table = PAGE[PAGE.index("| kind |") : PAGE.index("**What is read.**")].replace("`", "")
    names = {name.strip() for row in table.splitlines() for name in row.split("|")[1:2]}
    listed = {name for cell in names for name in cell.replace(" (JSON)", "").split(", ")}
    assert len(kinds()) > 10
    assert kinds() - listed - {"average of checkpoints"} == set()
    assert {"average", "exported model"} <= listed


@pytest.mark.parametrize("record", [Certificate, Check, Examination])
def test_every_field_of_a_record_is_described(record):
    assert [field.name for field in fields(record) if f"`{field.name}`" not in PAGE] == []


def test_every_field_of_a_lineage_is_described():
    assert [name for name in Record.model_fields if f"`{name}`" not in PAGE] == []
