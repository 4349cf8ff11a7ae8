"""Encoding by several threads: the same bytes and counts as line by line, whatever the threads and the chunks."""

import threading
from itertools import chain, count, islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data import shard_writing
from nmt.data.arrays import Rows
from nmt.data.encoding import count_words, map_ahead
from nmt.data.shard_index import SIDES
from nmt.data.vocab import train_vocabulary
from nmt.errors import DataError
from nmt.text.lines import sentence_length
from nmt.text.sentences import sentences
from tests.data.one_data_set import write_shards

# Reserved characters, white space of all kinds, lines without pieces.
SOURCE = ["one two. Three.", "", "a\u2581b\0c", "\u3000two\xa0 three ", "tab\there", "one " * 30, "é ½ é", " "] * 5
TARGET = ["eins zwei", "drei", "x\u2581", "zwei drei", "", "eins", "ü", "eins zwei drei vier fünf"] * 5
WITH_BYTES = train_vocabulary(SOURCE + TARGET, size=310, byte_fallback=True).vocab
WITHOUT_BYTES = train_vocabulary([line for line in SOURCE + TARGET if "é" not in line], size=40).vocab
LIMIT = 12
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"))


@pytest.mark.parametrize("vocab", [WITH_BYTES, WITHOUT_BYTES])
@pytest.mark.parametrize(("threads", "chunk"), [(1, 1), (1, 7), (3, 3), (2, 1_000)])
def test_shards_hold_what_encoding_line_by_line_gives(write_data_set, tmp_path, monkeypatch, vocab, threads, chunk):
    monkeypatch.setattr(shard_writing, "_CHUNK_PAIRS", chunk)
    monkeypatch.setattr(shard_writing, "SENTENCES_COUNTED", 14)  # in every third pair
    data = write_data_set(tmp_path / "data", SOURCE, TARGET)
    train = write_shards(data, vocab, max_pieces=LIMIT, threads=threads).splits["train"]

    encoded = [[vocab.encode([line])[0] for line in pair] for pair in zip(SOURCE, TARGET, strict=True)]
    kept = [number for number, pair in enumerate(encoded) if all(0 < len(ids) <= LIMIT for ids in pair)]
    assert (train.pairs, train.too_long) == (len(kept), sum(max(map(len, pair)) > LIMIT for pair in encoded))
    assert train.pairs + train.too_long + train.empty == len(SOURCE)
    assert min(train.pairs, train.too_long, train.empty) > 0
    for place, (side, language, lines) in enumerate(zip(SIDES, ("en", "de"), (SOURCE, TARGET), strict=True)):
        rows = [encoded[number][place] for number in kept]
        ids = [index for pair in encoded for index in pair[place]]
        assert (data / f"shards/train.{side}.tokens").read_bytes() == np.array(
            list(chain.from_iterable(rows)), np.uint16
        ).tobytes()
        ends = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        assert (data / f"shards/train.{side}.offsets").read_bytes() == ends.tobytes()
        counts = train.sides[side]
        assert counts.words == sum(len(line.split()) for line in lines)
        assert (counts.pieces, counts.longest) == (len(ids), max(len(pair[place]) for pair in encoded))
        assert (counts.unknown, counts.byte_pieces) == (ids.count(1), sum(index in vocab.byte_ids for index in ids))
        found = [len(sentences(lines[number], language)) for number in kept if number % 3 == 0]
        assert counts.sentences == [found.count(number) for number in range(1, max(found) + 1)]


@pytest.mark.parametrize("languages", [("de", "zh"), ("zh", "de")])
def test_words_and_sentences_of_each_side_are_those_of_its_own_language(write_data_set, tmp_path, languages):
    """Chinese counts characters as words; German does not end a sentence after the number of a day."""
    lines = ["Am 3. Mai. Ja."] * 3
    data = write_data_set(tmp_path / "data", lines, lines, languages=languages)
    sides = write_shards(data, train_vocabulary(lines, size=20).vocab).splits["train"].sides
    expected = {"de": (4, [0, 3]), "zh": (11, [0, 0, 3])}
    for side, language in zip(SIDES, languages, strict=True):
        assert (sides[side].words // 3, sides[side].sentences) == expected[language]


@given(st.lists(TEXT, max_size=6))
def test_rows_hold_the_ids_of_lists(lines):
    for vocab in (WITH_BYTES, WITHOUT_BYTES):
        rows, expected = vocab.encode_rows([*lines, *SOURCE[:5]]), vocab.encode([*lines, *SOURCE[:5]], threads=1)
        assert rows.lengths.tolist() == [len(ids) for ids in expected]
        assert rows.values.tolist() == list(chain.from_iterable(expected))
        assert rows.values.dtype == np.int32


@given(st.lists(TEXT | st.text("a \t\v\f\r\x1c\x1f\x85\xa0\u1361\u1680\u2003\u2028\u202f\u205f\u3000字"), max_size=6))
def test_words_are_counted_as_line_by_line(lines):
    for language in ("de", "zh"):
        assert count_words(lines, language) == sum(sentence_length(line, language) for line in lines)


def test_every_white_space_character_separates_words():
    characters = [chr(code) for code in range(0x110000) if chr(code).isspace() and chr(code) != "\n"]
    assert count_words([f"a{character}b" for character in characters], "en") == 2 * len(characters)


def test_some_rows_are_chosen():
    rows = Rows.of([[1, 2], [], [3], [4, 5, 6]])
    chosen = rows.chosen(np.array([True, True, False, True]))
    assert (chosen.values.tolist(), chosen.lengths.tolist()) == ([1, 2, 4, 5, 6], [2, 0, 3])
    assert Rows.of([]).lengths.tolist() == Rows.of([]).values.tolist() == []


@pytest.mark.parametrize("threads", [1, 3])
def test_results_keep_their_order_and_little_is_read_ahead(threads):
    read = []

    def items():
        for number in count():
            read.append(number)
            yield number

    first_may_end = threading.Event()

    def square(number):
        # With several threads, the first result is ready after the second.
        assert number > 0 or threads == 1 or first_may_end.wait(60)
        if number == 1:
            first_may_end.set()
        return number * number

    assert list(islice(map_ahead(square, items(), threads), 5)) == [0, 1, 4, 9, 16]
    assert len(read) <= 5 + threads


def test_errors_of_the_reader_and_of_a_thread_come_through():
    def fail(number):
        raise DataError(f"at {number}")

    def items():
        yield 1
        raise DataError("cannot be read")

    with pytest.raises(DataError, match="cannot be read"):
        list(map_ahead(abs, items(), 2))
    with pytest.raises(DataError, match="at 1"):
        list(map_ahead(fail, [1, 2, 3, 4], 2))
