"""Time grows with the length of a line, not with its square, whatever the line repeats."""

import html
import random
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.corpora.filters import FILTERS
from nmt.corpora.formats import segment_sentences
from nmt.corpora.pair_filters import nearly, repair_encoding
from nmt.data.vocab import train_vocabulary
from nmt.evaluation.metrics import make_metric
from nmt.evaluation.paper_bleu import moses_tokenizer
from nmt.text import normalization
from nmt.text import sentences as module
from nmt.text.lines import comparison_key
from nmt.text.sentences import sentences
from nmt.text.steps import MosesPunctuation, Nfc, normalizer
from nmt.translation import long_lines as splitting
from nmt.translation.guard import Languages, changed, problems
from nmt.translation.paragraphs import Paragraph
from nmt.translation.taking_out import take_out
from nmt.translation.word_alignment import word_of_each
from tests.growth import assert_linear

VOCAB = train_vocabulary(["the cat sat.", "die Katze, sie saß!", "猫。犬。"] * 3, size=60).vocab


def slowly(*values):
    """Parameters that are tried by `make test-slow` alone."""
    return pytest.param(*values, marks=pytest.mark.slow)


def characters(texts):
    return [len(text) for text in texts]


@pytest.mark.parametrize("language", ["en", slowly("de"), slowly("zh")])
@pytest.mark.parametrize("unit", [".", "`", "«", "'", '"', "(", ". ", ". .", "Dr. ", "Dr.", "! ", "a. ", "“a. ", "。"])
def test_sentences(language, unit):
    assert_linear(lambda line: sentences(line, language), unit, 4_000, begin="a", end="b")


@pytest.mark.parametrize(
    "unit", [".", "?!", ".”", "\u0301", "\u200d", "\U0001f1e6", "🏽", "a\u0301", " ", "。", ". ", ",", "a", "a "]
)
def test_splitting(unit):
    assert_linear(lambda line: splitting.split(line, 64, characters), unit, 2_000, begin="a", end="b")


@pytest.mark.parametrize("unit", [" ", "\u3000", "\u0301", "-", "a-", "☃ ", "☃a ", "☃", ".", " a", "²", "!. ", "5☃"])
def test_unknown_characters(unit):
    assert_linear(lambda line: take_out(line, lambda cluster: "☃" in cluster), unit, 2_000, begin="a")


@pytest.mark.parametrize("language", ["en", slowly("de"), slowly("ru")])
@pytest.mark.parametrize(
    "unit", [".", '."<', '..."<', " ", '"', "\u00a0", "\u0301\u0315", "\u0f73", ",", "1\u00a0", "(", "\u200b", "a"]
)
def test_normalisation(language, unit):
    assert_linear(normalizer((Nfc(), MosesPunctuation(language=language))), unit, 4_000, begin="a", end="b")


@pytest.mark.parametrize("unit", ["\u0301\u0315", "\u0f73", "é\u0315", " ", "a "])
def test_comparison_of_lines(unit):
    assert_linear(comparison_key, unit, 4_000, begin="a", end="b")


@pytest.mark.parametrize("unit", ["<seg", "<seg>", "<seg ", "<seg a=b>x", "</seg>", ">", "<seg>x</seg>"])
def test_segments(unit):
    assert_linear(lambda line: list(segment_sentences([line])), unit, 4_000, begin="<seg ")


@pytest.mark.parametrize(
    "unit",
    ["<", "<a", "<a ", "<a b", "<a b=", "</", "&a", "&amp", "&#1", "1", "1,", "1,000", "1 000", "www.", "http://", "a@",
     "a@b.", "a.", "@", "\u202a", "\u2066", "a", "a ", "犬", "\u0301"],
)  # fmt: skip
def test_filters_of_pairs(unit):
    values = {"max_words": 1, "long_words": 10**9, "letters": 1}
    usual = {name: each.usual for name, each in FILTERS.items() if name != "language_id"}
    finders = [FILTERS[name].predicate(value, ("en", "ja")) for name, value in (usual | values).items()]
    assert_linear(lambda line: [finds((line, line)) for finds in finders if finds], unit, 2_000, begin="a", end="b")
    assert_linear(lambda line: nearly((line, line)), unit, 4_000, begin="a", end="b")


@pytest.mark.parametrize("unit", ["Ã¤", "Ã", "ÃÂ¤", "â€™", "ä", "aÃ»", "AÃ»", "a"])
def test_repair_of_encodings(unit):
    assert_linear(repair_encoding, unit, 4_000, begin="Ã¤", end="b")


@pytest.mark.parametrize("unit", ["a\n", "a\u00ad\n", "-\n", "中\n"])
def test_paragraphs(unit):
    def work(text):
        paragraph = Paragraph(tuple(text.split("\n")[:-1]) or ("a",), 1)
        return paragraph.wrapped(paragraph.unwrapped("zh"), "zh")

    assert_linear(work, unit, 6_000)


UNITS = ["1 ", "1,", "{", "{a", "{{ ", "%", "%0", "%(a", "$a", "[[a", "_", "A_", ":a", "</a", "<a ", "<a b=", "&#1",
         "1", "a.", "a@", "http://", "万", "I"]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_what_a_translation_keeps(unit):
    assert_linear(lambda line: (changed(line, "1"), changed("1", line)), unit, 4_000)


