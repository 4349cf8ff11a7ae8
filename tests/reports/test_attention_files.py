"""Attention as JSON has every field and weight."""

import dataclasses
import json

import numpy as np

from nmt.reports.attention_page import json_lines


def test_the_maps_come_back(make_maps):
    maps = make_maps('▁<b> "a" \u2028 ▁日本', "▁é \\n")
    text = json_lines([maps, make_maps()])
    assert text.count("\n") == 2 and "日本" in text
    content = json.loads(text.split("\n")[0])
    assert content.keys() == {field.name for field in dataclasses.fields(maps)}
    for name in ("encoder", "decoder", "memory"):
        expected, found = getattr(maps, name), np.array(content[name])
        assert found.shape == expected.shape
        assert np.allclose(found, expected, rtol=1e-6, atol=0)
        assert abs(found.sum(-1) - 1).max() < 1e-5
    for name in ("source", "target", "model"):
        assert content[name] == getattr(maps, name)
    for name in ("source_pieces", "input_pieces", "output_pieces"):
        assert tuple(content[name]) == getattr(maps, name)


def test_what_no_encoding_can_write_is_escaped(make_maps):
    maps = dataclasses.replace(make_maps(), source="a\ud800")
    assert json.loads(json_lines([maps]).encode())["source"] == "a\ud800"
