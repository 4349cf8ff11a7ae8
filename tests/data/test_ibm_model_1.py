"""IBM Model 1 against a plain computation over dictionaries."""

from collections import defaultdict

import numpy as np
import pytest

from nmt.data import ibm_model_1
from nmt.data.ibm_model_1 import estimate_lexicon

VOCAB = 30


def random_pairs(count: int) -> list[tuple[list[int], list[int]]]:
    generator = np.random.default_rng(7)
    return [
        tuple(generator.integers(4, VOCAB, generator.integers(1, 9)).tolist() for _ in range(2)) for _ in range(count)
    ]


def by_dictionaries(pairs, iterations: int = 5) -> dict[tuple[int, int], float]:
    """Expected counts by (source, target) after some iterations; 0 is the empty source."""
    probability = defaultdict(lambda: 1.0)
    for _ in range(iterations):
        counts, totals = defaultdict(float), defaultdict(float)
        for source, target in pairs:
            for t in target:
                total = sum(probability[s, t] for s in [0, *source])
                for s in [0, *source]:
                    counts[s, t] += probability[s, t] / total
                    totals[s] += probability[s, t] / total
        probability = defaultdict(float, {(s, t): count / totals[s] for (s, t), count in counts.items()})
    return {entry: count for entry, count in counts.items() if entry[0]}


@pytest.mark.parametrize(("links_at_once", "pairs_at_once"), [(100, 3), (1_000_000, 1_000_000)])
def test_counts_are_those_of_a_plain_computation(shards_of, monkeypatch, links_at_once, pairs_at_once):
    monkeypatch.setattr(ibm_model_1, "_LINKS_AT_ONCE", links_at_once)
    monkeypatch.setattr(ibm_model_1, "_PAIRS_AT_ONCE", pairs_at_once)
    pairs = random_pairs(40)
    found = estimate_lexicon(shards_of(pairs), VOCAB)
    entries = list(zip(found.source_E.tolist(), found.target_E.tolist(), strict=True))
    expected = by_dictionaries(pairs)
    assert entries == sorted(expected)
    assert found.count_E.tolist() == pytest.approx([expected[entry] for entry in entries], rel=1e-9)
    assert found.pairs == 40
    occurrences = np.bincount([piece for _, target in pairs for piece in target], minlength=VOCAB)
    assert found.target_count_V.tolist() == pytest.approx(occurrences.tolist())


def test_pairs_are_left_out_evenly_where_they_have_too_many_links(shards_of):
    pairs = [([4 + number], [4 + number]) for number in range(20)]  # two links each
    found = estimate_lexicon(shards_of(pairs), VOCAB, max_links=20)
    assert found.pairs == 10
    assert found.source_E.tolist() == [4 + number for number in range(0, 20, 2)]


def test_a_pair_of_too_many_links_is_left_out(shards_of, monkeypatch):
    monkeypatch.setattr(ibm_model_1, "_LINKS_AT_ONCE", 12)
    found = estimate_lexicon(shards_of([([4, 5], [6]), ([7, 8, 9], [10, 11, 12, 13]), ([4], [6])]), VOCAB)
    assert found.pairs == 2
    assert set(found.source_E.tolist()) == {4, 5}


def test_a_translation_is_found_among_words_that_come_with_it(shards_of):
    """Piece 10 + n translates piece 4 + n; each comes beside every other one."""
    pairs = [([4 + a, 4 + b], [10 + b, 10 + a]) for a in range(5) for b in range(5) if a != b]
    found = estimate_lexicon(shards_of(pairs), VOCAB)
    for number in range(5):
        own = found.source_E == 4 + number
        assert found.target_E[own][found.count_E[own].argmax()] == 10 + number