@pytest.mark.parametrize("unit", ["a", "a ", "a. ", "ab cd ", ".", "\u0301"])
def test_words_of_pieces_and_the_guard(unit):
    def work(line):
        word_of_each(["▁", *line.replace(" ", "▁")], line)
        # Of pieces the search bounds the number.
        problems(line, ["▁a"] * 100, line, ["▁a", "b"] * 50, Languages("en", "de"), short_ratio=9)

    assert_linear(work, unit, 3_000, begin="a ", end=" b")


@pytest.mark.parametrize("unit", [".", "a", "a ", ",", "a-", "a.", "&amp;", "'", "1,", " ", "\u0301", "。", "ab.c "])
@pytest.mark.parametrize(("language", "length"), [("de", 250), *(slowly(code, 1_000) for code in ("en", "de", "fr"))])
def test_the_papers_tokenizer(language, length, unit):
    assert_linear(moses_tokenizer(language, splits_compounds=language == "de"), unit, length, begin="a", end="b")


@pytest.mark.parametrize("unit", [".", "a", "a ", ",", "1-", "&quot;", "'s ", " ", "。", "あ", "\u0301"])
@pytest.mark.parametrize("tokenizer", ["13a", "intl", slowly("zh"), slowly("char")])
def test_the_tokenizers_of_bleu(tokenizer, unit):
    tokenize = make_metric("bleu", "", tokenize=tokenizer).tokenizer

    def work(line):
        for kept in (tokenize, getattr(tokenize, "_post_tokenizer", tokenize)):
            type(kept).__call__.cache_clear()  # sacreBLEU remembers what it has tokenised
        tokenize(line)

    assert_linear(work, unit, 3_000, begin="a", end="b")


@pytest.mark.parametrize("unit", ["a", "a ", "猫", ".", "the cat ", "☃", "\u0301"])
def test_encoding(unit):
    assert_linear(lambda line: VOCAB.encode([line]), unit, 8_000)


# What took quadratic time is compared with what replaced it.

MARKS = st.sampled_from(
    ["a", "é", "x" * 40, "\u0301", "\u0315", "\u0300", "\u05b0", "\u0f73", "\u0344", "\u3099", "が"]
)


@given(st.lists(MARKS, max_size=60), st.integers(1, 20))
def test_normal_form_c_is_unicodes(parts, times):
    line = "".join(parts) * times + " " + "ä" * 1_000
    assert normalization.nfc(line) == unicodedata.normalize("NFC", line)


def test_the_marks_are_all_that_unicode_has():
    every = map(chr, (*range(0xD800), *range(0xE000, 0x110000)))
    assert set(normalization.marks()) == {
        character for character in every if all(map(unicodedata.combining, unicodedata.normalize("NFD", character)))
    }


@given(
    st.text(st.sampled_from('..""<a \u00a0,\'`´„“”‘’‚«»…()'), max_size=40),
    st.sampled_from(["en", "de", "es", "fr", "ru"]),
)
def test_moses_punctuation_is_that_of_sacremoses(line, language):
    from sacremoses import MosesPunctNormalizer

    theirs = MosesPunctNormalizer(lang=language, pre_replace_unicode_punct=False, post_remove_control_chars=True)
    assert normalization.punctuation_normalizer(language)(line) == theirs.normalize(line)


TAGS = st.lists(st.sampled_from(["<seg ", "<seg>", ">", "</seg>", "a", " ", "&amp;"]), max_size=12).map("".join)


@given(TAGS)
def test_segments_are_those_of_the_patterns_before(line):
    found = re.search(r"<seg[^>]*>(.*?)</seg>", line)
    assert list(segment_sentences([line])) == ([html.unescape(found[1]).strip()] if found else [])


@given(st.text(st.sampled_from(".!?…\"')”。 a\t"), max_size=40))
def test_ends_of_sentences_are_those_of_the_pattern_before(text):
    before = re.compile(rf"[.!?…‽؟]+[{splitting._CLOSING}]*(?=\s)|[。！？｡।॥۔։።፧፨။៕།]+[{splitting._CLOSING}]*")
    assert [m.span() for m in splitting._SENTENCE_END.finditer(text)] == [m.span() for m in before.finditer(text)]


def test_the_windows_of_a_long_line_change_no_sentence(monkeypatch):
    draw = random.Random(1)
    known = ["Dr. Miller slept.", "It costs $3.14!", "Wait... what?", "Why?", "See No. 5, please.", "The U.S. voted."]
    line = " ".join(sentence for _ in range(1_000) for sentence in draw.sample(known, 3))
    assert len(line) > 5 * module._WINDOW
    by_windows = sentences(line, "en")
    monkeypatch.setattr(module, "_WINDOW", len(line))
    assert sentences(line, "en") == by_windows
    assert len(by_windows) > 2_500


def test_a_sentence_that_is_longer_than_a_window_stays_whole():
    long = "word " * 5_000
    assert sentences(f"It begins. This {long}ends. It is over.", "en") == [
        "It begins. ", f"This {long}ends. ", "It is over."
    ]  # fmt: skip
