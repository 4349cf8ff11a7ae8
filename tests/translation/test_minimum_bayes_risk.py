"""Re-ranking by minimum Bayes risk."""

import math

import numpy as np
import pytest
from sacrebleu.metrics import CHRF

from nmt.translation.minimum_bayes_risk import rerank

CANDIDATES = [
    "a cow flew over the moon",
    "the small dog sleeps in the garden",
    "the small dog is sleeping in the garden",
    "the small dog is asleep in the garden",
    "nothing of the kind",
]


def chrf(texts):
    return np.array([[CHRF().sentence_score(text, [other]).score for other in texts] for text in texts])


def indices(choices):
    return [choice.index for choice in choices]


def test_the_candidate_that_most_agree_with_comes_first():
    choices = rerank(CANDIDATES)
    assert choices[0].index == 2
    assert {choice.index for choice in choices[-2:]} == {0, 4}
    utilities = chrf(CANDIDATES)
    for choice in choices:
        assert choice.expected_utility == pytest.approx(utilities[choice.index].mean(), abs=1e-8)


def test_probabilities_weigh_the_references():
    even = rerank(CANDIDATES, log_probabilities=[-700.0] * 5)
    assert [(c.index, round(c.expected_utility, 6)) for c in even] == [
        (c.index, round(c.expected_utility, 6)) for c in rerank(CANDIDATES)
    ]
    log_probabilities = [math.log(p) for p in (0.9, 0.04, 0.03, 0.02, 0.01)]
    choices = rerank(CANDIDATES, log_probabilities=log_probabilities)
    assert choices[0].index == 0
    expected = chrf(CANDIDATES) @ np.exp(log_probabilities)
    assert [choice.expected_utility for choice in choices] == pytest.approx(sorted(expected, reverse=True), abs=1e-8)
    [first, *_] = rerank(CANDIDATES, log_probabilities=[-1e4, -math.inf, -math.inf, -math.inf, -math.inf])
    assert (first.index, first.expected_utility) == (0, pytest.approx(100))


def test_a_text_counts_as_often_as_it_comes():
    texts = [CANDIDATES[0], CANDIDATES[1], CANDIDATES[0], CANDIDATES[2], CANDIDATES[0], CANDIDATES[0]]
    choices = rerank(texts)
    assert indices(choices)[:4] == [0, 2, 4, 5]
    for choice in choices:
        assert choice.expected_utility == pytest.approx(chrf(texts)[choice.index].mean(), abs=1e-8)


def test_equal_candidates_keep_their_order(monkeypatch):
    alike = 0.1 + np.random.default_rng(0).uniform(-1e-13, 1e-13, (40, 40))
    monkeypatch.setattr("nmt.translation.minimum_bayes_risk.pairwise_chrf", lambda _: alike)
    assert indices(rerank([str(number) for number in range(40)])) == list(range(40))


def test_few_or_empty_candidates():
    assert rerank([]) == []
    assert indices(rerank(["one"])) == [0]
    assert indices(rerank(["one"], log_probabilities=[-3.0])) == [0]
    assert indices(rerank(["", ""])) == [0, 1]
    assert indices(rerank(["", "a dog", "a dog", ""])) == [1, 2, 0, 3]
