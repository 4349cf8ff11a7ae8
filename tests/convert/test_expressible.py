"""Models whose attention other toolkits cannot express are refused by the name of the setting."""

import pytest

from nmt.config import ModelConfig
from nmt.convert.expressible import check_attention
from nmt.errors import NmtError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"d_k": 4}, "m: has heads with d_k 4 and d_v 64, but Toolkit needs d_model / heads = 64 for both."),
        (
            {"attention": "additive"},
            "m: has attention: additive, but Toolkit supports only scaled dot-product attention.",
        ),
        ({"attention": "dot_product"}, "m: has attention: dot_product, but"),
        ({"source_eos": False}, "m: has source_eos: False, which is not exported to Toolkit."),
        ({"source_neighbours": 3}, "m: has source_neighbours: 3, but Toolkit supports only full self-attention."),
        ({"target_neighbours": 7}, "m: has target_neighbours: 7, but Toolkit supports only full self-attention."),
    ],
    ids=str,
)
def test_another_attention_is_refused(settings, message):
    with pytest.raises(NmtError) as caught:
        check_attention(ModelConfig(**settings), "m", "Toolkit")
    assert str(caught.value).startswith(message)


def test_the_papers_attention_is_expressible():
    check_attention(ModelConfig(attention_bias=False, d_k=64), "m", "Toolkit")
