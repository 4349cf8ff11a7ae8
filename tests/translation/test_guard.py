"""What the guard doubts, and above all what it does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.translation.guard import Languages, longest_loop, problems

EN_DE = Languages("en", "de")


def found(source: str, output: str, languages: Languages = EN_DE) -> tuple[str, ...]:
    """With words as pieces."""
    return problems(source, source.split(), output, output.split(), languages)


SOUND = "wir sahen gestern im alten Garten hinter dem Haus einen Fuchs und zwei kleine Katzen"
SENTENCE = "yesterday we saw a fox and two small cats in the old garden behind the house"


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        (SENTENCE, SOUND, ()),
        (SENTENCE, "", ("empty",)),
        (SENTENCE, "  ", ("empty",)),
        ("no", "nein", ()),
        # Loops: of a word, of a phrase; the fourth time is too much.
        (SENTENCE, "wir sahen " + "im Garten " * 3, ()),
        (SENTENCE, "wir sahen " + "im Garten " * 4, ("looping",)),
        (SENTENCE, "wir sahen" + " sehr" * 6, ("looping",)),
        (SENTENCE, "wir sahen einen " + "und den Hund und die Katze " * 4, ("looping",)),
        (SENTENCE, " ".join(map(str, range(30))) + " im" * 8, ("looping",)),  # after a good beginning
        # A loop that its source has too is no mistake, unless it is far longer.
        ("ha " * 8, "ha " * 10, ()),
        ("ha " * 4, "ha " * 10, ("looping",)),
        ("= " * 40, "== " * 20, ()),
        ("der Hund läuft " * 3, "the dog runs " * 4, ()),  # in a source, two or three times are a loop
        # Copies: of words that a translation would change, whatever the punctuation.
        (SENTENCE, SENTENCE, ("copied",)),
        (SENTENCE, SENTENCE.replace("fox", "Fuchs"), ("copied",)),
        (SENTENCE, SENTENCE + " " + SOUND, ()),
        ("taxi in berlin", "taxi in berlin", ()),
        ("Barack Obama Angela Merkel Emmanuel Macron Paris", "Barack Obama Angela Merkel Emmanuel Macron Paris", ()),
        ("1 2 3 4 5 6 7 8 9 10", "1 2 3 4 5 6 7 8 9 10", ()),
        # Lengths: short lines may become anything between a word and a long one.
        ("a b c d e f g h i j k l", "ja", ()),
        (SENTENCE, "ja", ("too_short",)),
        ("DIY", " ".join(map(str, range(17))), ()),
        ("DIY", " ".join(map(str, range(18))), ("too_long",)),
        (SENTENCE, " ".join(map(str, range(60))), ("too_long",)),
    ],
)
def test_finds_what_is_wrong_and_nothing_else(source, output, expected):
    assert found(source, output) == expected


WORDS = [f"{chr(97 + number)}x" for number in range(20)]


@pytest.mark.parametrize(("kept", "expected"), [(16, ("copied",)), (15, ())])
def test_a_copy_keeps_four_fifths_of_the_words(kept, expected):
    source, output = " ".join(WORDS), " ".join(WORDS[:kept] + [f"{word}y" for word in WORDS[kept:]])
    assert found(source, output) == expected


@pytest.mark.parametrize(("pieces", "expected"), [(8, ()), (7, ("too_short",))])
def test_a_short_output_has_two_pieces_less_than_a_quarter(pieces, expected):
    source = [str(number) for number in range(40)]
    assert problems(" ".join(source), source, "x", WORDS[:pieces], EN_DE) == expected


TWO = "A small dog sleeps in the garden. Behind the house two men drink their coffee."


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        (TWO, "Ein kleiner Hund schläft im Garten.", ("incomplete",)),
        (TWO, "Ein kleiner Hund schläft im Garten. Hinter dem Haus trinken zwei Männer ihren Kaffee.", ()),
        # Two sentences as one, all there; and all sentences there, in few words.
        (TWO, "Ein kleiner Hund schläft im Garten, während hinter dem Haus zwei Männer Kaffee trinken.", ()),
        (TWO, "Ein Hund schläft. Zwei Männer trinken.", ()),
        # Of one sentence nothing is said.
        (TWO.replace(". Behind", ", behind"), "Ein kleiner Hund schläft im Garten.", ()),
        (f"{TWO} {TWO}", "Hund. Kaffee.", ("incomplete", "too_short")),
    ],
)
def test_a_short_output_with_fewer_sentences_is_incomplete(source, output, expected):
    assert problems(source, source.split(), output, output.split(), EN_DE, short_ratio=0.65) == expected
    assert "incomplete" not in found(source, output)  # where the lengths in training are not known


@pytest.mark.parametrize(
    ("languages", "doubted"),
    [
        (Languages("en", "de"), True),
        (Languages("en-GB", "en_US"), False),  # many lines are the same in both
        (Languages("", ""), False),  # which are not known
    ],
)
def test_a_copy_is_doubtful_between_different_languages_alone(languages, doubted):
    assert ("copied" in found(SENTENCE, SENTENCE, languages)) == doubted


def test_a_copy_is_noticed_without_spaces_between_words():
    line = "昨日古い庭で狐と猫を見た"
    pair = Languages("ja", "en")
    assert problems(line, list(line), line, list(line), pair) == ("copied",)
    assert problems(line, list(line), SENTENCE, SENTENCE.split(), pair) == ()


def naive_longest_loop(pieces: list[str], repeats: int, least: int) -> int:
    best = 0
    for begin in range(len(pieces)):
        for end in range(begin + max(repeats, least), len(pieces) + 1):
            stretch = pieces[begin:end]
            for period in range(1, len(stretch) // repeats + 1):
                if stretch == (stretch[:period] * len(stretch))[: len(stretch)]:
                    best = max(best, sum(map(len, stretch)))
    return best


@given(st.lists(st.sampled_from(["a", "bb", "c"]), max_size=14), st.integers(2, 4), st.integers(1, 8))
def test_the_longest_loop_is_that_of_trying_every_stretch(pieces, repeats, least):
    assert longest_loop(pieces, repeats, least) == naive_longest_loop(pieces, repeats, least)


@given(st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f"]), max_size=40))
def test_the_quick_look_misses_no_loop(pieces):
    line = " ".join(pieces)
    loops = longest_loop(pieces, 4, 6) > 0
    assert ("looping" in found("x", line)) == (loops and bool(line))
