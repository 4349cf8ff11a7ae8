"""Settings that a format cannot express are all named at once, by export and by train."""

import pytest

from nmt.config import ModelConfig
from nmt.convert.expressible import FORMATS, MARIAN, MARIANMT, check_expressible, exports_line, obstacles
from nmt.convert.formats import WRITABLE
from nmt.errors import NmtError

OF_MARIAN = {"positions": "tensor2tensor", "decoder_start": "zero", "norm_epsilon": 1e-6}


@pytest.mark.parametrize(
    ("settings", "formats"),
    [
        ({"norm": "post"}, "ctranslate2 huggingface argos"),
        ({"norm": "pre"}, "ctranslate2 argos"),
        ({"norm": "post", "d_k": 4}, ""),
        ({"norm": "post", "attention": "additive"}, ""),
        ({"norm": "post", "source_neighbours": 3}, ""),
        ({"norm": "post", "target_neighbours": 7}, ""),
        ({"norm": "post", "source_eos": False}, ""),
        ({"norm": "post", "norm_epsilon": 0.01}, "ctranslate2 argos"),
        ({"norm": "post", "d_k": 64, "attention_bias": False}, "ctranslate2 huggingface argos"),
        ({"norm": "post", **OF_MARIAN, "d_k": 32}, ""),
        ({"norm": "post", **OF_MARIAN, "d_v": 32}, ""),
        ({"norm": "post", **OF_MARIAN}, "marian ctranslate2 huggingface argos"),
        ({"norm": "pre", **OF_MARIAN, "activation": "gelu"}, "marian ctranslate2 argos"),
        ({"norm": "post", **OF_MARIAN, "activation": "quick_gelu"}, "ctranslate2 huggingface argos"),
        ({"norm": "post", **OF_MARIAN, "first_position": 2}, "ctranslate2 huggingface argos"),
        ({"norm": "post", **OF_MARIAN, "norm_epsilon": 1e-5}, "ctranslate2 huggingface argos"),
    ],
    ids=str,
)
def test_each_setting_decides_the_formats(settings, formats):
    model = ModelConfig(**settings)
    assert [form for form, table in FORMATS.items() if not obstacles(model, table)] == formats.split()
    assert exports_line(model).startswith(f"exports to: {', '.join(formats.split()) or 'none'}")


def test_every_format_has_a_table():
    assert list(FORMATS) == [target.name for target in WRITABLE]


def test_all_obstacles_are_named_at_once_with_the_settings_that_remove_them():
    model = ModelConfig(norm="pre", norm_epsilon=1e-5, positions="sinusoidal", decoder_start="bos")
    with pytest.raises(NmtError) as caught:
        check_expressible(model, MARIAN, "m", "Marian")
    assert str(caught.value) == (
        "m: Marian cannot express positions: sinusoidal, decoder_start: bos, norm_epsilon: 1e-05. Train a model with "
        "--set model.positions=tensor2tensor --set model.decoder_start=zero --set model.norm_epsilon=1e-06. It can be "
        "exported to ctranslate2, argos."
    )
    assert exports_line(model) == (
        "exports to: ctranslate2, argos; not marian (positions: sinusoidal, decoder_start: bos, norm_epsilon: "
        "1e-05), huggingface (norm: pre)"
    )
    with pytest.raises(NmtError, match=r"^m: MarianMT cannot express norm: pre\."):
        check_expressible(model, MARIANMT, "m", "MarianMT")
