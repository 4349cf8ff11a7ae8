"""Scripts and the languages that use them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.corpora.filters.scripts import other_script
from nmt.languages import scripts_of

LINES = {
    "en": "A dog runs.", "de": "Über Öl läuft ß", "vi": "Tiếng Việt", "ru": "Собака бежит.", "uk": "Їжак біжить",
    "el": "Ο σκύλος τρέχει", "ar": "الكلب يركض", "fa": "می\u200cخواهم", "he": "הכלב רץ", "hi": "कुत्ता दौड़ता है",
    "bn": "কুকুর দৌড়ায়", "ta": "நாய் ஓடுகிறது", "th": "สุนัขวิ่ง", "lo": "ໝາແລ່ນ", "km": "ឆ្កែរត់", "my": "ခွေးပြေးသည်",
    "ka": "ძაღლი გარბის", "hy": "Շունը վազում է", "am": "ውሻ ይሮጣል", "ko": "개가 달린다",
    "ja": "犬が走っているパーク", "zh": "狗在跑", "bo": "ཁྱི་རྒྱུག", "si": "බල්ලා දුවනවා",
    "gu": "કૂતરો દોડે છે", "te": "కుక్క పరిగెడుతుంది",
}  # fmt: skip


@pytest.mark.parametrize("language", LINES)
def test_each_language_passes_in_its_own_script_and_not_in_others(language):
    own = set(scripts_of(language))
    finds = other_script(language, "en")
    assert not finds((LINES[language], "a"))
    for other, line in LINES.items():
        if not own & set(scripts_of(other)):
            assert finds((line, "a")), other
            assert other_script("en" if other != "en" else "de", language)(("a", line)), other


def test_up_to_half_of_the_letters_may_be_foreign():
    finds = other_script("ru", "en")
    assert not finds(("USB кот 5 $ ☃", "USB"))
    assert finds(("USBC кот", "USB"))
    assert not finds(("12:30 — 14:00", "5 €"))
    assert not finds(("", ""))


def test_languages_with_several_scripts():
    assert not other_script("sr", "uz")(("Пас трчи", "it yuguradi"))
    assert not other_script("sr", "uz")(("Pas trči", "ит югуради"))
    assert other_script("sr-Latn", "en")(("Пас трчи", "a dog"))
    assert other_script("sr_Cyrl_RS", "en")(("Pas trči", "a dog"))
    assert not other_script("zh-Hant-TW", "pt-BR")(("狗在跑", "O cão corre"))
    assert not other_script("ko", "ja")(("漢字", "漢字"))


def test_unknown_languages_pass():
    assert not other_script("tlh", "xx")(("тест", "漢字"))
    assert scripts_of("tlh") == ()


@given(st.text(st.characters(codec="ascii")))
def test_ascii_is_never_foreign_in_latin(line):
    assert not other_script("en", "de")((line, line))
