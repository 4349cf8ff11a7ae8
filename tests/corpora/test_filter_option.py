"""``--filter NAME[=VALUE]``."""

import pytest

from nmt.corpora.filter_option import filter_changes
from nmt.corpora.schema import Filters
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


@pytest.mark.parametrize("name", Filters.model_fields)
def test_every_filter_can_be_named(name):
    """Those that need a value say so, with an example that works."""
    try:
        [(found, value)] = filter_changes([name]).items()
    except ConfigError as error:
        example = str(error).removesuffix(".").split()[-1]
        [(found, value)] = filter_changes([example]).items()
    assert found == name
    assert getattr(Filters.model_validate({name: value}), name) == value
    assert value in (True, "drop") or isinstance(value, int | float)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["htlm"], "--filter htlm: unknown filter 'htlm' (did you mean 'html'?); filters: invalid_utf8, "),
        (["xyz=3"], "--filter xyz=3: unknown filter 'xyz'; filters: invalid_utf8, "),
        ([""], "unknown filter ''"),
        (["letters"], "--filter letters: needs a value, such as --filter letters=0.5."),
        (["letters=2"], "--filter letters=2: must be at most 1, got 2."),
        (["letters="], "--filter letters=: the value is missing. Give one, or null for none."),
        (["letters=many"], "--filter letters=many: expected a number, got 'many'."),
        (["html=["], "--filter html=[: "),
        (["html=3"], "--filter html=3: expected true or false, got 3."),
        (["copied=keep"], "--filter copied=keep: expected 'drop' or 'count', got 'keep'."),
        (["html", "html=false"], "--filter html=false: the filter html is given twice. Give it once."),
    ],
)
def test_mistakes_are_named(words, message):
    with pytest.raises(ConfigError) as error:
        filter_changes(words)
    assert message in str(error.value)
