"""Text in the wrong language: by its script; by a double of py3langid in ``doubles/``, and by the package itself."""

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.corpora.chunks import EvaluationSentences
from nmt.corpora.cleaning import Rules, distinct, filter_names, unleaked
from nmt.corpora.filter_statistics import FilterStatistics
from nmt.corpora.filters import FILTERS, Filters, filter_changes
from nmt.corpora.prepare import prepare
from nmt.corpora.recipe import load_recipe, own_recipe, with_filters
from nmt.corpora.schema import Normalisation
from nmt.corpora.wrong_language import alike, language_identifier, seems_to_be
from nmt.errors import NmtError
from nmt.text import languages
from nmt.text.languages import scripts_of


def script(source_lang, target_lang):
    return FILTERS["script"].predicate(True, (source_lang, target_lang))


def identified(source_lang, target_lang, threshold):
    return FILTERS["language_id"].predicate(threshold, (source_lang, target_lang))


def test_text_of_a_language_may_be_identified_as_that_language():
    codes = {code for of_script in languages._LANGUAGES.values() for code in of_script}
    assert [code for code in sorted(codes) if code not in alike(code)] == []
    assert all(alike(other) == alike(code) for code in codes for other in alike(code))


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
    finds = script(language, "en")
    assert not finds((LINES[language], "a"))
    for other, line in LINES.items():
        if not own & set(scripts_of(other)):
            assert finds((line, "a")), other
            assert script("en" if other != "en" else "de", language)(("a", line)), other


def test_up_to_half_of_the_letters_may_be_foreign():
    finds = script("ru", "en")
    assert not finds(("USB кот 5 $ ☃", "USB"))
    assert finds(("USBC кот", "USB"))
    assert not finds(("12:30 — 14:00", "5 €"))
    assert not finds(("", ""))


def test_languages_with_several_scripts():
    assert not script("sr", "uz")(("Пас трчи", "it yuguradi"))
    assert not script("sr", "uz")(("Pas trči", "ит югуради"))
    assert script("sr-Latn", "en")(("Пас трчи", "a dog"))
    assert script("sr_Cyrl_RS", "en")(("Pas trči", "a dog"))
    assert not script("zh-Hant-TW", "pt-BR")(("狗在跑", "O cão corre"))
    assert not script("ko", "ja")(("漢字", "漢字"))


def test_letters_that_scripts_share_are_foreign_to_none():
    assert not script("ja", "ar")(("ヘーーーー", "مـــــ"))
    assert not script("de", "en")(("µµµ m", "µ"))
    assert script("de", "en")(("ｶｶ", "a"))


def test_unknown_languages_pass():
    assert not script("tlh", "xx")(("тест", "漢字"))
    assert scripts_of("tlh") == ()


@given(st.text(st.characters(codec="ascii")))
def test_ascii_is_never_foreign_in_latin(line):
    assert not script("en", "de")((line, line))


DOUBLES = Path(__file__).parent / "doubles"


def forget():
    language_identifier.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "py3langid"]:
        del sys.modules[name]


@pytest.fixture
def double(monkeypatch):
    forget()
    monkeypatch.syspath_prepend(str(DOUBLES))
    yield
    forget()


def test_a_side_in_another_language_is_found(double):
    finds = identified("en", "de", 0.8)
    assert not finds(("the dog and a cat is", "der Hund und die Katze und das"))
    assert finds(("der Hund und die Katze", "der Hund und die Katze"))
    assert finds(("the dog is a dog", "the dog is a dog"))
    assert not finds(("Berlin", "Berlin"))


def test_only_what_is_sure_enough_is_found(double):
    """With one word of a language, the double is sure by half."""
    pair = "der dog", "der Hund"
    assert identified("en", "de", 0.5)(pair)
    assert not identified("en", "de", 0.6)(pair)


def test_unknown_languages_pass_and_languages_that_are_alike_are_one(double):
    assert not identified("tlh", "xx", 0.8)(("the the the", "der der der"))
    assert not identified("hr", "bs", 0.8)(("pas je je", "pas je je"))
    assert identified("hr-Latn", "de-AT", 0.8)(("the the the", "ein ein ein"))
    assert identified("eng", "deu_Latn", 0.8)(("the the the", "the the the"))
    assert not identified("de_AT", "en-US", 0.8)(("ein ein ein", "the the the"))


def test_the_option_has_a_usual_threshold_and_takes_hyphens():
    assert filter_changes(["language-id"]) == {"language_id": 0.8}
    assert filter_changes(["language_id=0.5", "near-duplicates"]) == {"language_id": 0.5, "near_duplicates": True}


def test_without_the_package_one_error_says_how_to_install_it_before_anything_is_fetched(
    tmp_path, monkeypatch, file_server
):
    forget()
    monkeypatch.setitem(sys.modules, "py3langid", None)
    recipe = with_filters(load_recipe("multi30k-en-de"), {"language_id": 0.8})
    with pytest.raises(
        NmtError, match=r"filter language_id needs py3langid, which is not installed\. Install it: `pip"
    ):
        prepare(recipe, tmp_path / "data", cache=tmp_path / "cache", mirrors=[file_server.url])
    assert file_server.requests == []


