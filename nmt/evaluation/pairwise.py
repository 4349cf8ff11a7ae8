"""Sentence-level chrF of every text against every other, equal to sacreBLEU's scores of each pair.

N-grams are counted once per text. One matrix product gives the n-grams that two texts share, for all pairs.

Shapes: N texts, O orders of n-grams, G n-grams; a pair (i, j) is hypothesis i against reference j.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nmt.data.arrays import starts_of

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_MAX_ORDER = 6
_BETA = 2


def pairwise_chrf(texts: Sequence[str]) -> Floats:
    """chrF2 of every text against every other (Popović 2015).

    It is the F-score of mean precision and mean recall, over the character n-gram orders that both texts have. Spaces
    are ignored.

    Returns:
        Scores (N, N) from 0 to 100: row i, column j is the score of text i against text j as the reference.
    """
    characters = [np.frombuffer("".join(text.split()).encode("utf-32-le"), np.uint32) for text in texts]
    totals_NO, matches_ONN = _count(characters)
    both_ONN = (totals_NO.T[:, :, None] > 0) & (totals_NO.T[:, None, :] > 0)
    orders_NN = np.maximum(both_ONN.sum(axis=0), 1)
    share_NO = 1 / np.maximum(totals_NO, 1)
    precision_NN = np.where(both_ONN, matches_ONN * share_NO.T[:, :, None], 0).sum(axis=0) / orders_NN
    recall_NN = np.where(both_ONN, matches_ONN * share_NO.T[:, None, :], 0).sum(axis=0) / orders_NN
    weighted_NN = _BETA**2 * precision_NN + recall_NN
    scores_NN: Floats = (1 + _BETA**2) * precision_NN * recall_NN / np.where(weighted_NN > 0, weighted_NN, 1)
    return 100 * scores_NN


def _count(texts: Sequence[NDArray[np.integer]]) -> tuple[Integers, Floats]:
    """Count n-grams of the orders 1 to 6 in texts of numbered symbols.

    Returns:
        The number of n-grams of each text (N, O), and the number that each pair of texts has in common (O, N, N). A
        repeated n-gram counts as often as both texts have it.
    """
    lengths = np.array([len(text) for text in texts], np.int64)
    ends = np.cumsum(lengths)
    row = np.repeat(np.arange(len(texts)), lengths)
    position = np.arange(len(row))
    distinct, symbols = np.unique(np.concatenate([*texts, np.zeros(0, np.int64)]), return_inverse=True)
    gram = np.zeros(len(row), np.int64)
    totals, matches = [], []
    for order in range(1, _MAX_ORDER + 1):
        # An n-gram is numbered by its first n - 1 symbols, which form a numbered (n - 1)-gram, and its last symbol.
        fits = position + order <= ends[row]
        position, row, gram = position[fits], row[fits], gram[fits]
        _, gram = np.unique(gram * len(distinct) + symbols[position + order - 1], return_inverse=True)
        totals.append(np.bincount(row, minlength=len(texts)))
        matches.append(_in_common(row, gram, len(texts)))
    return np.stack(totals, axis=1), np.stack(matches)


def _in_common(row: Integers, gram: Integers, count: int) -> Floats:
    """The sum over n-grams of the smaller of two texts' counts (N, N).

    The first, second, … occurrence of an n-gram in a text count as different symbols. A text has each symbol once or
    not at all, so a product of matrices of zeros and ones counts those that two texts share.
    """
    grams = int(gram.max(initial=0)) + 1
    keys, repeats = np.unique(row * grams + gram, return_counts=True)
    occurrence = np.arange(len(row)) - np.repeat(starts_of(repeats), repeats)
    row, gram = np.repeat(keys // grams, repeats), np.repeat(keys % grams, repeats)
    distinct, column = np.unique(gram * (int(repeats.max(initial=0)) + 1) + occurrence, return_inverse=True)
    present_NG = np.zeros((count, len(distinct)), np.float32)  # exact for counts up to 16 million
    present_NG[row, column] = 1
    return (present_NG @ present_NG.T).astype(np.float64)
