"""What a language code means."""

import unicodedata
from pathlib import Path

import pytest
import regex
from pydantic import ValidationError

from nmt.config import DataConfig
from nmt.convert.foreign import Given
from nmt.data.manifest import Manifest
from nmt.errors import ConfigError
from nmt.text import languages
from nmt.text.languages import (
    direction,
    fitting,
    is_full_width,
    is_language_code,
    is_unspaced,
    is_well_formed,
    language_of_name,
    primary_language,
    scripts_of,
    well_formed,
)


@pytest.mark.parametrize(
    ("code", "language", "scripts"),
    [
        ("en", "en", "Latn"), ("eng", "en", "Latn"), ("EN_gb", "en", "Latn"), ("eng_Latn", "en", "Latn"),
        ("zh", "zh", "Bopo Hani"), ("zho_Hans", "zh", "Bopo Hani"), ("cmn", "zh", "Bopo Hani"),
        ("chi", "zh", "Bopo Hani"), ("zh-Hant-TW", "zh", "Bopo Hani"), ("zh-Latn", "zh", "Latn"),
        ("zh-hant", "zh", "Bopo Hani"), ("SR-LATN", "sr", "Latn"),
        ("yue", "yue", "Hani"), ("yue_Hant", "yue", "Bopo Hani"), ("zh-yue", "yue", "Hani"),
        ("zh-cmn-Hans", "zh", "Bopo Hani"), ("jpn_Jpan", "ja", "Kana Hani"), ("ja-JP", "ja", "Kana Hani"),
        ("kor_Hang", "ko", "Hang"), ("srp_Cyrl", "sr", "Cyrl"), ("sr", "sr", "Latn Cyrl"), ("iw", "he", "Hebr"),
        ("mya_Mymr", "my", "Mymr"), ("bur", "my", "Mymr"), ("tha", "th", "Thai"), ("khm", "km", "Khmr"),
        ("lao", "lo", "Laoo"), ("arb_Arab", "ar", "Arab"), ("jav", "jv", "Latn Java"),
        ("tzm", "tzm", "Latn Tfng"), ("tlh", "tlh", ""), ("de-CH-1901", "de", "Latn"),
        ("sr@latin", "sr", "Latn"), ("uz_UZ@cyrillic", "uz", "Cyrl"), ("SR@Latin", "sr", "Latn"),
        ("ca@valencia", "ca", "Latn"),
        ("", "", ""),
    ],
)  # fmt: skip
def test_a_code_names_a_language_and_its_scripts(code, language, scripts):
    assert primary_language(code) == language
    assert sorted(scripts_of(code)) == sorted(scripts.split())


@pytest.mark.parametrize(
    ("codes", "unspaced"),
    [
        ("zh zho cmn zh_CN zho_Hant yue wuu ja jpn jpn_Jpan th tha tha_Thai km khm lo lao my mya shn bo dzo", True),
        ("en eng deu ko kor kor_Hang vi zh-Latn ja_Latn hi hin_Deva ar amh_Ethi tlh xx", False),
    ],
)
def test_which_languages_are_written_without_spaces(codes, unspaced):
    assert {is_unspaced(code) for code in codes.split()} == {unspaced}


def test_which_languages_have_no_spaces_between_sentences_either():
    codes = ["zh", "zho_Hant", "yue", "ja", "jpn_Jpan", "th", "km", "lo", "my", "bo", "ko", "en", "xx"]
    assert [code for code in codes if is_full_width(code)] == codes[:5]


def test_direction_of_each_script_is_that_of_its_letters():
    for script, [code, *_] in languages._LANGUAGES.items():
        letters = regex.findall(
            rf"(?V1)[[{languages.characters_of([script])}]&&\p{{L}}]", "".join(map(chr, range(0x20000)))
        )
        is_right = unicodedata.bidirectional(letters[0]) in ("R", "AL")
        assert direction(f"{code}-{script}") == ("rtl" if is_right else "ltr")
    assert direction("ar") == direction("fas") == direction("he") == "rtl"
    assert {direction(code) for code in ("sd", "uig", "pa_PK", "sr@arabic")} == {"rtl"}
    assert {direction(code) for code in ("ku", "", "ug_Latn", "sd-Deva", "pa", "az")} == {"ltr"}


def test_every_code_and_script_is_listed_once():
    listed = [code for entry in languages._CODES.items() for code in ",".join(entry).split(",")]
    assert len(listed) == len(set(listed))
    for script in [*languages._LANGUAGES, *languages.CHARACTERS_PER_WORD]:
        assert regex.compile(f"[{languages.characters_of([script])}]").search("a") is None or script == "Latn"
    for codes in languages._LANGUAGES.values():
        assert len(codes) == len(set(codes))
        assert [primary_language(code) for code in codes] == list(codes)