def test_a_data_set_counts_what_was_dropped(double, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good = [f"the dog and a cat {n}\tder Hund und die Katze {n}" for n in range(90)]
    bad = [f"the dog and a cat {n}\tthe dog and a cat {n}" for n in range(90, 100)]
    Path("crawl.tsv").write_text("".join(f"{row}\n" for row in [*good, *bad]), "utf-8")
    recipe = own_recipe("own", source_lang="en", target_lang="de", train=["crawl.tsv"])
    made = prepare(with_filters(recipe, {"language_id": 0.8}), tmp_path / "own", workers=1)
    assert made.manifest.filters["language_id"] == 10
    assert made.manifest.corpora[0].filters["language_id"].samples[0][1].startswith("the dog")


needs_package = pytest.mark.skipif(
    importlib.util.find_spec("py3langid") is None, reason="py3langid is not installed: pip install py3langid"
)
IDENTIFIED = {
    "en": ["Two young people are walking through the park on a sunny day.", "The committee will vote on the new law."],
    "de": [
        "Zwei junge Menschen gehen an einem sonnigen Tag durch den Park.",
        "Der Ausschuss stimmt morgen darüber ab.",
    ],
    "fr": [
        "Deux jeunes gens se promènent dans le parc par une belle journée.",
        "La commission votera demain matin sur la nouvelle loi, après un long débat.",
    ],
    "cs": ["Dva mladí lidé se procházejí parkem za slunečného dne.", "Výbor bude zítra hlasovat o novém zákoně."],
}


@needs_package
@pytest.mark.parametrize("language", IDENTIFIED)
def test_the_package_knows_sentences_of_common_languages(language):
    for other, sentences in IDENTIFIED.items():
        finds = identified(language, language, 0.8)
        for sentence in sentences:
            assert finds((sentence, sentence)) == (other != language)


@pytest.mark.slow
@needs_package
def test_workers_find_the_same_as_one_process(tmp_path):
    pairs = [
        (IDENTIFIED["en" if n % 3 else "fr"][n % 2] + f" {n}", IDENTIFIED["de" if n % 5 else "cs"][n % 2] + f" {n}")
        for n in range(50_000)
    ]
    rules = Rules("en", "de", Filters(language_id=0.8, dedup=False), Normalisation())
    kept = {}
    for workers in (1, 2):
        statistics = FilterStatistics(filter_names(rules.filters, held_out=False))
        chunks = distinct([(0, pairs)], rules, statistics, scratch=tmp_path / str(workers), workers=workers)
        chunks = unleaked(chunks, rules, EvaluationSentences(), statistics)
        kept[workers] = [pair for chunk in chunks for pair in chunk.pairs], statistics.totals()
    assert kept[1] == kept[2]
    assert kept[1][1]["language_id"] == sum(n % 3 == 0 or n % 5 == 0 for n in range(50_000))


@pytest.mark.parametrize(
    ("text", "own", "found"),
    [
        ("Der Hund läuft schnell über die grüne Wiese.", "en", "de"),
        ("El niño come una manzana y la niña bebe leche en el jardín.", "pt_BR", "es"),
        ("Собака быстро бежит по зелёному полю.", "eng_Latn", "ru"),
        ("狗在绿色的田野上快速奔跑,孩子们在唱歌。", "de", "zh"),
        ("The dog runs fast across the green meadow.", None, "en"),
        ("The dog runs fast across the green meadow.", "en_GB", ""),
        ("The dog runs fast across the green meadow.", "tlh", ""),
        ("Der Hund läuft.", "en", ""),
        ("Anna Müller, Peter Schmidt, Hans Meier, Ute Krause, Jan Vogt", "en", ""),
        ("SELECT name FROM users WHERE id = 3 AND size > 17; 12:30", "de", ""),
        ("Drengen spiser et æble, og pigen drikker mælk i haven hele dagen.", "nb", ""),
        ("Dečak jede jabuku, a devojčica pije mleko u bašti ceo dan.", "hr", ""),
        ("12 30 45 – 1.234,56 € – 17:45 – 08/15 – +49 30 1234567", "de", ""),
    ],
)
def test_the_language_of_a_text(text, own, found):
    pytest.importorskip("py3langid")
    assert seems_to_be([text], own) == found
    assert seems_to_be([text] * 50, own) == found or not found


GERMAN = [
    "Der Zug hält heute nicht in der kleinen Stadt.", "Meine Schwester backt am Sonntag gern einen Kuchen.",
    "Im Garten stehen drei alte Apfelbäume.", "Wir haben den Schlüssel unter der Matte gefunden.",
    "Am Abend spielt die Kapelle auf dem Marktplatz.", "Das Fenster im Flur lässt sich nicht öffnen.",
    "Zwei Katzen schlafen auf der Fensterbank.",
]  # fmt: skip
ENGLISH = ["The train does not stop here today.", "We found the key under the mat.", "Two cats sleep on the sill."]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (GERMAN[:5], "de"),
        (GERMAN[:3], "de"),
        (GERMAN + ENGLISH, "de"),
        (ENGLISH + GERMAN, "de"),
        (ENGLISH + GERMAN[:2], ""),
        (ENGLISH, ""),
        (["狗在绿色的田野上快速奔跑。", "孩子们在花园里唱歌,老人在看书。", "你好,世界"], "zh"),
    ],
)
def test_most_of_a_text_decides(lines, found):
    pytest.importorskip("py3langid")
    assert seems_to_be(lines, "en") == found


def test_a_mixed_text_is_in_no_other_language():
    pytest.importorskip("py3langid")
    lines = ["Der Hund läuft schnell über die Wiese, und ein Kind singt."] * 10 + [
        "The dog runs across the meadow."
    ] * 10
    assert seems_to_be(lines, "en") == ""
    assert seems_to_be(lines[:11], "en") == "de"
