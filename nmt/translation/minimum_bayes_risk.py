"""Minimum Bayes risk: choose the candidate that is most similar to all candidates, instead of the likeliest.

Kumar and Byrne 2004; Eikema and Aziz 2020. Shapes: N candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nmt.evaluation.pairwise import Floats, pairwise_chrf

# Rounding errors depend on the order of summation and must not decide.
_DECIMALS = 9


@dataclass(frozen=True)
class Choice:
    """A candidate after reranking."""

    index: int
    """The candidate's index before reranking."""
    expected_utility: float


def rerank(candidates: Sequence[str], *, log_probabilities: Sequence[float] | None = None) -> list[Choice]:
    """Order candidates by expected chrF, with each candidate in turn as the reference.

    Args:
        candidates: the hypotheses of a beam, or samples, for one line. A repeated text counts repeatedly. May be empty.
        log_probabilities: of each candidate, at least one finite: references are weighted by their normalised
            probabilities. Without them all weights are equal, which is right for samples.

    Returns:
        All candidates, best first; equal ones keep their order.
    """
    if not candidates:
        return []
    texts = list(dict.fromkeys(candidates))
    number = {text: index for index, text in enumerate(texts)}
    of_text = np.array([number[text] for text in candidates])
    weights = np.bincount(of_text, _weights(len(candidates), log_probabilities))
    expected = np.round(pairwise_chrf(texts) @ weights, _DECIMALS)[of_text]
    order = np.argsort(-expected, kind="stable")
    return [Choice(int(index), float(expected[index])) for index in order]


def _weights(count: int, log_probabilities: Sequence[float] | None) -> Floats:
    if log_probabilities is None:
        return np.full(count, 1 / count)
    relative = np.exp(np.array(log_probabilities) - max(log_probabilities))
    weights: Floats = relative / relative.sum()
    return weights
