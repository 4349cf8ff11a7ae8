"""The toy pair prepared, encoded and trained for a moment by the real commands, shared by all system tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

NMT = [sys.executable, "-m", "nmt"]


@pytest.fixture(scope="session")
def nmt():
    """Run a command; check that it succeeds unless told otherwise."""

    def run(*arguments: str | Path, cwd: Path, check: bool = True, text: str | None = None, **environment: str):
        result = subprocess.run(
            [*NMT, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, encoding="utf-8", input=text or "",
            env=os.environ | {"OMP_NUM_THREADS": "1"} | environment, check=False,
        )  # fmt: skip
        assert not check or result.returncode == 0, result.stderr
        return result

    return run


@pytest.fixture(scope="session")
def trained(tmp_path_factory, nmt) -> Path:
    """A folder where the bare commands ran in sequence, up to the average; training was short."""
    folder = tmp_path_factory.mktemp("bare")
    nmt("prepare-data", "toy-en-de", cwd=folder)
    nmt("build-vocab", cwd=folder)
    settings = ["--set", "checkpoints.every_updates=20", "--set", "validation.bleu_sentences=20"]
    nmt("train", "--max-updates", "60", "--set", "schedule.warmup=60", *settings, cwd=folder)
    nmt("average-checkpoints", cwd=folder)
    return folder
