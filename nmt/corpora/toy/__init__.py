"""The built-in toy pair: a small synchronous grammar of English and German, written for this project.

It covers differences between the two languages: gender, number and case, strong, weak and mixed adjective endings,
verb-second main clauses, verb-final subordinate clauses, separable verbs, the perfect with haben and sein, modal verbs,
nicht and kein, numerals. Each English sentence has exactly one German one, so a model can learn it whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nmt.corpora.toy.grammar import SentenceGenerator

TRAIN_PAIRS = 30_000
VALID_PAIRS = 500
TEST_PAIRS = 500


@dataclass(frozen=True)
class ToySplits:
    """English and German sentences, no sentence twice in either language."""

    train: list[tuple[str, str]]
    valid: list[tuple[str, str]]
    test: list[tuple[str, str]]


def source_files() -> list[Path]:
    """The files that the text is made from: the grammar and the tables of words."""
    return sorted(path for path in Path(__file__).parent.iterdir() if path.suffix in (".py", ".tsv"))


def generate(seed: int = 1, *, train: int = TRAIN_PAIRS, valid: int = VALID_PAIRS, test: int = TEST_PAIRS) -> ToySplits:
    """Draw a corpus; the same seed and sizes give the same corpus."""
    generator = SentenceGenerator(seed)
    pairs: list[tuple[str, str]] = []
    seen: set[str] = set()
    while len(pairs) < valid + test + train:
        english, german = generator.sentence()
        # German sentences are unique too: two English sentences must not share a translation.
        if english not in seen and german not in seen:
            seen.update((english, german))
            pairs.append((english, german))
    return ToySplits(pairs[valid + test :], pairs[:valid], pairs[valid : valid + test])
