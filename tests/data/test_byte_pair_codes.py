"""Words are split by merges, and text becomes pieces and text again."""

import random

import pytest

from nmt.data.byte_pair_codes import BytePairCodes, joined
from nmt.data.imported_vocab import ImportedVocabulary
from nmt.data.vocab import SPECIAL_PIECES, train_vocabulary
from nmt.errors import VocabularyError
from nmt.text.steps import Affix, MosesTokenize

MERGES = [
    ("l", "o"), ("lo", "w"), ("e", "r</w>"), ("low", "er</w>"), ("n", "e"), ("ne", "w</w>"), ("w", "e"), ("lo", "lo"),
]  # fmt: skip
CODES = "".join(f"{left} {right} {count}\n" for count, (left, right) in enumerate(MERGES))


def merged_in_order(word: str) -> list[str]:
    """The symbols of a word after each merge, in order, was made wherever it can be."""
    text = "".join(f" {letter} " for letter in word)[:-1] + "</w> "
    for left, right in MERGES:
        while f" {left}  {right} " in text:
            text = text.replace(f" {left}  {right} ", f" {left}{right} ", 1)
    return text.split()


def test_words_are_split_by_the_merges_in_their_order():
    draw, codes = random.Random(1), BytePairCodes(CODES)
    for _ in range(500):
        word = "".join(draw.choices("lowern", k=draw.randint(1, 9)))
        pieces = codes.split(word)
        assert [piece.removesuffix("@@") for piece in pieces] == [
            symbol.removesuffix("</w>") for symbol in merged_in_order(word)
        ]
        assert joined(" ".join(pieces)) == word


APART = "e r\ner </w>\nl o\n"
"""Merges of subword-nmt 0.1, where the end of a word is a symbol."""


# The expected pieces are those of subword-nmt 0.3.8, and of fastBPE where the codes have counts.
@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        (f"#version: 0.1\n{APART}", "lower", "lo@@ w@@ er"),
        (APART, "lower", "lo@@ w@@ er"),  # its files name no version
        (APART, "lo", "lo"),
        ("#version: 0.2\ne r</w>\r\nl o \r\n", "lower", "lo@@ w@@ er"),
        ("e r</w>\nl o\n", "lower", "lo@@ w@@ e@@ r"),
        ("e r</w> 7\nl o 3\n", "lower", "lo@@ w@@ er"),
        ("#version: 0.2\n\u2028 b\n\u0085 c</w>\n", "\u2028b\u0085c", "\u2028b@@ \u0085c"),  # ends of lines elsewhere
        ("#version: 0.2\n@ @</w>\n", "@@", "@@"),
    ],
)
def test_codes_are_read_as_by_the_program_that_wrote_them(text, word, expected):
    assert " ".join(BytePairCodes(text).split(word)) == expected


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ({"lower"}, "lower"),
        ({"low@@", "er"}, "low@@ er"),
        ({"low", "er@@"}, "l@@ o@@ w@@ e@@ r"),  # a piece within a word is another than one at its end
        ({"lo@@", "er"}, "lo@@ w@@ er"),
        (set(), "l@@ o@@ w@@ e@@ r"),
    ],
)
def test_merges_that_give_no_listed_piece_are_undone(listed, expected):
    assert " ".join(BytePairCodes(CODES, pieces=listed).split("lower")) == expected


def test_the_end_of_a_word_is_no_piece_where_its_merge_is_undone():
    assert BytePairCodes(APART, pieces={"er@@"}).split("er") == ("er@@",)


@pytest.mark.parametrize("text", ["", "#version: 0.2\n", "a b\nonlyone\n", "a b 3\nonlyone\n"])
def test_what_is_no_list_of_codes_is_refused(text):
    with pytest.raises(VocabularyError, match=r"line 2: expected two symbols, got 'onlyone'|holds no codes"):
        BytePairCodes(text)


def vocabulary(*pieces: str) -> ImportedVocabulary:
    model = train_vocabulary(["low er new"], size=20).vocab.model_bytes
    listed = [*SPECIAL_PIECES, *(f"▁{piece}" for piece in pieces), ">>de<<"]
    return ImportedVocabulary(model, listed, is_segmented=True, codes=CODES, silent=[">>de<<"])


def test_tokens_are_split_and_put_together_again():
    steps = (MosesTokenize(language="en"), Affix(chosen_by="target", pieces={"de": ">>de<<"}))
    vocab = vocabulary("lower", "new", "n@@", "er", ",", "lo@@", "e").prepared(steps, {"target": "de"})
    [ids] = vocab.encode(["lower, ner new loe"])
    assert vocab.pieces(ids) == [">>de<<", "▁lower", "▁,", "▁n@@", "▁er", "▁new", "▁lo@@", "▁e"]
    assert vocab.decode([ids]) == ["lower, ner new loe"]
    assert vocab.encode_rows(["lower, ner new loe"]).values.tolist() == ids
    again = ImportedVocabulary.read(vocab.model_bytes, vocab.pieces_json, name="again")
    assert again.prepared(steps, {"target": "de"}).encode(["lower"]) == [[ids[0], ids[1]]]
    [other] = again.prepared(steps, {"target": "fr"}).encode(["lower >>de<<"])
    assert other[0] == ids[1]
    assert ids[0] not in other  # no text is the code of a language


def test_an_affix_that_the_vocabulary_lacks_is_refused():
    with pytest.raises(VocabularyError, match="no piece '>>xx<<'"):
        vocabulary("a").prepared((Affix(chosen_by="target", pieces={"x": ">>xx<<"}),), {"target": "x"})