@pytest.mark.parametrize(
    ("code", "known"), [("de", True), ("deu", True), ("zho_Hans", True), ("xq", False), ("", False)]
)
def test_three_letters_may_be_any_language(code, known):
    assert is_language_code(code) == known


@pytest.mark.parametrize("code", ["de", "zho_Hans", "zh-yue-Hant-HK", "es-419", "en_XX", "sr@latin", "ca_ES@valencia"])
def test_a_code_has_a_form(code):
    assert well_formed(code) == code


@pytest.mark.parametrize(
    "code",
    ["d", "de;touch x", "$(id)", "`id`", "de\n", "../de", "./../../x", "de fr", "de'", "dé", "de@", "a-" * 60 + "b"],
)
def test_what_has_no_form_of_a_code_is_no_language_of_settings_and_records(code):
    assert not is_well_formed(code)
    for section in (DataConfig, Manifest):
        with pytest.raises(ValidationError, match=r"must be a language code such as en, pt-BR or sr@latin"):
            section.model_validate({"source_lang": code})
    with pytest.raises(ConfigError, match=r"--target-lang .*: must be a language code"):
        Given(target_lang=code)
    assert Given().languages(code, "en") == ("", "en")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("x.zh_CN", "zh_CN"), ("x.zh-TW", "zh-TW"), ("x.zh-Hans", "zh-Hans"), ("test.de-AT", "de-AT"),
        ("test.pt_BR.gz", "pt_BR"), ("x.de", "de"), ("x.deu", "deu"), ("x.yue_Hant", "yue_Hant"),
        ("x.es-419", "es-419"), ("test.ref", ""), ("out.txt", ""), ("test.hyp", ""), ("x.src", ""),
        ("x.sr@latin", "sr@latin"), ("x.srp_RS@latin", "srp_RS@latin"), ("x.yue@a", "yue@a"),
        ("x.qq", ""), ("de", ""), ("x.DE.txt", ""), ("x.bak", ""), ("x.run", ""), ("x.in", ""),
    ],
)  # fmt: skip
def test_a_name_may_end_in_a_language(name, code):
    assert language_of_name(Path(name)) == code


@pytest.mark.parametrize(
    ("codes", "wanted", "found"),
    [
        (["en", "de"], "en", ["en"]),
        (["en-GB", "de"], "en", ["en-GB"]),
        (["EN_gb", "de"], "en-GB", ["EN_gb"]),
        (["en-GB", "en", "en-US"], "en", ["en"]),
        (["en-GB", "en-US"], "en", ["en-GB", "en-US"]),
        (["pt"], "pt-BR", ["pt"]),
        (["pt", "pt_BR"], "pt-BR", ["pt_BR"]),
        (["pt-PT"], "pt-BR", []),
        (["zh-Hans-CN"], "zh-Hans", ["zh-Hans-CN"]),
        (["zh-Hans-CN", "zh-TW"], "zh-CN", ["zh-Hans-CN"]),
        (["zh-TW", "zh_HK", "zho_CN"], "zh-Hans", ["zho_CN"]),
        (["zh-TW", "zh_CN"], "zho_Hant", ["zh-TW"]),
        (["zh-US", "zh_SG"], "zh-Hans", ["zh_SG"]),
        (["sr-RS", "sr@latin", "sr_RS@latin"], "sr-Latn", ["sr@latin"]),
        (["sr-RS"], "sr-Latn", []),
        (["sr-RS", "sr-BA"], "sr-Cyrl", ["sr-RS", "sr-BA"]),
        (["zh"], "zh-TW", ["zh"]),
        (["eng", "deu"], "en", ["eng"]),
        (["nn", "nb-NO"], "no", ["nb-NO"]),
        (["no", "nob"], "nb", ["nob"]),
        (["no"], "nn", []),
        (["e", "-", ""], "en", []),
        ([" en "], "en", [" en "]),
        ([], "en", []),
        (["en-" + "x" * 200], "en", []),
    ],
)
def test_equal_codes_come_before_codes_that_fit(codes, wanted, found):
    assert fitting(codes, wanted) == found


def test_a_code_of_any_length_fits_nothing_and_is_not_kept():
    before = languages._fitting.cache_info().currsize
    assert fitting(["en", "de"], "en-" * 100_000) == []
    assert fitting(["en", "x" * 100_000], "en") == ["en"]
    assert languages._fitting.cache_info().currsize <= before + 1
