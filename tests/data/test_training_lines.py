"""Balanced sampling: the shares of languages, and the lines that are repeated or left out."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.training_lines import resampled, sample_sizes
from nmt.data.vocab_record import VocabularySettings
from nmt.errors import VocabularyError

LINES = {"en": 100_000, "de": 90_000, "el": 1_000, "is": 0}


def test_temperature_1_keeps_all_lines_once():
    assert sample_sizes(LINES, 1, 10**9) == LINES


@pytest.mark.parametrize("temperature", [1, 2, 1 / 0.3, 5, 100])
def test_shares_follow_the_formula_of_the_papers(temperature):
    sizes = sample_sizes(LINES, temperature, 10**9)
    powers = {language: (count / 191_000) ** (1 / temperature) for language, count in LINES.items() if count}
    for language, power in powers.items():
        assert sizes[language] / 191_000 == pytest.approx(power / sum(powers.values()), abs=1e-5)
    assert sizes["is"] == 0


def test_the_limit_holds_for_all_languages_together():
    assert sum(sample_sizes(LINES, 5, 3_000).values()) == pytest.approx(3_000, abs=3)
    assert sample_sizes({"en": 10**7, "el": 1}, 1, 1_000)["el"] == 1  # no language is lost


@given(st.integers(1, 60), st.integers(0, 300))
def test_lines_are_repeated_evenly(count, wanted):
    found = list(resampled(map(str, range(count)), count, wanted))
    assert len(found) == wanted
    assert found == sorted(found, key=int)
    times = Counter(found)
    assert {times[str(number)] for number in range(count)} <= {wanted // count, -(-wanted // count)}


def test_lines_that_are_left_out_are_spread():
    assert list(resampled("abcdefghij", 10, 5)) == list("bdfhj")


@pytest.mark.parametrize("temperature", [0, 0.99, 101, float("nan"), float("inf")])
def test_a_temperature_out_of_range_is_refused(temperature):
    with pytest.raises(VocabularyError, match=r"from 1 .* to 100"):
        VocabularySettings(sampling_temperature=temperature)
