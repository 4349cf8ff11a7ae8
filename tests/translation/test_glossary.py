"""Translations obey a glossary: of lines, through a pivot language, and beside what stays in documents."""

import json
import re

import pytest

import nmt
from nmt.errors import ConfigError, DataError
from nmt.spans.placing import place
from nmt.spans.span import Span, Unit
from nmt.spans.terms import Glossary
from nmt.translation.glossary import GlossaryTranslator
from nmt.translation.options import translate_options
from nmt.translation.segment import Line
from nmt.translation.translator import Translator
from tests.translation.test_kept import LINE, UND, Copying
from tests.translation.test_pivot import bundles  # noqa: F401
from tests.translation.test_unknown_characters import ENSEMBLE

TERMS = [("hund", "KATZE"), ("und", "ODER")]


def translator(*terms: tuple[str, str], **options) -> GlossaryTranslator:
    chosen = translate_options(ENSEMBLE.config.decoding, guard=False, **options)
    return GlossaryTranslator(Translator(ENSEMBLE, chosen, searcher=Copying()), Glossary(terms))


def test_lines_with_terms_have_them_and_others_stay_as_they_are():
    plain, found = translator(*TERMS).translate(["ein mann", LINE])
    [same] = Translator(
        ENSEMBLE, translate_options(ENSEMBLE.config.decoding, guard=False), searcher=Copying()
    ).translate(["ein mann"])
    assert plain == same
    assert "KATZE" in found.text
    assert "ODER" in found.text
    assert [term.target for term in found.candidates[0].terms] == ["KATZE", "ODER"]
    assert found.candidates[0].alignment is found.candidates[0].piece_log_probabilities is None


def test_each_candidate_of_each_part_has_the_terms():
    [found] = translator(*TERMS, split_sentences="always", nbest=2).translate(["Ein hund. Ein mann und ein mann."])
    assert found.parts == 2
    for candidate in found.candidates:
        assert "KATZE" in candidate.text
        assert "ODER" in candidate.text


def test_terms_within_what_stays_are_no_terms():
    [[found]] = translator(*TERMS).translate_windows([Line(LINE, spans=[UND])])
    assert "und" in found.text
    assert [term.source for term in found.candidates[0].terms] == ["hund"]


def test_markup_stands_round_the_terms_that_it_held():
    [[found]] = translator(*TERMS).translate_windows([Line(LINE, spans=[Span(0, len(LINE))])])
    unit = Unit(LINE, (Span(4, 8, before="<b>", after="</b>"), Span(9, 12, before="<i>", after="</i>")))
    written = place(unit, found.text, found.links())
    assert re.search("<b>[^/]*KATZE[^/]*</b>", written)  # the random model lets other words come from there, too
    assert re.search("<i>[^/]*ODER[^/]*</i>", written)


def test_a_file_resumes_with_the_same_glossary_alone(bundles, tmp_path):  # noqa: F811
    (tmp_path / "in").write_text("ba do\nlu me\n")
    (tmp_path / "terms.tsv").write_text("ba\tXYZ\n\nme\tUVW\n")

    def translate(**options):
        given = {"model": [bundles / "de-en"], "glossary": tmp_path / "terms.tsv", "device": "cpu", "threads": 1}
        return nmt.translate_file(tmp_path / "in", tmp_path / "out", **given | {"format": "jsonl"} | options)

    tally = translate().tally
    first, second = map(json.loads, (tmp_path / "out").read_text().splitlines())
    assert "XYZ" in first["translation"]
    assert [term["target"] for term in second["candidates"][0]["terms"]] == ["UVW"]
    assert tally.terms.total() == 2
    assert tally.notices(prefixed=False)[0].startswith("terms of the glossary: 2 (")
    assert not translate().changed
    (tmp_path / "terms.tsv").write_text("ba\tABC\n")
    with pytest.raises(DataError, match="was made differently"):
        translate()
    with pytest.raises(ConfigError, match="leave out `glossary`"):
        translate(alignment=True)
    model = nmt.load(bundles / "de-en", device="cpu", threads=1)
    assert "XYZ" in model.translate(["ba do"], glossary=[("ba", "XYZ")])[0].text


def test_a_glossary_goes_through_a_pivot_language(bundles):  # noqa: F811
    model = nmt.load([bundles / "de-en", bundles / "en-fr"], via="en", device="cpu", threads=1)
    [found] = model.translate(["ba do"], glossary=[("ba", "XYZ")])
    assert "XYZ" in found.text
