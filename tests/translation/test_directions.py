"""The languages of a translation: those that a model was trained on, chosen by name. So is the tag."""

from contextlib import nullcontext

import pytest

from nmt.config import DataConfig
from nmt.config.sections import DecodingConfig
from nmt.errors import ConfigError
from nmt.text.steps import Affix
from nmt.translation.directions import choices, codes_of
from nmt.translation.options import translate_options

BOTH_WAYS = DataConfig(
    source_lang="en",
    target_lang="de",
    fingerprint="x",
    source_text=(
        Affix(chosen_by="tag", pieces={"BT": "<BT>", "web": "<web>"}),
        Affix(chosen_by="target", pieces={"de": "<2de>", "fr": "<2fr>", "en": "<2en>"}),
    ),
    mixed_with=(
        {"name": "b", "fingerprint": "x", "source_lang": "en", "target_lang": "fr"},
        {"name": "c", "fingerprint": "x", "source_lang": "de", "target_lang": "en"},
    ),
)


def test_the_languages_of_a_mixture_are_those_of_all_data_sets():
    assert (codes_of(BOTH_WAYS, "source"), codes_of(BOTH_WAYS, "target")) == (["en", "de"], ["de", "fr", "en"])
    assert codes_of(DataConfig(), "source") == []
    assert BOTH_WAYS.directions == [("en", "de"), ("en", "fr"), ("de", "en")]
    assert DataConfig(source_lang="en", target_lang="de").directions == []


def chosen(source, target, tag=None, data=BOTH_WAYS):
    options = translate_options(DecodingConfig(), source_lang=source, target_lang=target, tag=tag)
    return tuple(choices(data, options).values())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None, None), ("en", "de", "")),
        ((None, "fra"), ("en", "fr", "")),
        (("de-AT", "en"), ("de", "en", "")),
        ((None, "eng"), ("de", "en", "")),
        (("deu", None), ("de", "en", "")),
        (("de", "fr"), ("de", "fr", "")),
        ((None, "el"), r"--target-lang el: .* It has de, fr, en\."),
        (("fr", None), r"--source-lang fr: .* It has en, de\."),
        ((None, None, "BT"), ("en", "de", "BT")),
        ((None, None, "bt"), r"--tag bt: the model does not know this tag: its tags are BT, web\."),
        ((None, None, "BT", DataConfig()), r"--tag BT: the model does not know this tag: it has no tags; leave out"),
    ],
)
def test_languages_default_to_the_first_data_set_that_fits_and_the_tag_to_none(given, expected):
    with pytest.raises(ConfigError, match=expected) if isinstance(expected, str) else nullcontext():
        assert chosen(*given) == expected


def of_one_language(default):
    """A model with a piece for German, which no line can name itself."""
    return DataConfig(target_lang=default, target_text=(Affix(chosen_by="target", pieces={"de": "<2de>"}),))


@pytest.mark.parametrize(("model", "default"), [(of_one_language(""), "de"), (of_one_language("deu-AT"), "de")])
def test_the_default_is_the_only_language_or_spelt_as_the_model_does(model, default):
    assert chosen(None, None, None, model)[1] == default


def test_a_default_that_the_model_does_not_have_is_named():
    with pytest.raises(ConfigError, match=r"--target-lang fr \(the default\): the model has no .* It has de\."):
        chosen(None, None, None, of_one_language("fr"))
    both = DataConfig(target_lang="zh", target_text=(Affix(chosen_by="target", pieces={"zh-TW": "a", "zh-CN": "b"}),))
    with pytest.raises(ConfigError, match=r"--target-lang zh \(the default\): fits .* Name one of zh-TW, zh-CN\."):
        chosen(None, None, None, both)
