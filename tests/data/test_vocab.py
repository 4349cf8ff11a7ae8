"""The vocabulary: what goes in comes out, and its ids are ours."""

import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import SentencePieceTrainer

from nmt.data.vocab import Vocabulary, default_size, sample, train_vocabulary
from nmt.errors import VocabularyError

WORDS = ["Haus", "Baum", "Straße", "läuft", "schön", "the", "house", "tree", "<s>", "</s>", "<unk>", "<pad>"]
LINES = [" ".join(words) for words in itertools.permutations(WORDS, 3)]
TRAINED = train_vocabulary(LINES, size=80)
LOSSLESS = train_vocabulary(LINES, size=80, normalization="identity").vocab


def test_special_ids_are_the_first_four():
    assert TRAINED.vocab.size == 80
    assert len(TRAINED.vocab.pieces(range(4))) == 4
    assert (Vocabulary.PAD, Vocabulary.UNK, Vocabulary.BOS, Vocabulary.EOS) == (0, 1, 2, 3)


def test_lines_come_back():
    assert TRAINED.vocab.decode(TRAINED.vocab.encode(LINES)) == LINES


@given(st.lists(st.sampled_from(WORDS), max_size=9))
def test_what_looks_like_a_mark_stays_text(words):
    line = " ".join(words)
    [ids] = LOSSLESS.encode([line])
    assert not {0, 1, 2, 3} & set(ids)
    assert LOSSLESS.decode([ids]) == [line]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5))
def test_any_text_can_be_encoded(lines):
    encoded = TRAINED.vocab.encode(lines)
    assert len(encoded) == len(lines)
    assert len(TRAINED.vocab.decode(encoded)) == len(lines)


def test_a_nul_does_not_end_the_line():
    [ids] = TRAINED.vocab.encode(["Haus\0Baum"])
    assert TRAINED.vocab.decode([ids]) == ["Haus Baum"]


def test_the_same_text_trains_the_same_vocabulary():
    again = train_vocabulary(LINES, size=80).vocab
    assert again.fingerprint == TRAINED.vocab.fingerprint != LOSSLESS.fingerprint


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_a_size_that_the_text_cannot_fill_is_lowered(model_type):
    trained = train_vocabulary(LINES, size=5_000, model_type=model_type)
    assert trained.asked_size == 5_000
    assert trained.vocab.size < 500
    assert trained.vocab.decode(trained.vocab.encode(LINES[:3])) == LINES[:3]


def test_a_size_that_cannot_hold_the_characters_says_what_to_do():
    with pytest.raises(VocabularyError, match="--character-coverage"):
        train_vocabulary(LINES, size=10)


def test_no_text_is_an_error():
    with pytest.raises(VocabularyError, match="no text"):
        train_vocabulary(["", "  "], size=50)


def test_lines_that_the_trainer_would_skip_are_counted():
    trained = train_vocabulary([*LINES, "lang " * 2000], size=80)
    assert trained.skipped_lines == 1
    assert trained.lines == len(LINES)


def test_a_saved_vocabulary_loads_and_lists_its_pieces(tmp_path):
    TRAINED.vocab.save(tmp_path / "vocab.model")
    loaded = Vocabulary.load(tmp_path / "vocab.model")
    assert loaded.fingerprint == TRAINED.vocab.fingerprint
    assert len((tmp_path / "vocab.txt").read_text("utf-8").split("\n")) - 1 == 80


def test_a_foreign_model_is_refused(tmp_path):
    out = io.BytesIO()
    SentencePieceTrainer.train(sentence_iterator=iter(LINES), model_writer=out, vocab_size=30, minloglevel=2)
    with pytest.raises(VocabularyError, match="--pad_id=0"):
        Vocabulary(out.getvalue())
    with pytest.raises(VocabularyError, match="not a SentencePiece model"):
        Vocabulary(b"nonsense")
    with pytest.raises(VocabularyError, match="cannot be read"):
        Vocabulary.load(tmp_path / "none.model")


def test_a_sample_is_spread_over_the_text():
    assert list(sample(iter(map(str, range(100))), 100, 10)) == [str(i) for i in range(0, 100, 10)]
    assert list(sample(iter(map(str, range(5))), 5, 10)) == list("01234")


def test_larger_corpora_get_larger_vocabularies():
    sizes = [default_size(pairs) for pairs in (100, 29_000, 160_000, 500_000, 4_500_000)]
    assert sizes == sorted(sizes)
    assert default_size(4_500_000) == 37_000
