"""Options of translating: the model's own, and what is asked for in their place."""

import pytest

from nmt.config import DecodingConfig
from nmt.errors import ConfigError
from nmt.option_fields import flag_of
from nmt.search.settings import Sampling
from nmt.translation.options import TranslateOptions, translate_options


def test_what_is_not_given_is_the_models_own():
    assert translate_options(DecodingConfig()) == TranslateOptions()
    decoding = DecodingConfig(beam=5, length_penalty=0.3, max_extra_length=7)
    assert translate_options(decoding) == TranslateOptions(beam=5, length_penalty=0.3, max_extra_length=7)
    asked = {"length_penalty": 0.0, "min_length": 2, "sampling": Sampling(top_k=3)}
    given = translate_options(decoding, beam=None, **asked)
    assert given == TranslateOptions(beam=5, max_extra_length=7, **asked)


@pytest.mark.parametrize("normalization", ["paper", "length"])
def test_either_normalization_can_be_asked_for(normalization):
    assert translate_options(DecodingConfig(), length_normalization=normalization).length_normalization == normalization


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"beam": 0}, "beam"),
        ({"beam": 4_097}, "beam: must be at most 4096, got 4097"),
        ({"nbest": 0}, "nbest"),
        ({"nbest": 6}, "nbest 6 needs beam of at least 6, got 4"),
        ({"min_length": -1}, "min_length"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram"),
        ({"length_penalty": -0.5}, "length_penalty"),
        ({"length_penalty": float("nan")}, "length_penalty"),
        ({"max_extra_length": -5}, "max_extra_length"),
        ({"mbr": True, "beam": 1}, "mbr needs several candidates: give beam"),
    ],
)
def test_what_is_out_of_range_is_named(options, word):
    with pytest.raises(ConfigError, match=word):
        translate_options(DecodingConfig(), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nbest": 6}, "--nbest 6 needs --beam of at least 6, got 4."),
        ({"mbr": True, "beam": 1}, "--mbr needs several candidates: give --beam of at least 2, got 1."),
    ],
)
def test_a_command_names_options_as_they_are_typed(options, message):
    with pytest.raises(ConfigError, match="^" + message):
        translate_options(DecodingConfig(), called=flag_of, **options)
