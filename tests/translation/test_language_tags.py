"""Tags by which a multilingual model is told its target language (``>>deu<<``)."""

import pytest

from nmt.data.imported_vocab import ImportedVocabulary
from nmt.data.vocab import train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.translation.results import TranslatedText, Translation
from nmt.translation.sentence_splitting import LineSplitter
from nmt.translation.tally import Tally
from nmt.translation.unknown_characters import UnknownCharacters

TAGS = (">>deu<<", ">>fra<<")


def split_tag(line):
    return (line[:7], line[7:]) if line.startswith(TAGS) else ("", line)


def splitter(mode="always", limit=100):
    return LineSplitter(mode, "en", None, limit, lambda texts: [len(text.split()) for text in texts], split_tag)


def test_every_sentence_of_a_line_gets_its_tag():
    line = ">>deu<< One sentence. Another one."
    for parts in (splitter().parts(line, 6), splitter().each_sentence(line)):
        assert [(part.before, part.text) for part in parts] == [
            ("", ">>deu<< One sentence."),
            (" ", ">>deu<< Another one."),
        ]


def test_a_line_that_is_too_long_gets_its_tag_in_every_part():
    parts = splitter("never", limit=4).parts(">>fra<< a b c d e f g", 8)
    assert len(parts) > 1
    assert all(part.text.startswith(">>fra<< ") and part.is_cut for part in parts)
    assert all(len(part.text.split()) <= 4 for part in parts)
    assert " ".join(part.text.removeprefix(">>fra<< ") for part in parts) == "a b c d e f g"


@pytest.mark.parametrize("line", [">>deu<< A b c d e f g. Another one.", ">>deu<< A b c d."])
def test_the_tag_of_a_part_counts_as_a_piece(line):
    for parts in (splitter(limit=4).parts(line, len(line.split())), splitter(limit=4).each_sentence(line)):
        assert all(len(part.text.split()) <= 4 for part in parts)
    assert [part.text for part in splitter(limit=1).each_sentence(">>deu<< A b.")] == [">>deu<< A", ">>deu<< b."]


def test_white_space_before_a_tag_changes_nothing():
    vocab = train_vocabulary(["ein hund und ein mann"] * 9, size=30, byte_fallback=False).vocab
    vocab = ImportedVocabulary(vocab.model_bytes, [*vocab.pieces(range(vocab.size)), *TAGS])
    for line in ("  >>deu<< ein hund", "\t>>deu<<ein hund"):
        assert vocab.encode([line]) == vocab.encode([">>deu<< ein hund"])
        assert tally(line) == []
    unknown = UnknownCharacters(VocabularyPair.shared(vocab), None, None)
    for line, text in ((" >>deu<< 123", "123"), (">>deu<<...", "..."), (">>deu<<", "")):
        [taken] = unknown.take_out([line])
        assert unknown.is_copied(line)
        assert (taken.source, taken.first, taken.tag) == ("", text, ">>deu<<")


@pytest.mark.parametrize("line", ["One sentence.", ">>deu<< One sentence."])
def test_a_line_that_stays_whole_is_unchanged(line):
    assert [part.text for part in splitter("never").parts(line, 3)] == [line]


def tally(*lines, tags=TAGS):
    found = Tally(language_tags=tags)
    for number, line in enumerate(lines, start=1):
        found.add(number, Translation(line, (TranslatedText("", (), 0.0, 0.0),)))
    return found.warnings(100, guard=True, prefixed=False)


def test_lines_without_a_tag_are_warned_of():
    [warning] = tally(">>deu<< a", "b", "", ">>xxx<< c")
    assert warning == (
        "lines without a language tag: 2. This model expects each line to begin with its target language: "
        ">>deu<<, >>fra<<"
    )


def test_nothing_is_warned_of_where_every_line_has_a_tag_or_the_model_needs_none():
    assert tally(">>deu<< a", ">>fra<< b", " ") == []
    assert tally("a", tags=()) == []


def test_of_many_tags_the_first_are_named():
    [warning] = tally("a", tags=tuple(f">>x{number}<<" for number in range(9)))
    assert warning.endswith(">>x0<<, >>x1<<, >>x2<<, >>x3<<, >>x4<<, …")
