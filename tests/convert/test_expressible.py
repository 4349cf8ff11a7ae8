"""Settings that a format cannot express are all named at once, by export and by train."""

import pytest

from nmt.config import ModelConfig
from nmt.convert.expressible import FORMATS, MARIANMT, check_expressible, exports_line, obstacles
from nmt.convert.formats import WRITABLE
from nmt.errors import NmtError


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
        ({"norm": "post", "d_v": 32}, ""),
        ({"norm": "post", "positions": "tensor2tensor", "first_position": 2}, "ctranslate2 huggingface argos"),
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
    model = ModelConfig(norm="pre", norm_epsilon=1e-3)
    with pytest.raises(NmtError) as caught:
        check_expressible(model, MARIANMT, "m", "MarianMT")
    assert str(caught.value) == (
        "m: MarianMT cannot express norm: pre, norm_epsilon: 0.001. Train a model with --set model.norm=post "
        "--set model.norm_epsilon=1e-06. It can be exported to ctranslate2, argos."
    )
    assert exports_line(model) == "exports to: ctranslate2, argos; not huggingface (norm: pre, norm_epsilon: 0.001)"
