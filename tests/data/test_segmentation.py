"""Random segmentation: the text stays, the pieces have the probabilities of the papers, and a seed repeats them."""

import itertools
import math
from collections import Counter
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor

import nmt.data.segmentation
from nmt.data.imported_vocab import ImportedVocabulary
from nmt.data.segmentation import SegmentationSampler
from nmt.data.vocab import Vocabulary, train_vocabulary
from nmt.errors import VocabularyError

WORDS = ["banana", "ananas", "anna", "nab", "bananas", "sannas", "bassa", "abba"]
LINES = [" ".join(words) for words in itertools.permutations(WORDS, 3)]
# A unigram model keeps few pieces of few words: it needs words that are put together in many ways.
SYLLABLES = ["ba", "na", "sa", "ab", "nan", "bas"]
COMPOUNDS = ["".join(parts) for parts in itertools.permutations(SYLLABLES, 3)]
BPE = train_vocabulary(LINES, size=26).vocab
UNIGRAM = train_vocabulary([*LINES, *COMPOUNDS], size=30, model_type="unigram").vocab
BOTH = pytest.mark.parametrize("vocab", [BPE, UNIGRAM], ids=["bpe", "unigram"])

# Some of it has no pieces.
TEXT = st.lists(
    st.one_of(st.sampled_from([*WORDS, "banXana", "é", "▁", "日本"]), st.text("abnsxy ", max_size=12)), max_size=6
).map(" ".join)


def sampler(vocab: Vocabulary) -> SegmentationSampler:
    return SegmentationSampler(SentencePieceProcessor(model_proto=vocab.model_bytes))


@settings(deadline=None)
@given(st.lists(TEXT, max_size=5))
def test_without_dropout_the_merges_are_those_of_sentencepiece(lines):
    encoded = BPE.encode(lines)
    assert sampler(BPE).sample(encoded, 0.0, np.random.default_rng(0)) == encoded
    assert BPE.encode_sampled(lines, dropout=0, seed=0) == encoded


def test_with_all_dropped_there_are_characters():
    [ids] = BPE.encode_sampled(["banana abba"], dropout=1, seed=0)
    assert BPE.pieces(ids) == list("▁banana▁abba")


@BOTH
@settings(deadline=None)
@given(lines=st.lists(TEXT, max_size=5), dropout=st.floats(0.01, 1), seed=st.integers(0, 99))
def test_the_text_stays_whatever_the_pieces(vocab, lines, dropout, seed):
    encoded = vocab.encode(lines)
    sampled = vocab.encode_sampled(lines, dropout=dropout, seed=seed)
    assert vocab.decode(sampled) == vocab.decode(encoded)
    assert [ids.count(vocab.UNK) for ids in sampled] == [ids.count(vocab.UNK) for ids in encoded]


def test_a_long_word_is_segmented_in_parts(monkeypatch):
    monkeypatch.setattr(nmt.data.segmentation, "_LONGEST_WORD", 4)
    lines = ["nab", "bananas", "abba nab bassaannaba", "", "anna"]
    sampled = sampler(BPE).sample(BPE.encode(lines), 0.0, np.random.default_rng(0))
    assert BPE.decode(sampled) == lines
    assert sampled[0] == BPE.encode(["nab"])[0]
    words = "".join(piece.replace("▁", " ▁") + "|" for ids in sampled for piece in BPE.pieces(ids)).split()
    ends = [set(itertools.accumulate(map(len, word.strip("|").split("|")))) for word in words]
    assert [(4 in found, 8 in found, 12 in found, max(found)) for found in ends] == [
        (True, False, False, 4),  # ▁nab
        (True, True, False, 8),  # ▁bananas
        (True, False, False, 5),  # ▁abba
        (True, False, False, 4),  # ▁nab
        (True, True, True, 12),  # ▁bassaannaba
        (True, False, False, 5),  # ▁anna
    ]
    assert sum(map(len, sampled)) < 0.8 * len("".join(lines))


