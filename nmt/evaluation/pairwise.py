"""Sentence-level chrF and BLEU of each text against each other, as sacreBLEU computes them pair by pair.

Every text is counted once, and the n-grams that two texts share come from one matrix product for all pairs.

Shapes: N texts, O orders of n-grams, G n-grams; a pair (i, j) is hypothesis i against reference j.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nmt.data.arrays import starts_of
from nmt.evaluation.metrics import make_metric

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
PairwiseScores = Callable[[Sequence[str]], Floats]
"""From texts to the score (N, N) from 0 to 100 of each, by row, were each, by column, the reference."""

_CHARACTER_ORDER, _WORD_ORDER = 6, 4
_BETA = 2


def pairwise(metric: Literal["chrf", "bleu"], *, target_lang: str = "") -> PairwiseScores:
    """The function that scores texts against one another.

    Args:
        target_lang: decides on the tokeniser of BLEU, as for :func:`nmt.evaluation.metrics.score`.

    Raises:
        NmtError: the tokeniser of the target language is not installed.
    """
    if metric == "chrf":
        return pairwise_chrf
    tokenizer = make_metric("bleu", target_lang).tokenizer
    return lambda texts: pairwise_bleu([tokenizer(text.rstrip()).split() for text in texts])


def pairwise_chrf(texts: Sequence[str]) -> Floats:
    """chrF2 of each text against each (Popović 2015): the F-score of mean precision and mean recall, over the orders of
    character n-grams that both texts have. Spaces do not count."""
    characters = [np.frombuffer("".join(text.split()).encode("utf-32-le"), np.uint32) for text in texts]
    totals_NO, matches_ONN = _count(characters, _CHARACTER_ORDER)
    both_ONN = (totals_NO.T[:, :, None] > 0) & (totals_NO.T[:, None, :] > 0)
    orders_NN = np.maximum(both_ONN.sum(axis=0), 1)
    share_NO = 1 / np.maximum(totals_NO, 1)
    precision_NN = np.where(both_ONN, matches_ONN * share_NO.T[:, :, None], 0).sum(axis=0) / orders_NN
    recall_NN = np.where(both_ONN, matches_ONN * share_NO.T[:, None, :], 0).sum(axis=0) / orders_NN
    weighted_NN = _BETA**2 * precision_NN + recall_NN
    scores_NN: Floats = (1 + _BETA**2) * precision_NN * recall_NN / np.where(weighted_NN > 0, weighted_NN, 1)
    return 100 * scores_NN


def pairwise_bleu(tokens: Sequence[Sequence[str]]) -> Floats:
    """BLEU of each tokenised text against each: the orders that the hypothesis has, exponentially smoothed.

    The first order without a match counts as half a match, the second as a quarter, and so on (the method of
    mteval-v13a). Without any match the score is 0.
    """
    numbers: dict[str, int] = {}
    totals_NO, matches_ONN = _count(
        [np.array([numbers.setdefault(token, len(numbers)) for token in text], np.int64) for text in tokens],
        _WORD_ORDER,
    )
    misses_ONN = matches_ONN == 0
    smoothed_ONN = np.where(misses_ONN, 0.5 ** misses_ONN.cumsum(axis=0), matches_ONN)
    has_ON1 = totals_NO.T[:, :, None] > 0
    precision_ONN = smoothed_ONN / np.maximum(totals_NO.T[:, :, None], 1)
    mean_log_NN = np.where(has_ON1, np.log(precision_ONN), 0).sum(axis=0) / np.maximum(has_ON1.sum(axis=0), 1)
    lengths_N = totals_NO[:, 0]
    ratio_NN = lengths_N[None, :] / np.maximum(lengths_N[:, None], 1)
    scores_NN: Floats = 100 * np.exp(np.minimum(1 - ratio_NN, 0) + mean_log_NN)
    return np.where(misses_ONN[0], 0.0, scores_NN)


def _count(texts: Sequence[NDArray[np.integer]], max_order: int) -> tuple[Integers, Floats]:
    """Count n-grams of the orders 1 to ``max_order`` in texts of numbered symbols.

    Returns:
        How many each text has (N, O), and how many each two have in common, a repeated one as often as both have it
        (O, N, N).
    """
    lengths = np.array([len(text) for text in texts], np.int64)
    ends = np.cumsum(lengths)
    row = np.repeat(np.arange(len(texts)), lengths)
    position = np.arange(len(row))
    distinct, symbols = np.unique(np.concatenate([*texts, np.zeros(0, np.int64)]), return_inverse=True)
    gram = np.zeros(len(row), np.int64)
    totals, matches = [], []
    for order in range(1, max_order + 1):
        # An n-gram is the one that is shorter by its last symbol, and that symbol.
        fits = position + order <= ends[row]
        position, row, gram = position[fits], row[fits], gram[fits]
        _, gram = np.unique(gram * len(distinct) + symbols[position + order - 1], return_inverse=True)
        totals.append(np.bincount(row, minlength=len(texts)))
        matches.append(_in_common(row, gram, len(texts)))
    return np.stack(totals, axis=1), np.stack(matches)


def _in_common(row: Integers, gram: Integers, count: int) -> Floats:
    """The sum over n-grams of the lesser of two texts' counts (N, N).

    The first occurrence of an n-gram in a text is told from its second, and so on: of these a text has each once or
    not, so that what two have in common is a product of zeros and ones.
    """
    grams = int(gram.max(initial=0)) + 1
    keys, repeats = np.unique(row * grams + gram, return_counts=True)
    occurrence = np.arange(len(row)) - np.repeat(starts_of(repeats), repeats)
    row, gram = np.repeat(keys // grams, repeats), np.repeat(keys % grams, repeats)
    distinct, column = np.unique(gram * (int(repeats.max(initial=0)) + 1) + occurrence, return_inverse=True)
    present_NG = np.zeros((count, len(distinct)), np.float32)  # counts are exact to 16 million
    present_NG[row, column] = 1
    return (present_NG @ present_NG.T).astype(np.float64)
