"""The next piece of each hypothesis: the best pieces, a sampled piece, and pieces that would repeat an n-gram.

Shapes: B sentences, N rows, one per hypothesis, V vocabulary, K pieces per row, R steps that there is room for, G
n-grams of S pieces, X blocks of a vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.model.state import Length
from nmt.search.settings import Sampling
from nmt.special_ids import BOS, PAD, UNK

NEVER_EMITTED = (PAD, UNK, BOS)
"""The special pieces that outputs never contain."""

BLOCK = 64
"""Pieces of a block. All special pieces lie in the first one."""


def largest(logits_NV: Tensor, count: int, largest_NX: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The ``count`` largest numbers of each row and their indices; all of them if a row has fewer.

    Over a whole vocabulary, ``topk`` on a CPU costs as much as a matrix product. The K largest numbers are in the K
    blocks with the largest maxima, and maxima are fast to compute.

    Args:
        largest_NX: the largest number of each whole block, if known. That of the first block may be too large.
    """
    rows, vocabulary = logits_NV.shape
    blocks, device = vocabulary // BLOCK, logits_NV.device
    if blocks <= 2 * count:
        values_NK, pieces_NK = logits_NV.topk(min(count, vocabulary), dim=1)
        return values_NK, pieces_NK
    chosen = count
    if largest_NX is None:
        largest_NX = logits_NV[:, : blocks * BLOCK].view(rows, blocks, BLOCK).amax(dim=2)
    else:  # a first block that is not among the best takes the place of one that is
        chosen += 1
    chosen_NK = largest_NX.topk(chosen, dim=1).indices
    places_NKP = chosen_NK[:, :, None] * BLOCK + torch.arange(BLOCK, device=device)
    rest_R = torch.arange(blocks * BLOCK, vocabulary, device=device)
    candidates_NC = torch.cat([places_NKP.flatten(1), rest_R.expand(rows, -1)], dim=1)
    values_NK, index_NK = logits_NV.gather(1, candidates_NC).topk(count, dim=1)
    return values_NK, candidates_NC.gather(1, index_NK)


def sample(logits_NV: Tensor, sampling: Sampling, uniform_N: Tensor) -> tuple[Tensor, Tensor]:
    """Sample one piece per row.

    Args:
        uniform_N: a number from [0, 1) for each row, float64 where there is. The same number draws the same piece.

    Returns:
        The logits and the ids of the pieces, both (N, 1).
    """
    rows, vocabulary = logits_NV.shape
    if sampling.top_k is None and sampling.top_p is None:
        # Sorting a vocabulary would take longer than everything else here.
        values_NK, pieces_NK = logits_NV, torch.arange(vocabulary, device=logits_NV.device).expand(rows, -1)
    else:
        values_NK, pieces_NK = largest(logits_NV, sampling.top_k or vocabulary)
    probabilities_NK = torch.softmax(values_NK.to(uniform_N.dtype) / sampling.temperature, dim=1)
    sums_NK = probabilities_NK.cumsum(dim=1)
    if sampling.top_p is not None:
        # The piece with which the sum reaches top_p is included.
        probabilities_NK.masked_fill_(sums_NK - probabilities_NK >= sampling.top_p, 0.0)
        sums_NK = probabilities_NK.cumsum(dim=1)
    reached_NK = sums_NK > uniform_N[:, None] * sums_NK[:, -1:]
    index_N1 = reached_NK.int().argmax(dim=1, keepdim=True)
    return values_NK.gather(1, index_N1), pieces_NK.gather(1, index_N1)


def repeating_pieces(written_NR: Tensor, length: Length, size: int) -> Tensor:
    """The pieces (N, G) that would repeat an n-gram of ``size`` pieces; pad where no piece would.

    Args:
        written_NR: the pieces of each hypothesis so far, and room for more.
        length: the number of pieces so far.
    """
    if isinstance(length, int):
        written_NR = written_NR[:, : max(length, size)]
    if size > written_NR.shape[1]:
        return written_NR.new_full((len(written_NR), 1), PAD)
    grams_NGS = written_NR.unfold(1, size, 1)
    places_S = torch.arange(size - 1, device=written_NR.device) + (length - size + 1)
    last_N1S = written_NR.index_select(1, places_S.clamp(min=0))[:, None]
    is_written_G = torch.arange(grams_NGS.shape[1], device=written_NR.device) <= length - size
    is_same_NG = (grams_NGS[:, :, :-1] == last_N1S).all(dim=2) & is_written_G
    return torch.where(is_same_NG, grams_NGS[:, :, -1], PAD)


class RandomNumbers:
    """Random numbers for sampling. A sentence draws the same numbers in every batch."""

    def __init__(self, seed: int, numbers: Sequence[int]) -> None:
        """Seed one generator per sentence with ``seed`` and the sentence's number."""
        self._generators: list[np.random.Generator] = [np.random.default_rng([seed, number]) for number in numbers]

    def draw(self, sentences: Sequence[int], steps: int, count: int) -> NDArray[np.float64]:
        """Draw ``count`` numbers from [0, 1) for each of the next steps of each sentence (B, steps, count)."""
        return np.stack([self._generators[sentence].random((steps, count)) for sentence in sentences])
