"""The built-in toy pair: a small synchronous grammar of English and German, written for this project.

It covers differences between the two languages: gender, number and case, strong, weak and mixed adjective endings,
verb-second main clauses, verb-final subordinate clauses, separable verbs, the perfect with haben and sein, modal verbs,
nicht and kein, numerals. Each English sentence has exactly one German one, so a model can learn it whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from nmt.corpora.toy.grammar import SentenceGenerator

Pair = tuple[str, str]

TRAIN_PAIRS = 30_000
VALID_PAIRS = 500
TEST_PAIRS = 500


@dataclass(frozen=True)
class ToyCorpus:
    """English and German sentences, no sentence twice in either language."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]


def generate(seed: int = 1, *, train: int = TRAIN_PAIRS, valid: int = VALID_PAIRS, test: int = TEST_PAIRS) -> ToyCorpus:
    """Draw a corpus; the same seed and sizes give the same corpus."""
    generator = SentenceGenerator(seed)
    pairs: list[Pair] = []
    seen: set[str] = set()
    while len(pairs) < valid + test + train:
        english, german = generator.sentence()
        # German sentences are unique too: two English sentences must not share a translation.
        if english not in seen and german not in seen:
            seen.update((english, german))
            pairs.append((english, german))
    return ToyCorpus(pairs[valid + test :], pairs[:valid], pairs[valid : valid + test])
