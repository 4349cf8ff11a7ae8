"""The vocabulary: what goes in comes out, and its ids are ours."""

import io
import itertools
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import SentencePieceTrainer

from nmt.data.vocab import Vocabulary, default_size, sample, train_vocabulary
from nmt.errors import VocabularyError
from nmt.machine.cores import usable_cores

WORDS = ["Haus", "Baum", "Straße", "läuft", "schön", "the", "house", "tree", "<s>", "</s>", "<unk>", "<pad>"]
LINES = [" ".join(words) for words in itertools.permutations(WORDS, 3)]
TRAINED = train_vocabulary(LINES, size=80)
FOLDED = train_vocabulary(LINES, size=80, normalization="nmt_nfkc").vocab
DEFAULT = train_vocabulary([*LINES, "tabs\there ½ <0x41>"] * 2, size=1_100).vocab


def test_special_ids_are_the_first_four():
    assert TRAINED.vocab.size == 80
    assert len(TRAINED.vocab.pieces(range(4))) == 4
    assert (Vocabulary.PAD, Vocabulary.UNK, Vocabulary.BOS, Vocabulary.EOS) == (0, 1, 2, 3)


@given(st.lists(st.sampled_from(WORDS), max_size=9))
def test_what_looks_like_a_mark_stays_text(words):
    line = " ".join(words)
    [ids] = TRAINED.vocab.encode([line])
    assert not {0, 1, 2, 3} & set(ids)
    assert TRAINED.vocab.decode([ids]) == [line]


def test_many_lines_are_encoded_as_each_alone():
    lines = arbitrary_lines(200)
    assert TRAINED.vocab.encode(lines) == [ids for line in lines for ids in TRAINED.vocab.encode([line])]
    assert TRAINED.vocab.encode([]) == []


def arbitrary_lines(count: int) -> list[str]:
    """Lines of arbitrary Unicode, the same every time: every kind of character, and what SentencePiece reserves."""
    draw = random.Random(7)
    planes = [(0x20, 0x7F), (0, 0xD800), (0x300, 0x370), (0x3000, 0xA000), (0xE000, 0x10000), (0x1F000, 0x20000),
              (0x10000, 0x110000)]  # fmt: skip
    texts = [
        "\u2581", "<s>", "</s>", "<unk>", "<pad>", "<0x41>", "\0", "👩\u200d🚀", "🇩🇪", "1️⃣",
        "e\u0301\u0323", "Ａ，。", "\u2585", "\u2047", " ", "  ", "\t", "\r", "\u2028", "\u0085",
        "\xa0", "\u3000", "\ufeff", "\U0010fffd", "\U0010fffc", "\ufffd", "Haus", "½",
    ]  # fmt: skip

    def part() -> str:
        if draw.random() < 0.4:
            return draw.choice(texts)
        return "".join(chr(draw.randrange(*draw.choice(planes))) for _ in range(draw.randrange(1, 5)))

    return ["".join(part() for _ in range(draw.randrange(1, 7))).replace("\n", "") for _ in range(count)]


def test_arbitrary_unicode_comes_back_but_for_the_spaces_that_are_documented():
    lines = arbitrary_lines(10_000)
    encoded = DEFAULT.encode(lines)
    assert all(min(ids, default=4) > Vocabulary.EOS for ids in encoded)
    # NUL and U+2581 become U+0020. Of this alone, runs become one, and those at either end are dropped.
    expected = [re.sub("[ \0\u2581]+", " ", line).strip(" ") for line in lines]
    assert DEFAULT.decode(encoded) == expected


def test_a_line_stays_one_line_and_bytes_that_are_no_text_are_replaced():
    ids = DEFAULT.ids(["▁Haus", "<0x0A>", "<0xF0>", "<0x9F>", "▁Haus"])
    assert DEFAULT.decode([ids]) == ["Haus \ufffd\ufffd Haus"]


