"""Our code on a fake GPU (tests/fake_gpu/), in processes of its own: a process cannot be without it afterwards."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.fake_gpu.library import compiler

ROOT = Path(__file__).parents[1]
PROGRAMS = ["updates", "searches", "runs", "budgets"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None, reason="the fake GPU needs a C++ compiler"),
    pytest.mark.skipif(torch.backends.cuda.is_built(), reason="the fake GPU needs a build of torch without CUDA"),
    pytest.mark.skipif(torch.__version__ < "2.10", reason="earlier torch has no attention for rows of sentences"),
]


def passes(program: str, marks: str) -> None:
    command = [sys.executable, "-m", "tests.fake_gpu", "-m", marks, "--tb=short", f"tests/fake_gpu/{program}.py"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-5_000:] + ended.stderr[-5_000:]


@pytest.mark.parametrize("program", PROGRAMS)
def test_on_a_fake_gpu(program):
    passes(program, "not slow")


@pytest.mark.parametrize("program", PROGRAMS)
def test_on_a_fake_gpu_in_every_precision(program):
    passes(program, "slow")
