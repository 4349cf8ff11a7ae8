"""The page about attention shows every weight, and no text can break out of it."""

import base64
import itertools
import json
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from nmt.reports.attention_lines import lines
from nmt.reports.attention_page import attention_page
from nmt.reports.attention_weights import UNITS, quantised
from nmt.reports.heat_maps import heat_map
from nmt.reports.labelled_attention import ATTENTIONS, labelled
from tests.reports.browser import needs_chromium, opened

READER = (Path(__file__).parent / "read_attention.js").read_text("utf-8")
EVIL = "</script><script>alert(1)</script>"


def embedded(page) -> list[dict]:
    """What the script of a page reads, for each sentence."""
    return [json.loads(script) for script in page.scripts[:-1]]


def weights_of(attention: dict) -> np.ndarray:
    stored = np.frombuffer(base64.b64decode(attention["weights"]), "<u2")
    shape = (attention["layers"], attention["heads"], len(attention["rows"]), len(attention["columns"]))
    return stored.reshape(shape).astype(np.int64)


def pixels_of(uri: str) -> np.ndarray:
    """The entries of the palette in a PNG of 4 bits per pixel."""
    content = base64.b64decode(uri.removeprefix("data:image/png;base64,"))
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        body = content[at + 4 : at + 8 + length]
        assert struct.unpack(">I", content[at + 8 + length : at + 12 + length]) == (zlib.crc32(body),)
        chunks[body[:4]], at = body[4:], at + 12 + length
    width, height, depth, kind = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, kind, len(chunks[b"PLTE"]), len(chunks[b"tRNS"])) == (4, 3, 48, 16)
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    return np.stack([rows[:, 1:] >> 4, rows[:, 1:] & 15], axis=-1).reshape(height, -1)[:, :width]


def test_the_embedded_weights_are_those_of_the_maps(make_maps, parsed):
    maps = make_maps()
    (content,) = embedded(parsed(attention_page([maps])))
    assert list(content["attentions"]) == list(ATTENTIONS)
    for name in ATTENTIONS:
        expected, found = labelled(maps, name), content["attentions"][name]
        assert (tuple(found["rows"]), tuple(found["columns"])) == (expected.rows, expected.columns)
        weights = weights_of(found)
        assert (weights.sum(-1) == UNITS).all()
        assert abs(weights / UNITS - expected.weights).max() < 1.1 / UNITS


def test_quantised_rows_sum_to_one_and_zero_stays_zero():
    rows = np.array([[1, 0, 0], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0], [1e-9, 1 - 1e-9, 0], [0.3, 0.3, 0.3]])
    found = quantised(rows)
    assert found.dtype == np.uint16
    assert (found.sum(-1, dtype=int) == UNITS).all()
    assert (found[rows == 0] == 0).all()
    assert abs(found / UNITS - rows / rows.sum(-1, keepdims=True)).max() < 1 / UNITS


@pytest.mark.parametrize(("rows", "columns"), [(2, 3), (5, 5), (97, 40), (1, 1)])
def test_a_heat_map_has_a_square_per_weight(rows, columns):
    weights = np.linspace(0, 1, rows * columns).reshape(rows, columns)
    pixels = pixels_of(heat_map(weights))
    factor = pixels.shape[0] // rows
    assert pixels.shape == (rows * factor, columns * factor)
    assert max(pixels.shape) >= 96
    assert (pixels[::factor, ::factor] == np.rint(15 * np.sqrt(weights))).all()
    assert (pixels == pixels[::factor, ::factor].repeat(factor, 0).repeat(factor, 1)).all()


def test_every_head_is_drawn_without_a_script(make_maps, parsed):
    maps = make_maps(layers=3, heads=2, decoder_layers=1)
    page = parsed(attention_page([maps]))
    pictures = [(image["alt"], image["src"]) for image in page.having("img")]
    names = [f"layer {layer}, {head}" for layer in (1, 2, 3) for head in ("head 1", "head 2", "mean of heads")]
    assert [name for name, _ in pictures] == names + names[:3] * 2
    assert dict(pictures[:9])["layer 2, head 1"] == heat_map(maps.encoder[1, 0])
    assert dict(pictures[9:12])["layer 1, mean of heads"] == heat_map(maps.decoder[0].mean(0))
    assert pictures[12][1] == heat_map(maps.memory[0, 0])


def test_the_pieces_label_rows_and_columns(make_maps, parsed):
    page = parsed(attention_page([make_maps("▁ein s", "▁on e")]))
    titles = [item["title"] for item in page.having("li")]
    # The overviews: the encoder's pieces, the decoder's input, then its output over the source.
    assert titles == ["▁ein", "s", "</s>", "<s>", "▁on", "e", "▁on", "e", "</s>", "▁ein", "s", "</s>"]
    assert {item["dir"] for item in page.having("li")} == {"auto"}


