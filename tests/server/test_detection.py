"""The language of a text, as the identifier finds it."""

import pytest

from nmt.server.detection import Detector


@pytest.mark.parametrize(
    ("languages", "text", "found"),
    [
        (["en", "nb"], "Jeg vet ikke hva som skjedde i går, men vi må snakke om det.", "nb"),
        (["en", "ckb"], "ئەمە زمانی کوردییە و من دەمەوێت فێری ببم", "ckb"),
        (["en", "zh-Hans"], "今天天气很好，我们去公园散步吧。", "zh-Hans"),
        (["en", "de"], "Ich weiß nicht, was gestern geschehen ist.", "de"),
    ],
)
def test_languages_are_found_under_any_name_that_the_identifier_has_for_them(languages, text, found):
    ranked = Detector(languages).ranked(text)
    assert [language for language, _ in ranked] == [found, "en"]
    assert ranked[0][1] > 0.5


def test_a_language_that_the_server_does_not_have_is_named():
    ranked = Detector(["en", "nb"]).ranked("Ich weiß nicht, was gestern geschehen ist.")
    assert ranked[0][0] == "de"


def test_a_text_without_letters_may_be_in_any_language():
    assert Detector(["en", "de"]).ranked("1, 2") == [("en", 0.0), ("de", 0.0)]


def test_text_in_the_target_language_is_told_from_that_of_several_sources():
    detector = Detector(["de", "en", "fr"])
    assert detector.source("Guten Morgen, wie geht es Ihnen heute?", ["en", "fr"], "de")[0] == "de"
    assert detector.source("Bonjour, comment allez-vous aujourd'hui ?", ["en", "fr"], "de")[0] == "fr"


@pytest.mark.parametrize(
    ("text", "language", "found"),
    [
        ("今天天气很好，我们去公园散步吧。", "en", "zh"),
        ("你好", "en", ""),
        ("مرحبا", "de-AT", ""),
        ("Привет", "en", ""),
        ("Привет", "tlh", None),
        ("狗", "ja", None),
        ("Hallo", "zh", ""),
        ("Hallo", "en", None),
        ("Hy het gister na die winkel gegaan om brood en melk te koop.", "nl", None),
        ("Hy het gister na die winkel gegaan om brood en melk te koop.", "en", "af"),
        ("1, 2 – µ", "en", None),
    ],
)
def test_a_text_in_another_script_is_surely_in_another_language(text, language, found):
    assert Detector.other(text, language) == found
