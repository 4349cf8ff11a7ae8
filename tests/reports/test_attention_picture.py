"""Pictures of attention: type, size, and silence about fonts."""

import importlib.util
import logging
import struct
import sys
import warnings

import pytest

from nmt.errors import NmtError
from nmt.reports.attention_picture import attention_picture
from nmt.reports.labelled_attention import ATTENTIONS

needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed"
)


def size(picture: bytes) -> tuple[int, int]:
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", picture[16:24])


@needs_matplotlib
@pytest.mark.parametrize("which", ATTENTIONS)
def test_all_layers_and_heads_are_a_grid(make_maps, which):
    few = size(attention_picture(make_maps(layers=2, heads=4), which))
    assert few[0] == round((4 + 0.7) * 150)
    more = size(attention_picture(make_maps(layers=4, decoder_layers=4, heads=8), which))
    assert more[0] == round((8 + 0.7) * 150)
    assert more[1] - few[1] >= 2 * 90


@needs_matplotlib
def test_the_picture_of_many_heads_has_a_bounded_size(make_maps):
    assert max(size(attention_picture(make_maps(layers=1, heads=60), "encoder"))) == 8_000


@needs_matplotlib
def test_nothing_is_said_about_characters_without_a_glyph(make_maps, capfd):
    maps = make_maps("▁\U00013000 ▁日本 ▁שלום $x$ $_ \\ ▁\u202e", model="$broken_{")
    level = logging.getLogger("matplotlib").level
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert size(attention_picture(maps, "encoder"))
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("matplotlib").level == level


def test_a_missing_matplotlib_is_named(make_maps, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        NmtError, match=r"A PNG picture needs matplotlib, which is not installed\. Install it: `pip install matplotlib`"
    ):
        attention_picture(make_maps(), "encoder")
