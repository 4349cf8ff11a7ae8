"""Whatever moment a signal comes at, and whichever rank it reaches: the run ends as it says, and loses nothing."""

import json

import pytest

from tests.training import interrupted_program
from tests.training.conftest import assert_same, saved
from tests.training.interrupted_program import MOMENTS, SETTINGS, cases
from tests.training.rank_processes import start_ranks
from tests.training.test_interruptions import scores


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_signal_at_any_moment_to_any_rank_loses_nothing(count, settings, reversed_words, tmp_path):
    ranks = start_ranks(count, reversed_words, settings(*SETTINGS), tmp_path, script=interrupted_program.__file__)
    errors = [rank.finish() for rank in ranks]
    assert [rank.process.returncode for rank in ranks] == [0] * count, errors
    straight = saved(tmp_path / "straight", 6)
    for rank in range(count):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        expected = {case.name: list(MOMENTS[case.moment]) for case in cases(count)}
        if count == 1:  # which need not wait for the next update to hear of the signal
            expected |= {name: ["INTERRUPTED", 3, [3]] for name in expected if name.startswith("validated 3")}
        assert found == expected
    for case in cases(count):
        assert scores(tmp_path / case.name) == scores(tmp_path / "straight"), case
        assert_same(saved(tmp_path / case.name, 6), straight)