def test_reserved_characters_become_spaces():
    for vocab in (TRAINED.vocab, DEFAULT):
        [ids] = vocab.encode(["Haus\0Baum\u2581Haus"])
        assert vocab.decode([ids]) == ["Haus Baum Haus"]
        assert vocab.encode_rows(["Haus\0Baum\u2581Haus"]).values.tolist() == ids


def test_reserved_characters_of_the_training_text_do_not_cost_a_line():
    lines = [*LINES, "qq\u2585qq\0qq\u2581qq\tqq"]
    vocab = train_vocabulary(lines, size=80).vocab
    [ids] = vocab.encode(["qq\tqq"])
    assert vocab.decode([ids]) == ["qq\tqq"]


@pytest.mark.parametrize(("character", "length", "skipped"), [("q", 4_192, 0), ("q", 4_193, 1), ("я", 2_097, 1)])
def test_lines_of_more_bytes_than_the_trainer_takes_are_skipped_and_counted(character, length, skipped):
    trained = train_vocabulary([*LINES, character * length], size=80)
    assert (trained.skipped_lines, trained.lines) == (skipped, len(LINES) + 1 - skipped)
    assert (trained.vocab.ids([character]) == [Vocabulary.UNK]) == bool(skipped)


@pytest.mark.parametrize("coverage", [0.97, 1.01])
def test_a_coverage_that_the_trainer_does_not_take_is_refused(coverage):
    with pytest.raises(VocabularyError, match=f"the character coverage must be from 0.98 to 1, got {coverage}"):
        train_vocabulary(LINES, size=80, character_coverage=coverage)
    assert train_vocabulary(LINES, size=80, character_coverage=0.98).vocab.size > 4


def test_byte_fallback_needs_room():
    assert not TRAINED.vocab.byte_ids
    assert TRAINED.too_small_for_bytes
    assert len(DEFAULT.byte_ids) == 256
    assert len(train_vocabulary(LINES, size=300, byte_fallback=True).vocab.byte_ids) == 256
    without = train_vocabulary(LINES, size=1_100, byte_fallback=False)
    assert not without.vocab.byte_ids
    assert not without.too_small_for_bytes
    with pytest.raises(VocabularyError, match="256 bytes"):
        train_vocabulary(LINES, size=270, byte_fallback=True)


def test_rare_characters_are_spelt_in_bytes():
    vocab = train_vocabulary([*LINES, "½"], size=300, byte_fallback=True, character_coverage=0.99).vocab
    assert vocab.ids(["½"]) == [Vocabulary.UNK]
    assert vocab.decode(vocab.encode(["½ Haus"])) == ["½ Haus"]


def test_bytes_survive_subword_sampling():
    lines = arbitrary_lines(200)
    sampled = DEFAULT.encode_sampled(lines, dropout=0.3, seed=1)
    assert sampled != DEFAULT.encode(lines)
    assert DEFAULT.decode(sampled) == DEFAULT.decode(DEFAULT.encode(lines))


def test_the_same_text_trains_the_same_vocabulary():
    again = train_vocabulary(LINES, size=80).vocab
    assert again.model_bytes == TRAINED.vocab.model_bytes
    assert FOLDED.decode(FOLDED.encode(["Ｈaus"])) == ["Haus"]


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_a_size_that_the_text_cannot_fill_is_lowered(model_type):
    trained = train_vocabulary(LINES, size=5_000, model_type=model_type)
    assert trained.asked_size == 5_000
    assert trained.vocab.size < 500
    assert len(trained.vocab.byte_ids) == 256  # the size that was asked for decides
    assert trained.vocab.decode(trained.vocab.encode(LINES[:3])) == LINES[:3]


