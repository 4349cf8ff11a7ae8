"""The steps that text goes through before it becomes pieces, and back."""

import unicodedata
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from nmt.text.steps import (
    NO_STEPS,
    Affix,
    Control,
    Lowercase,
    MosesPunctuation,
    MosesTokenize,
    Nfc,
    Nfkc,
    Replace,
    Replacement,
    SentencePieceRule,
    Spaces,
    Steps,
    TextSteps,
    affixes,
    normalizer,
    tokenizer,
    well_formed_tag,
)

LINE = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))
PUNCTUATION = MosesPunctuation(language="en")
MARKS = Replace(table=(Replacement(text="。", by=". ", with_spaces=True), Replacement(text="“", by='"')))
AFFIX = Affix(chosen_by="target", pieces={"de": ">>de<<", "fr": ">>fr<<"})
ALL = (
    MARKS, Control(), Spaces(), Nfc(), Nfkc(), PUNCTUATION, SentencePieceRule(rule="nmt_nfkc"),
    MosesTokenize(language="en"), Lowercase(), AFFIX,
)  # fmt: skip


@given(LINE)
def test_no_steps_change_nothing(line):
    assert normalizer(())(line) == line
    assert [rewrite(line) for rewrite in tokenizer(())] == [line, line]


@pytest.mark.parametrize(
    ("steps", "line", "expected"),
    [
        ((MARKS,), "a。  b“c“ 。", 'a. b"c" . '),
        ((Control(),), "a\x07b\u200bc\ufeff\ue000 ä", "a b c   ä"),
        ((Spaces(),), "  a   b\u00a0\tc ", "a b\u00a0\tc"),
        ((Spaces(drops_others=True),), "\t a  b\u00a0", "a b"),
        ((Nfkc(),), "ﬁ e\u0301 Ａ\u00a0x²", "fi é A x2"),
        ((PUNCTUATION,), "“a” – b\u0007", '"a" - b'),
        ((PUNCTUATION,), "你好，「x」", "你好，「x」"),
        ((PUNCTUATION.model_copy(update={"replaces_unicode": True}),), "你好，「x」.", '你好,"x."'),
        ((PUNCTUATION.model_copy(update={"removes_control": False}),), "“a”\u0007", '"a"\u0007'),
        ((SentencePieceRule(rule="nmt_nfkc_cf"),), " m²  Ａ ", " m2  a "),
        # The Moses steps know “, but not its full-width form.
        ((PUNCTUATION, SentencePieceRule(rule="nfkc")), "“ｘ＂", '"x"'),
        ((Nfc(), Lowercase()), "Scho\u0308N", "Sch\u00f6N"),  # lower case is for tokens
    ],
)
def test_each_step_gives_text(steps, line, expected):
    assert normalizer(steps)(line) == expected


@given(LINE)
def test_nfc_is_unicodes(line):
    assert normalizer((Nfc(),))(line) == unicodedata.normalize("NFC", line)


@given(LINE)
def test_control_characters_are_unicodes(line):
    spaced = "".join(" " if unicodedata.category(character).startswith("C") else character for character in line)
    assert normalizer((Control(),))(line) == spaced


def test_tokens_are_joined_again():
    tokenize, join = tokenizer((Nfc(), MosesTokenize(language="en"), Lowercase()))
    assert tokenize("It's “Tom & Co.”, isn't it?") == "it &apos;s “ tom &amp; co . ” , isn &apos;t it ?"
    assert join("it &apos;s tom &amp; co . , isn &apos;t it ?") == "it's tom & co., isn't it?"
    plain, _ = tokenizer((MosesTokenize(language="en", escapes=False, splits_dashes=True),))
    assert plain("A&B well-known") == "A & B well @-@ known"


def test_outputs_go_through_the_steps_that_say_so_after_their_tokens_are_joined():
    marks = Replace(table=(Replacement(text=" ?", by="?"),), in_outputs=True)
    steps = (Nfc(), MARKS, Spaces(in_outputs=True), marks, MosesTokenize(language="en"))
    assert tokenizer(steps)[1]("a  “ ( b ) ?") == "a “(b)?"
    assert tokenizer((Spaces(in_outputs=True), marks))[1]("a  ?") == "a?"


def test_an_affix_is_chosen_by_a_language():
    assert [step.piece({"source": "en", "target": "fr"}) for step in affixes(ALL)] == [">>fr<<"]
    assert AFFIX.piece({"target": "xx"}) is None
    assert AFFIX.piece({}) is None


def test_an_affix_is_chosen_by_a_tag_as_it_is_spelt():
    affix = Affix(chosen_by="tag", pieces={"BT": "<BT>", "de": "<de>"})
    found = [affix.piece({"target": "de", "tag": tag}) for tag in ("BT", "bt", "de", "deu", "")]
    assert found == ["<BT>", None, "<de>", None, None]
    assert not TextSteps((affix,)).names_languages  # which text gets unasked


@pytest.mark.parametrize(
    ("tag", "is_good"),
    [("", True), ("BT", True), ("back-translated_2", True), ("de", True), ("S", True), ("s", False), ("unk", False),
     ("2de", False), ("0x41", False), ("/s", False), ("<BT>", False), ("B T", False), ("ä", False), ("B" * 33, False),
     ("BT\n", False)],
)  # fmt: skip
def test_the_piece_of_a_tag_is_no_other_piece(tag, is_good):
    with nullcontext() if is_good else pytest.raises(ValueError, match="must be a word such as BT"):
        assert well_formed_tag(tag) == tag


def test_all_steps_are_plain_values_and_have_words():
    adapter = TypeAdapter(Steps)
    assert adapter.validate_python(adapter.dump_python(ALL, mode="json")) == ALL
    assert len({str(step) for step in ALL}) == len(ALL)


def test_a_rule_is_last_of_the_steps_that_give_text():
    steps = TextSteps((Nfc(), MosesTokenize(language="en")))
    changed = steps.with_rule("nfkc")
    assert changed.source == (Nfc(), SentencePieceRule(rule="nfkc"), MosesTokenize(language="en"))
    assert (changed.rule, changed.with_rule(None), changed.with_rule("identity")) == ("nfkc", changed, steps)


def test_steps_include_those_of_a_part_whether_it_is_composed_or_not():
    rule = NO_STEPS.with_rule("nfkc")
    both = rule.after((Nfc(), PUNCTUATION))
    assert both.source == (Nfc(), PUNCTUATION, SentencePieceRule(rule="nfkc"))
    assert both.after((Nfc(),)) == both
    assert both.include(rule)
    assert both.include(rule.composed(source=True, target=True))
    assert not rule.include(both)
    assert not both.include(TextSteps((SentencePieceRule(rule="nfkc"), PUNCTUATION)))
