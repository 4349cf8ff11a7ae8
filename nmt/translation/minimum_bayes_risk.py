"""Minimum Bayes risk: of a line's candidates the one that is most like all of them (Kumar and Byrne 2004; Eikema and
Aziz 2020), rather than the likeliest.

Shapes: N candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Utility = Callable[[Sequence[str]], Floats]
"""From texts to how good each of them is, by row, were each of them, by column, the right translation (N, N); such as
:func:`nmt.evaluation.pairwise.pairwise` makes."""

# Sums in another order differ in their last digits, which must not decide.
_DECIMALS = 9


@dataclass(frozen=True)
class Choice:
    """A candidate in its new place."""

    index: int
    """Where it stood among the candidates."""
    expected_utility: float


def rerank(
    candidates: Sequence[str], utility: Utility, *, log_probabilities: Sequence[float] | None = None
) -> list[Choice]:
    """Order candidates by their expected utility, where each candidate in turn is taken for the right translation.

    Args:
        candidates: texts of one line: what a beam found, or samples; the same text may come several times and then
            counts so often. There may be none.
        log_probabilities: of each candidate, at least one of them finite: weighs them as references by their
            probability, divided by that of all. Without it all weigh the same, as is right for samples.

    Returns:
        All of them, the best first; equal ones in the order in which they came.
    """
    if not candidates:
        return []
    texts = list(dict.fromkeys(candidates))
    number = {text: index for index, text in enumerate(texts)}
    of_text = np.array([number[text] for text in candidates])
    weights = np.bincount(of_text, _weights(len(candidates), log_probabilities))
    expected = np.round(utility(texts) @ weights, _DECIMALS)[of_text]
    order = np.argsort(-expected, kind="stable")
    return [Choice(int(index), float(expected[index])) for index in order]


def _weights(count: int, log_probabilities: Sequence[float] | None) -> Floats:
    if log_probabilities is None:
        return np.full(count, 1 / count)
    relative = np.exp(np.array(log_probabilities) - max(log_probabilities))
    weights: Floats = relative / relative.sum()
    return weights
