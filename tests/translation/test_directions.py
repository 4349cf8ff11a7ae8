"""The languages of a translation: those that a model was trained on, chosen by name."""

import pytest

from nmt.config import DataConfig
from nmt.errors import ConfigError
from nmt.text.steps import Affix
from nmt.translation.directions import chosen_languages, codes_of

BOTH_WAYS = DataConfig(
    source_lang="en",
    target_lang="de",
    source_text=(Affix(chosen_by="target", pieces={"de": "<2de>", "fr": "<2fr>", "en": "<2en>"}),),
    mixed_with=(
        {"name": "b", "fingerprint": "", "source_lang": "en", "target_lang": "fr"},
        {"name": "c", "fingerprint": "", "source_lang": "de", "target_lang": "en"},
    ),
)


def test_the_languages_of_a_mixture_are_those_of_all_data_sets():
    assert (codes_of(BOTH_WAYS, "source"), codes_of(BOTH_WAYS, "target")) == (["en", "de"], ["de", "fr", "en"])
    assert codes_of(DataConfig(), "source") == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None, None), ("en", "de")),
        ((None, "fra"), ("en", "fr")),
        (("de-AT", "en"), ("de", "en")),
        ((None, "el"), r"--target-lang el: .* It has de, fr, en\."),
        (("fr", None), r"--source-lang fr: .* It has en, de\."),
    ],
)
def test_languages_are_chosen_by_name_and_default_to_the_first_data_sets(given, expected):
    if isinstance(expected, str):
        with pytest.raises(ConfigError, match=expected):
            chosen_languages(BOTH_WAYS, *given)
    else:
        assert chosen_languages(BOTH_WAYS, *given) == dict(zip(("source", "target"), expected, strict=True))


def of_one_language(default):
    """A model with a piece for German, which no line can name itself."""
    return DataConfig(target_lang=default, target_text=(Affix(chosen_by="target", pieces={"de": "<2de>"}),))


@pytest.mark.parametrize(("model", "default"), [(of_one_language(""), "de"), (of_one_language("deu-AT"), "de")])
def test_the_default_is_the_only_language_or_spelt_as_the_model_does(model, default):
    assert chosen_languages(model, None, None)["target"] == default


def test_a_default_that_the_model_does_not_have_is_named():
    with pytest.raises(ConfigError, match=r"--target-lang fr \(the default\): the model has no .* It has de\."):
        chosen_languages(of_one_language("fr"), None, None)
    both = DataConfig(target_lang="zh", target_text=(Affix(chosen_by="target", pieces={"zh-TW": "a", "zh-CN": "b"}),))
    with pytest.raises(ConfigError, match=r"--target-lang zh \(the default\): fits .* Name one of zh-TW, zh-CN\."):
        chosen_languages(both, None, None)