def test_each_view_says_how_it_was_chosen(make_maps, parsed):
    page = parsed(attention_page([make_maps()]))
    (content,) = embedded(page)
    assert [view["name"] for view in content["views"]] == ["Long-distance dependencies", "Anaphora", "Structure"]
    for view in content["views"]:
        assert f"{view['criterion']} {view['result']}" in page.text
    assert len(page.having("figure", "view")) == 3


def test_a_short_sentence_has_a_page_without_views(make_maps, parsed):
    page = parsed(attention_page([make_maps("▁a", "", layers=1, heads=1, decoder_layers=1)]))
    assert "fewer than 3 source pieces" in page.text
    assert not page.having("figure")


def test_lines_have_the_opacity_of_their_weight(parsed):
    weights = np.array([[0.9, 0.1, 0], [0.04, 0.06, 0.9], [0, 0, 1]])
    drawn = parsed(lines("abc", "abc", {2: weights})).having("path")
    assert {path["opacity"]: path["d"] for path in drawn} == {
        "0.10": "M0 0.5L100 1.5M0 1.5L100 1.5",
        "0.90": "M0 0.5L100 0.5M0 1.5L100 2.5",
        "1.00": "M0 2.5L100 2.5",
    }
    assert {path["class"] for path in drawn} == {"colour-2 dash-0"}
    (only,) = parsed(lines("abc", "abc", {10: weights}, row=2)).having("path")
    assert (only["d"], only["class"]) == ("M0 2.5L100 2.5", "colour-2 dash-1")


def test_nothing_breaks_out_of_the_page(make_maps, parsed):
    maps = make_maps(f"▁<b> & \" ' {EVIL} ]]> <!--", f"{EVIL} ▁&lt;", model=EVIL)
    made = attention_page([maps])
    page = parsed(made)
    assert "<script>alert" not in made
    (content,) = embedded(page)
    assert content["attentions"]["encoder"]["rows"] == list(maps.source_pieces)
    assert [item["title"] for item in page.having("li")][: len(maps.source_pieces)] == list(maps.source_pieces)
    assert f"Attention: {EVIL}" in page.text


def test_the_page_loads_nothing(make_maps):
    made = attention_page([make_maps()])
    assert "http" not in made.replace("http://www.w3.org/2000/svg", "")
    assert "url(" not in made


def test_each_sentence_has_its_section_and_its_own_switch(make_maps, parsed):
    page = parsed(attention_page([make_maps(), make_maps("▁five ▁tea s"), make_maps(model="runs/other")]))
    assert len(page.having("section", "sentence")) == 3
    names = [button["name"] for button in page.having("input")]
    assert [len(list(group)) for _, group in itertools.groupby(names)] == [3, 3, 3]
    assert "Sentence 2 of 3" in page.text
    assert "Attention: runs/lamps, runs/other" in page.text
    assert "Sentence 1" not in parsed(attention_page([make_maps()])).text


def test_the_page_of_a_big_model_stays_small(make_maps):
    thirty = " ".join(["▁piece"] * 29)
    made = attention_page([make_maps(thirty, thirty, layers=6, heads=16, decoder_layers=6)])
    assert len(made.encode()) < 1_300_000


@needs_chromium
def test_a_browser_shows_what_the_weights_say(make_maps, parsed, tmp_path):
    maps = make_maps()
    made = attention_page([maps, make_maps(f"▁<b> & {EVIL} ▁d"), make_maps("", "")])
    content, errors = opened(made.replace("</body>", f"<script>{READER}</script></body>"), tmp_path)
    assert errors == []
    (body,) = parsed(content.replace("<!DOCTYPE html>", "")).having("body")
    seen = json.loads(body["data-seen"])
    weights = maps.encoder[1, 2]
    assert seen["title"] == "Encoder self-attention: layer 2, head 3"
    assert seen["rects"] >= (weights > 0.01).sum()
    best = int(weights[3].argmax())
    assert seen["facts"].startswith(f"{maps.source_pieces[3]}\n")
    assert f"{maps.source_pieces[best]}\n{weights[3, best]:.1%}" in seen["facts"].replace("\n\n", "\n")
    expected = {j: round(float(weight) * 10) / 10 for j, weight in enumerate(weights[3]) if weight >= 0.05}
    drawn = {int(float(line.split("L100 ")[1])): level for level, d in seen["strokes"] for line in d.split("M")[1:]}
    assert drawn == expected
    assert seen["marked"] == [maps.source_pieces[3]]
    assert seen["from"] == "50%"
    assert seen["above"] == "Encoder self-attention: layer 1, head 3"
    assert f"{maps.source_pieces[1]}\n" in seen["key"] and "key 2 of 6" in seen["key"]
    assert seen["released"].startswith("Point at a piece")
    assert seen["view"].startswith("The head and the piece with the greatest sharpness")
    assert seen["source"] == f"<b>&{EVIL} d"


@needs_chromium
def test_an_error_in_the_script_is_seen(make_maps, tmp_path):
    broken = attention_page([make_maps()]).replace("function explore(section) {", "function explore(section) { lost();")
    _, errors = opened(broken, tmp_path)
    assert len(errors) == 1
    assert "lost is not defined" in errors[0]
