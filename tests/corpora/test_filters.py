"""The table of filters, and ``--filter NAME[=VALUE]``."""

import pytest

from nmt.corpora.filters import Filters, chosen_filters, filter_changes
from nmt.errors import ConfigError


def test_a_name_turns_a_filter_on_and_a_value_sets_it():
    assert filter_changes([]) == {}
    words = ["html", "letters=0.5", "long_words=40", "copied", "invisible=drop", "dedup=false", "max_ratio=null"]
    changes = filter_changes(words)
    assert changes == {
        "html": True, "letters": 0.5, "long_words": 40, "copied": "drop", "invisible": "drop", "dedup": False,
        "max_ratio": None,
    }  # fmt: skip
    Filters.model_validate(changes)


@pytest.mark.parametrize("name", [name for name in Filters.model_fields if name not in ("min_score", "count_only")])
def test_every_filter_can_be_named_alone(name):
    [(found, value)] = filter_changes([name]).items()
    assert found == name
    assert getattr(Filters.model_validate({name: value}), name) == value
    assert value in (True, "drop") or isinstance(value, int | float)


def test_filters_that_only_count_are_a_list_or_names_with_commas():
    for words in ("count_only=html,near-duplicates", "count-only=[html, near_duplicates]"):
        changes = filter_changes([words])
        assert Filters.model_validate(changes).count_only == ("html", "near_duplicates")


def test_a_limit_of_zero_is_a_limit():
    [score] = [each for each in chosen_filters(Filters(min_score=0)) if each.filter.name == "score"]
    assert (score.value, score.count) == (0, "score")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["htlm"], "--filter htlm: unknown filter 'htlm' (did you mean 'html'?); filters: min_score, "),
        (["xyz=3"], "--filter xyz=3: unknown filter 'xyz'; filters: min_score, "),
        ([""], "unknown filter ''"),
        (["min_score"], "--filter min_score: needs a value, as in --filter min_score=VALUE."),
        (["count-only"], "--filter count-only: needs a value, as in --filter count_only=VALUE."),
        (["count_only=htlm"], "--filter count_only=htlm: unknown filter 'htlm' (did you mean 'html'?)"),
        (["count_only=empty"], "unknown filter 'empty'"),
        (["count_only=3"], "--filter count_only=3: "),
        (["letters=2"], "--filter letters=2: must be at most 1, got 2."),
        (["letters="], "--filter letters=: the value is missing. Give one, or null for none."),
        (["letters=many"], "--filter letters=many: expected a number, got 'many'."),
        (["html=["], "--filter html=[: "),
        (["html=3"], "--filter html=3: expected true or false, got 3."),
        (["leakage=all"], "--filter leakage=all: expected 'drop', 'near' or 'count', got 'all'."),
        (["copied=keep"], "--filter copied=keep: expected 'drop' or 'count', got 'keep'."),
        (["html", "html=false"], "--filter html=false: the filter html is given twice. Give it once."),
    ],
)
def test_mistakes_are_named(words, message):
    with pytest.raises(ConfigError) as error:
        filter_changes(words)
    assert message in str(error.value)
