"""The next piece of each hypothesis: the best pieces, a sampled piece, and pieces that would repeat an n-gram.

Shapes: B sentences, W hypotheses per sentence, N = B · W rows, V vocabulary, K pieces per row, T pieces so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.device import to_device
from nmt.search.settings import Sampling
from nmt.special_ids import BOS, PAD, UNK

_BLOCK = 64


def never_emitted(allow_unk: bool) -> list[int]:
    """The special pieces that outputs never contain."""
    return [PAD, BOS] if allow_unk else [PAD, UNK, BOS]


def largest(logits_NV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` largest numbers of each row and their indices; all of them if a row has fewer.

    On a CPU, ``topk`` costs as much as a matrix product. The K largest numbers are in the K blocks with the largest
    maxima, and maxima are fast to compute.
    """
    rows, vocabulary = logits_NV.shape
    blocks = vocabulary // _BLOCK
    if logits_NV.device.type != "cpu" or blocks <= 2 * count:
        values_NK, pieces_NK = logits_NV.topk(min(count, vocabulary), dim=1)
        return values_NK, pieces_NK
    blocks_NXP = logits_NV[:, : blocks * _BLOCK].view(rows, blocks, _BLOCK)
    chosen_NK = blocks_NXP.amax(dim=2).topk(count, dim=1).indices
    places_NKP = chosen_NK[:, :, None] * _BLOCK + torch.arange(_BLOCK)
    rest_R = torch.arange(blocks * _BLOCK, vocabulary)
    candidates_NC = torch.cat([places_NKP.flatten(1), rest_R.expand(rows, -1)], dim=1)
    values_NK, index_NK = logits_NV.gather(1, candidates_NC).topk(count, dim=1)
    return values_NK, candidates_NC.gather(1, index_NK)


def sample(logits_NV: Tensor, sampling: Sampling, uniform_N: Tensor) -> tuple[Tensor, Tensor]:
    """Sample one piece per row.

    Args:
        uniform_N: a number from [0, 1) for each row. The same number draws the same piece.

    Returns:
        The logits and the ids of the pieces, both (N, 1).
    """
    rows, vocabulary = logits_NV.shape
    if sampling.top_k is None and sampling.top_p is None:
        # Sorting a vocabulary would take longer than everything else here.
        values_NK, pieces_NK = logits_NV, torch.arange(vocabulary, device=logits_NV.device).expand(rows, -1)
    else:
        values_NK, pieces_NK = largest(logits_NV, sampling.top_k or vocabulary)
    # Some GPUs (MPS) have no float64.
    exact = torch.float32 if logits_NV.device.type == "mps" else torch.float64
    probabilities_NK = torch.softmax(values_NK.to(exact) / sampling.temperature, dim=1)
    sums_NK = probabilities_NK.cumsum(dim=1)
    if sampling.top_p is not None:
        # The piece with which the sum reaches top_p is included.
        probabilities_NK.masked_fill_(sums_NK - probabilities_NK >= sampling.top_p, 0.0)
        sums_NK = probabilities_NK.cumsum(dim=1)
    reached_NK = sums_NK > to_device(uniform_N.to(exact), logits_NV.device)[:, None] * sums_NK[:, -1:]
    index_N1 = reached_NK.int().argmax(dim=1, keepdim=True)
    return values_NK.gather(1, index_N1), pieces_NK.gather(1, index_N1)


def repeating_pieces(pieces_BWT: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pieces that would repeat an n-gram of ``size`` pieces: their rows (of N) and their ids."""
    sentences, beam, length = pieces_BWT.shape
    if length < size:
        nothing = np.empty(0, dtype=np.int64)
        return nothing, nothing
    pieces_NT = pieces_BWT.reshape(sentences * beam, length)
    grams_NGS = np.lib.stride_tricks.sliding_window_view(pieces_NT, size, axis=1)
    last_N1S = pieces_NT[:, None, length - size + 1 :]
    rows, grams = (grams_NGS[:, :, :-1] == last_N1S).all(axis=2).nonzero()
    return rows, grams_NGS[rows, grams, -1]


class RandomNumbers:
    """Random numbers for sampling. A sentence draws the same numbers in every batch."""

    def __init__(self, seed: int, numbers: Sequence[int]) -> None:
        """Seed one generator per sentence with ``seed`` and the sentence's number."""
        self._generators: list[np.random.Generator] = [np.random.default_rng([seed, number]) for number in numbers]

    def draw(self, sentences: Sequence[int], count: int) -> NDArray[np.float64]:
        """Draw ``count`` numbers from [0, 1) for each sentence (B, count)."""
        numbers: list[NDArray[Any]] = [self._generators[sentence].random(count) for sentence in sentences]
        return np.stack(numbers)
