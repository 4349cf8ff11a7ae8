"""Alignments of words, whatever the pieces are."""

import itertools
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.translation.word_alignment import pharaoh, word_of_each


@pytest.mark.parametrize(
    ("pieces", "text", "words"),
    [
        (["▁the", "▁c", "at"], "the cat", [0, 1, 1]),
        (["▁", "the", "▁", "cat"], " the  cat ", [0, 0, 1, 1]),
        (["the", "▁", "▁cat", "▁"], "the \t cat", [0, 1, 1, 1]),
        (["▁the▁cat", "▁sat"], "the cat sat", [0, 2]),
        ([], "", []),
        (["▁"], " ", [None]),
        # A normaliser made two words of one, or one of two; what joined two parts put no space between them.
        (["▁a", "▁\u0301", "b", "▁c"], "a\u00b4b c", [0, 0, 0, 1]),
        (["▁ten", "▁", "000", "▁men"], "ten\u00a0000 men", [0, 0, 0, 1]),
        (["▁ab", "▁c"], "a\u200b \u200bb c", [0, 2]),
        (["▁我", "们", "▁好"], "我们好", [0, 0, 0]),
    ],
)
def test_each_piece_belongs_to_a_word_of_the_text(pieces, text, words):
    assert word_of_each(pieces, text) == words


def test_pairs_are_in_order_and_come_once():
    source, target = ["▁the", "▁c", "at", "▁sat"], ["▁die", "▁Kat", "ze", "▁sa", "ß"]
    assert pharaoh("the cat sat", source, "die Katze saß", target, [0, 2, 1, 3, None]) == "0-0 1-1 2-2"
    assert pharaoh("the cat", source[:3], "Katze die", ["▁Kat", "ze", "▁die"], [1, 0, 0]) == "0-0 0-1 1-0"
    assert pharaoh("", [], "", [], []) == ""


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁ \t\n"), min_size=1)), st.data())
def test_pieces_of_any_words_find_their_words(words, data):
    pieces, expected = [], []
    for index, word in enumerate(words):
        cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(word) - 1)), max_size=3)) | {0, len(word)})
        parts = [word[begin:end] for begin, end in itertools.pairwise(cuts)]
        pieces += [("▁" if position == 0 else "") + part for position, part in enumerate(parts)]
        expected += [index] * len(parts)
    assert word_of_each(pieces, " ".join(words)) == expected


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))), st.text(st.characters(exclude_categories=["Cs"])))
def test_whatever_the_text_each_piece_has_a_word_that_is_there(pieces, text):
    count = len(text.replace("\t", " ").split(" ")) - text.replace("\t", " ").split(" ").count("")
    words = word_of_each(pieces, text)
    assert len(words) == len(pieces)
    assert all(word is None if count == 0 else 0 <= word < count for word in words)


def test_long_lines_are_aligned_in_time_that_grows_with_their_length():
    draw = random.Random(1)
    words = ["".join(draw.choices("aeinrst", k=draw.randint(1, 9))) for _ in range(4_000)]
    pieces = ["▁" + word for word in words]
    # At every hundredth place a word is split, and at another one two are joined by a space of another kind.
    text, expected = "", []
    number = 0
    for index, word in enumerate(words):
        is_joined = index % 100 == 50
        text += ("" if index == 0 else "\u00a0" if is_joined else " ") + word
        number += index > 0 and not is_joined
        expected.append(number)
        if index % 100 == 0:
            text += " \u200b \u200b"
            number += 2
    begin = time.process_time()
    found = word_of_each(pieces, text)
    assert time.process_time() - begin < 20  # the whole line at once takes a minute
    assert sum(one == other for one, other in zip(found, expected, strict=True)) > 0.99 * len(words)
