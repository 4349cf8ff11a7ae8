"""Packages that only some tasks need: each is named if it is missing, and also if it is installed but broken."""

from __future__ import annotations

import sys

import pytest

from nmt.errors import NmtError
from nmt.machine.packages import require_package
from nmt.training.tensorboard import check_tensorboard

ADVICE = "Install it: `pip install thing`."


def broken(monkeypatch, folder, package, line):
    """Put a package that fails when it is imported before all others."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    (folder / f"{package}.py").write_text(f"{line}\n")
    monkeypatch.syspath_prepend(str(folder))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("import json; json.no_such_name", "AttributeError: module 'json' has no attribute 'no_such_name'"),
        ("raise RuntimeError('no libfoo.so.')", "RuntimeError: no libfoo.so"),
        ("from json import no_such_name", "cannot import name 'no_such_name' from 'json'"),
        ("import no_such_module", "No module named 'no_such_module'"),
    ],
)
def test_a_package_that_fails_is_named_with_the_reason(monkeypatch, tmp_path, line, reason):
    broken(monkeypatch, tmp_path, "thing", line)
    with pytest.raises(NmtError) as error:
        require_package("thing.inner", "thing", what="This", advice=ADVICE)
    assert str(error.value).startswith(f"This needs thing, which cannot be imported: {reason}")
    assert str(error.value).endswith(f". {ADVICE}")
    assert ".." not in str(error.value)


def test_a_package_that_is_missing_is_not_called_broken():
    with pytest.raises(NmtError, match=r"^This needs thing, which is not installed\. Install it: `pip install thing`"):
        require_package("thing.inner", "thing", what="This", advice=ADVICE)


def test_training_names_a_missing_tensorboard(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(
        NmtError, match=r"^logging\.tensorboard=true needs TensorBoard, which is not installed\. Install"
    ):
        check_tensorboard()
