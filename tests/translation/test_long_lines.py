"""Long lines in parts: nothing lost, nothing twice, and cut where a person would."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.vocab import train_vocabulary
from nmt.translation.long_lines import split

VOCAB = train_vocabulary(["the cat sat.", "die Katze, sie saß!", "猫。犬。", "क ख।"] * 3, size=60).vocab
# As text has them: much white space and punctuation of several scripts, marks and joiners between the letters.
TEXT = st.text(
    st.one_of(
        st.sampled_from(" \t\u3000\u2028.!?…,;:。！、，।\"')」-—\u0301\u200d"),
        st.sampled_from("abcßÄéक猫か한ﷺ🙂🏽"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=120,
)


def characters(texts) -> list[int]:
    return [len(text) for text in texts]


def words(texts) -> list[int]:
    return [len(text.split()) for text in texts]


def pieces(texts) -> list[int]:
    return [len(ids) for ids in VOCAB.encode(list(texts))]


def assert_whole(line: str, parts: list[str]) -> None:
    """The parts follow each other in the line, with nothing but white space before, between and behind them."""
    place = 0
    for part in parts:
        begin = line.index(part, place)
        assert not line[place:begin].strip()
        place = begin + len(part)
    assert not line[place:].strip()


@given(TEXT, st.integers(1, 40), st.sampled_from([characters, words]))
def test_parts_are_the_line_and_within_the_limit(line, limit, measure):
    parts = split(line, limit, measure)
    assert_whole(line, parts)
    assert all(length <= limit for length in measure(parts))


@given(TEXT, st.integers(1, 40))
def test_in_pieces_only_a_character_that_is_longer_alone_goes_beyond_the_limit(line, limit):
    parts = split(line, limit, pieces)
    assert_whole(line, parts)
    assert all(length <= limit or len(part) == 1 for part, length in zip(parts, pieces(parts), strict=True))


@given(TEXT)
def test_a_line_within_the_limit_is_left_as_it_is(line):
    assert split(line, max(1, len(line)), characters) == [line]


@pytest.mark.parametrize(
    ("line", "limit", "parts"),
    [
        # At sentence ends first, though there are other marks, but for those of very short sentences.
        ("One, two. Three, four! Five?", 13, ["One, two.", "Three, four!", "Five?"]),
        ("Dr. Who went. He said so to me. Bye.", 33, ["Dr. Who went.", "He said so to me.", "Bye."]),
        # No end of a sentence: a number, an abbreviation that goes on in lower case, a name.
        ("Pi is 3.14159 or so. Cf. page two. More.", 21, ["Pi is 3.14159 or so.", "Cf. page two.", "More."]),
        ('He said: "No." She left.', 15, ['He said: "No."', "She left."]),
        # Then at punctuation, then between words, then anywhere.
        ("one two, three four; five", 13, ["one two,", "three four;", "five"]),
        ("one two three four five", 12, ["one two", "three four", "five"]),
        ("abcdefghij", 4, ["abc", "def", "ghij"]),
        # Scripts without white space, and with marks of their own.
        ("今日は晴れ。明日は雨！本当？", 7, ["今日は晴れ。", "明日は雨！", "本当？"]),
        ("「はい。」と言った。終わり。", 10, ["「はい。」", "と言った。", "終わり。"]),
        ("一二三，四五六、七八九", 4, ["一二三，", "四五六、", "七八九"]),
        ("राम घर गया। सीता आई। अंत॥", 12, ["राम घर गया।", "सीता आई।", "अंत॥"]),
        ("أين هو؟ هنا. نعم.", 8, ["أين هو؟", "هنا.", "نعم."]),
    ],
)
def test_cuts_where_a_person_would(line, limit, parts):
    assert split(line, limit, characters) == parts


def test_a_letter_keeps_its_marks_and_an_emoji_its_parts():
    family, accented = "👩‍👩‍👧", "e\u0301"
    for line in (family * 8, accented * 20):
        for part in split(line, 7, characters):
            assert not unicodedata.category(part[0]).startswith("M")
            assert part[0] != "\u200d"
            assert part[-1] != "\u200d"


def test_a_very_long_line_takes_few_measurements():
    measured = 0

    def measure(texts):
        nonlocal measured
        measured += sum(map(len, texts))
        return characters(texts)

    for line in ("ab " * 100_000, "a" * 300_000, "A b. " * 60_000, "猫、" * 150_000):
        measured = 0
        parts = split(line, 256, measure)
        assert len(parts) <= 8 * len(line) / 256 + 1
        assert measured <= 10 * len(line)
