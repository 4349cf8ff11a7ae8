"""Programs below examples/, run in the process of the tests: to start Python and import torch takes seconds."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest


def example_command(folder: Path) -> Callable[..., None]:
    """What runs ``python FOLDER WORDS``, but raises the errors of a user that the program prints."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        spec = importlib.util.spec_from_file_location(f"{folder.name}_main", folder / "__main__.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)

    def run(*words: object) -> None:
        module.app(list(map(str, words)), standalone_mode=False)

    return run
