"""Runs of several ranks."""

from pathlib import Path

import numpy as np
import pytest

from tests.training.rank_processes import start_ranks


@pytest.fixture
def run_ranks(reversed_words, tmp_path):
    """Run as many ranks as asked; what each of them left behind."""

    def run(count: int, settings: Path, name: str, *disturbance: object) -> list:
        out = tmp_path / f"{name}-{count}"
        ranks = start_ranks(count, reversed_words, settings, tmp_path / name, out, *disturbance)
        errors = [rank.finish() for rank in ranks]
        assert [rank.process.returncode for rank in ranks] == [0] * count, errors
        return [np.load(f"{out}.{rank}.npz") for rank in range(count)]

    return run