@pytest.mark.parametrize(("byte_fallback", "size"), [(False, 9), (True, 265)])
def test_a_size_that_cannot_hold_the_characters_says_what_to_do(byte_fallback, size):
    lines = ["ba do"] * 2_000 + ["漢字"]
    with pytest.raises(VocabularyError, match=r"--size, of at least \d+, or .* --character-coverage 0\.9995"):
        train_vocabulary(lines, size=size, byte_fallback=byte_fallback)
    assert train_vocabulary(lines, size=size, byte_fallback=byte_fallback, character_coverage=0.9995).vocab.size == size


@pytest.mark.parametrize(("byte_fallback", "size"), [(False, 8), (True, 100)])
def test_coverage_is_not_advised_where_it_does_not_help(byte_fallback, size):
    lines = ["ba do"] * 2_000 + ["漢字"]
    for coverage in (1.0, 0.9995):
        with pytest.raises(VocabularyError, match=r"Ask for a larger --size, of at least \d+\.$"):
            train_vocabulary(lines, size=size, byte_fallback=byte_fallback, character_coverage=coverage)


def test_the_smallest_size_is_named():
    for size in (1, 3):  # too small even for the special pieces
        with pytest.raises(VocabularyError, match=r"cannot hold every character of the text.*larger --size"):
            train_vocabulary(LINES, size=size)
    with pytest.raises(VocabularyError, match=r"larger --size, of at least (\d+)") as error:
        train_vocabulary(LINES, size=5)
    needed = int(re.search(r"at least (\d+)", str(error.value))[1])
    with pytest.raises(VocabularyError):
        train_vocabulary(LINES, size=needed - 1)
    assert train_vocabulary(LINES, size=needed).vocab.size == needed


def test_no_text_is_an_error():
    with pytest.raises(VocabularyError, match="no text"):
        train_vocabulary(["", "  "], size=50)


def test_a_foreign_model_is_refused():
    out = io.BytesIO()
    SentencePieceTrainer.train(sentence_iterator=iter(LINES), model_writer=out, vocab_size=30, minloglevel=2)
    with pytest.raises(VocabularyError, match="--pad_id=0"):
        Vocabulary(out.getvalue())
    with pytest.raises(VocabularyError, match="not a SentencePiece model"):
        Vocabulary(b"nonsense")


def test_a_sample_is_spread_over_the_text():
    assert list(sample(iter(map(str, range(100))), 100, 10)) == [str(i) for i in range(0, 100, 10)]
    assert list(sample(iter(map(str, range(5))), 5, 10)) == list("01234")


def test_larger_corpora_get_larger_vocabularies():
    sizes = [default_size(pairs) for pairs in (100, 29_000, 160_000, 500_000, 4_500_000)]
    assert sizes == sorted(sizes)
    assert default_size(4_500_000) == 37_000
    assert (default_size(4_999), default_size(5_000)) == (2_000, 4_000)


def test_encoding_and_decoding_keep_to_the_threads_that_they_are_given(monkeypatch):
    asked = []

    class Processor:
        def encode(self, lines, num_threads):
            asked.append(num_threads)
            return [[5]] * len(lines)

        def decode(self, rows, num_threads):
            asked.append(num_threads)
            return [""] * len(rows)

    vocab = Vocabulary(DEFAULT.model_bytes)
    vocab.encode(["a"])  # what is computed once asks the true processor
    monkeypatch.setattr(vocab, "_processor", Processor())
    lines = ["a"] * 100
    vocab.encode(lines)
    vocab.threads = 3
    vocab.encode(lines)
    vocab.encode(lines, threads=1)
    vocab.decode([[5]])
    assert asked == [usable_cores(), 3, 1, 3]


def test_pieces_that_are_no_text_are_refused():
    content = train_vocabulary(["ä ö ü ß", "ö ä ß ü"] * 5, size=270).vocab.model_bytes
    damaged = content.replace("ß".encode(), b"\xc3\xc3")
    assert damaged != content
    with pytest.raises(VocabularyError, match="is not a SentencePiece model"):
        Vocabulary(damaged)
