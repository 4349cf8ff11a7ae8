"""How well the systems translate rare and frequent words of the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nmt.evaluation.differences.buckets import Bucket, bucket_of, buckets
from nmt.evaluation.differences.parallel_texts import ParallelTexts, Text, Tokenize

FREQUENCIES = buckets(0, 1, 2, 6, 21, 101, 1_001)
"""How often a word occurs in the counted text."""


@dataclass(frozen=True)
class WordScore:
    """Precision, recall and F1 of the words of one system, from 0 to 1."""

    right: int
    """Words of the hypotheses that the reference of the same line has too, each as often as both have it."""
    hypothesis_words: int
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class FrequencyBucket:
    """The words that occur similarly often."""

    bucket: Bucket
    reference_words: int
    systems: tuple[WordScore, WordScore]


def words_of(texts: ParallelTexts) -> frozenset[str]:
    """The words of reference and hypotheses: all whose frequency is asked for."""
    return frozenset(word for text in (texts.reference, *texts.systems) for tokens in text.tokens for word in tokens)


def count_words(lines: Iterable[str], wanted: frozenset[str], tokenize: Tokenize) -> Counter[str]:
    """How often each wanted word occurs in a text of any size: memory grows with the wanted words alone."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(token for token in tokenize(line) if token in wanted)
    return counts


def reference_frequencies(texts: ParallelTexts) -> Counter[str]:
    """How often each word occurs in the references."""
    return Counter(word for tokens in texts.reference.tokens for word in tokens)


def words_by_frequency(texts: ParallelTexts, frequencies: Mapping[str, int]) -> tuple[FrequencyBucket, ...]:
    """Precision, recall and F1 of words, by how often they occur; without the buckets that have no reference words."""
    indices = {word: bucket_of(frequencies.get(word, 0), FREQUENCIES) for word in words_of(texts)}
    expected = _sizes(texts.reference, indices)
    a, b = (_scores(system, texts.reference, expected, indices) for system in texts.systems)
    return tuple(
        FrequencyBucket(bucket, expected[index], (a[index], b[index]))
        for index, bucket in enumerate(FREQUENCIES)
        if expected[index]
    )


def _sizes(text: Text, indices: Mapping[str, int]) -> Counter[int]:
    return Counter(indices[word] for tokens in text.tokens for word in tokens)


def _scores(system: Text, reference: Text, expected: Counter[int], indices: Mapping[str, int]) -> list[WordScore]:
    right: Counter[int] = Counter()
    for hypothesis, tokens in zip(system.tokens, reference.tokens, strict=True):
        for word, count in (Counter(hypothesis) & Counter(tokens)).items():
            right[indices[word]] += count
    written = _sizes(system, indices)
    return [_score(right[index], written[index], expected[index]) for index in range(len(FREQUENCIES))]


def _score(right: int, written: int, expected: int) -> WordScore:
    return WordScore(
        right,
        written,
        precision=right / written if written else 0.0,
        recall=right / expected if expected else 0.0,
        f1=2 * right / (written + expected) if written + expected else 0.0,
    )
