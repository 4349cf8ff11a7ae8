"""Scores of each text against each, against sacreBLEU pair by pair."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import CHRF

from nmt.evaluation.pairwise import pairwise_chrf

TEXTS = [
    "",
    "   ",
    "a",
    "aa",
    "a a a a a a a a",
    "the red house",
    "the red house .",
    "The red house.",
    "the house is red, isn't it?",
    "is the house red, or is the house not red?",
    "wholly other words stand here",
    "ba " * 300,
    "ba do " * 120,
    "😀 ba 👩‍👩‍👧 Straße, 漢字かな",
    "ba\u2028do\u2029ki\u00a0lu",
    '3,000.5 (three) thousand – "quoted" &amp; escaped',
]


def by_sacrebleu(texts):
    metric = CHRF()
    return np.array([[metric.sentence_score(text, [other]).score for other in texts] for text in texts])


def test_chrf_equals_sacrebleu():
    np.testing.assert_allclose(pairwise_chrf(TEXTS), by_sacrebleu(TEXTS), atol=1e-9)


# Few letters, so that much is shared and repeated.
TEXT = st.text("ab, ", max_size=25) | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@settings(max_examples=100, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=5))
def test_any_texts_score_as_with_sacrebleu(texts):
    np.testing.assert_allclose(pairwise_chrf(texts), by_sacrebleu(texts), atol=1e-9)
