"""The page about attention shows every weight, and no text can break out of it."""

import json
import re
from pathlib import Path

import numpy as np

from nmt.reports.attention_page import ATTENTIONS, UNITS, attention_page
from tests.reports.browser import needs_chromium, opened

READER = (Path(__file__).parent / "read_attention.js").read_text("utf-8")
SCRIPT = (Path(attention_page.__code__.co_filename).parent / "assets" / "attention.js").read_text("utf-8")
EVIL = "</script><script>alert(1)</script>"


def embedded(page) -> list[dict]:
    """What the script of a page reads, for each sentence."""
    content, script = page.scripts
    assert script.strip() == SCRIPT.strip()
    return json.loads(content)


def test_the_embedded_weights_are_those_of_the_maps(make_maps, parsed):
    maps = make_maps(layers=3, heads=2, decoder_layers=1)
    [content] = embedded(parsed(attention_page([maps])))
    assert list(content["attentions"]) == list(ATTENTIONS)
    for name in ATTENTIONS:
        expected, found = getattr(maps, name), content["attentions"][name]
        assert (found["title"], found["legend"]) == ATTENTIONS[name]
        weights = np.array(found["weights"])
        assert weights.dtype == int
        assert weights.shape == expected.shape
        assert abs(weights / UNITS - expected).max() <= 0.51 / UNITS


def test_the_script_has_the_units_of_the_page():
    [units] = re.findall(r"^const UNITS = ([\d_]+);$", SCRIPT, re.MULTILINE)
    assert int(units) == UNITS


def test_the_pieces_label_rows_and_columns(make_maps, parsed):
    [content] = embedded(parsed(attention_page([make_maps("▁ein s", "▁on e")])))
    source, read, predicted = ["▁ein", "s", "</s>"], ["<s>", "▁on", "e"], ["▁on", "e", "</s>"]
    expected = {"encoder": (source, source), "decoder": (read, read), "memory": (predicted, source)}
    assert {name: (each["rows"], each["columns"]) for name, each in content["attentions"].items()} == expected


def test_each_view_says_how_it_was_chosen(make_maps, parsed):
    [content] = embedded(parsed(attention_page([make_maps()])))
    assert [view["name"] for view in content["views"]] == ["Long-distance dependencies", "Anaphora", "Structure"]
    assert all(view["criterion"] and view["result"] for view in content["views"])


def test_nothing_breaks_out_of_the_page(make_maps, parsed):
    maps = make_maps(f"▁<b> & \" ' {EVIL} ]]> <!--", f"{EVIL} ▁&lt;", model=EVIL)
    made = attention_page([maps, maps])
    page = parsed(made)
    assert "<script>alert" not in made
    first, second = embedded(page)
    assert first == second
    assert first["attentions"]["encoder"]["rows"] == list(maps.source_pieces)
    assert (first["source"], first["target"]) == (maps.source, maps.target)
    assert f"Attention: {EVIL}" in page.text
    assert f"1  {maps.source}" in page.text


def test_the_page_loads_nothing(make_maps):
    made = attention_page([make_maps()])
    assert "http" not in made.replace("http://www.w3.org/2000/svg", "")
    assert "url(" not in made


def test_one_of_several_sentences_is_chosen(make_maps, parsed):
    page = parsed(attention_page([make_maps(), make_maps("▁five ▁tea s"), make_maps(model="runs/other")]))
    assert len(page.having("option")) == len(embedded(page)) == 3
    assert "Attention: runs/lamps, runs/other" in page.text
    assert not parsed(attention_page([make_maps()])).having("select")


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