@BOTH
def test_the_work_for_a_long_word_is_linear_in_its_length(vocab):
    def numbers(length: int) -> int:
        """How many random numbers are drawn: BPE-dropout takes one for each pair at each step."""
        sizes = []

        def random(*shape, **options):
            drawn = draw(*shape, **options)
            sizes.append(drawn.size)
            return drawn

        draw = np.random.default_rng(0).random
        sampler(vocab).sample(vocab.encode(["anna" * (length // 4)]), 0.1, SimpleNamespace(random=random))
        return sum(sizes)

    assert 0 < numbers(16_000) < 9 * numbers(2_000)


def lacking(vocab: Vocabulary, missing: set[str]) -> Vocabulary:
    """The vocabulary of a translation model that lacks some pieces of the SentencePiece model."""
    return ImportedVocabulary(
        vocab.model_bytes, [piece for piece in vocab.pieces(range(vocab.size)) if piece not in missing]
    )


@BOTH
@pytest.mark.parametrize("dropout", [0.01, 0.5, 1])
def test_pieces_that_the_model_lacks_are_spelt_in_smaller_ones(vocab, dropout):
    [pieces] = map(vocab.pieces, vocab.encode(["banana ananas bananas"]))
    missing = {piece for piece in pieces if len(piece) > 1}
    made = lacking(vocab, missing)
    assert missing and made.UNK in made.encode(["banana ananas bananas"])[0]
    sampled = made.encode_sampled(["banana ananas bananas"] * 20, dropout=dropout, seed=3)
    assert set(made.decode(sampled)) == {"banana ananas bananas"}
    assert max(map(max, sampled)) < made.size


@BOTH
def test_characters_that_the_model_lacks_stay_unknown(vocab):
    made = lacking(vocab, {piece for piece in vocab.pieces(range(4, vocab.size)) if "n" in piece})
    assert made.size < vocab.size
    [sampled] = made.encode_sampled(["nab abba"], dropout=1, seed=3)
    assert made.UNK in sampled
    assert made.decode([sampled])[0].endswith("abba")


def drawn(vocab: Vocabulary, word: str, dropout: float, count: int = 40_000) -> dict[tuple[str, ...], float]:
    sampled = Counter(map(tuple, vocab.encode_sampled([word] * count, dropout=dropout, seed=5)))
    return {tuple(vocab.pieces(list(ids))): number / count for ids, number in sampled.items()}


def bpe_dropout_probabilities(word: str, dropout: float) -> dict[tuple[str, ...], float]:
    """Of every outcome of algorithm 1 of Provilkov et al. (2020), by following every branch."""
    processor = SentencePieceProcessor(model_proto=BPE.model_bytes)
    scores = {BPE.pieces([index])[0]: processor.get_score(index) for index in range(4, BPE.size)}

    @cache
    def outcomes(pieces: tuple[str, ...]) -> dict[tuple[str, ...], float]:
        merges = sorted(
            (-scores[left + right], place)
            for place, (left, right) in enumerate(itertools.pairwise(pieces))
            if left + right in scores
        )
        found = Counter({pieces: dropout ** len(merges)})
        for earlier, (_, place) in enumerate(merges):
            merged = (*pieces[:place], pieces[place] + pieces[place + 1], *pieces[place + 2 :])
            for outcome, probability in outcomes(merged).items():
                found[outcome] += dropout**earlier * (1 - dropout) * probability
        return found

    return outcomes(tuple("▁" + word))


def unigram_probabilities(word: str, alpha: float) -> dict[tuple[str, ...], float]:
    """Of every segmentation, by listing them all (Kudo 2018, section 3.2)."""
    processor = SentencePieceProcessor(model_proto=UNIGRAM.model_bytes)
    scores = {UNIGRAM.pieces([index])[0]: processor.get_score(index) for index in range(4, UNIGRAM.size)}

    def segmentations(text: str):
        if not text:
            yield ()
        for length in range(1, len(text) + 1):
            if text[:length] in scores:
                yield from ((text[:length], *rest) for rest in segmentations(text[length:]))

    weights = {pieces: math.exp(alpha * sum(map(scores.get, pieces))) for pieces in segmentations("▁" + word)}
    return {pieces: weight / sum(weights.values()) for pieces, weight in weights.items()}


@pytest.mark.parametrize("dropout", [0.1, 0.5])
@pytest.mark.parametrize("word", ["bananas", "annabassa"])
@pytest.mark.parametrize(
    ("vocab", "probabilities"),
    [(BPE, bpe_dropout_probabilities), (UNIGRAM, unigram_probabilities)],
    ids=["bpe", "unigram"],
)
def test_segmentations_have_the_probabilities_of_the_papers(vocab, probabilities, word, dropout):
    expected, found = probabilities(word, dropout), drawn(vocab, word, dropout)
    assert sum(expected.values()) == pytest.approx(1)
    assert len(expected) > 5
    assert set(found) <= set(expected)
    for pieces, probability in expected.items():
        deviation = math.sqrt(probability * (1 - probability) / 40_000)
        assert found.get(pieces, 0.0) == pytest.approx(probability, abs=5 * deviation + 1e-4), pieces


@BOTH
def test_words_are_drawn_apart_and_lines_stay_in_order(vocab, monkeypatch):
    lines = [*LINES[:50], "", *LINES[50:]]
    first, second = (vocab.encode_sampled(lines, dropout=0.3, seed=seed) for seed in (1, 2))
    assert first != second
    assert first == vocab.encode_sampled(lines, dropout=0.3, seed=1)
    assert len({tuple(ids) for ids in vocab.encode_sampled(["banana"] * 50, dropout=0.3, seed=1)}) > 2
    # However the words are cut into blocks.
    monkeypatch.setattr(nmt.data.segmentation, "_BLOCK_SYMBOLS", 7)
    assert vocab.decode(vocab.encode_sampled(lines, dropout=0.3, seed=1)) == vocab.decode(vocab.encode(lines))


def test_pieces_that_span_spaces_may_be_sampled_too():
    """As models have that were trained elsewhere: then nothing but the line bounds a merge."""
    spanning = SegmentationSampler(SpanningModel())
    assert spanning.sample([[4], [5, 5]], 0.0, np.random.default_rng(0)) == [[4], [4]]
    assert spanning.sample([[4]], 1.0, np.random.default_rng(0)) == [[6, 7, 6, 7]]


class SpanningModel:
    """A BPE model whose first piece is two words, and whose second is one."""

    PIECES = ("<pad>", "<unk>", "<s>", "</s>", "▁a▁a", "▁a", "▁", "a")

    def get_piece_size(self):
        return len(self.PIECES)

    def id_to_piece(self, ids):
        return [self.PIECES[index] for index in ids]

    def get_score(self, index):
        return {4: -1.0, 5: 0.0}.get(index, float(-index))

    def is_unknown(self, index):
        return index == 1

    def is_control(self, index):
        return index in (0, 2, 3)

    def is_unused(self, index):
        return False

    is_byte = is_unused


@pytest.mark.parametrize("dropout", [-0.1, 1.5, math.nan])
def test_a_dropout_is_a_probability(dropout):
    with pytest.raises(VocabularyError, match="from 0 to 1"):
        BPE.encode_sampled(["abba"], dropout=dropout, seed=0)
