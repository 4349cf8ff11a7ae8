"""The best extensions of a beam, and which of them are finished.

Shapes: B sentences, W places of the beam before and after the step, N = B · W rows before it, K extensions per
hypothesis.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nmt.special_ids import EOS


def choose(extended_BWK: Tensor, pieces_NK: Tensor, places_B1: Tensor, beam: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best extensions of each sentence, best first, one per place of its beam.

    Args:
        extended_BWK: the log-probability of each hypothesis with each of its best extensions.
        pieces_NK: the pieces of these extensions.
        places_B1: the places of the beam minus the finished hypotheses.

    Returns:
        Log-probabilities, -inf in places that stay empty; parents, as places of the beam; pieces. Each is (B, W).
    """
    sentences, places, choices = extended_BWK.shape
    best_BW, index_BW = extended_BWK.flatten(1).topk(min(beam, places * choices), dim=1)
    best_BW.masked_fill_(torch.arange(best_BW.shape[1], device=best_BW.device) >= places_B1, -torch.inf)
    return best_BW, index_BW // choices, pieces_NK.view(sentences, -1).gather(1, index_BW)


def ended_and_live(best_BW: Tensor, tokens_BW: Tensor) -> tuple[Tensor, Tensor]:
    """Which extensions are finished, because they end in eos; the log-probabilities of the others."""
    ended_BW = (tokens_BW == EOS) & (best_BW > -torch.inf)
    return ended_BW, best_BW.masked_fill(ended_BW, -torch.inf)


def for_host(best_BW: Tensor, parents_BW: Tensor, tokens_BW: Tensor) -> Tensor:
    """What the host looks at, as one tensor (3, B, W)."""
    # The dtype of log-probabilities represents indices and ids exactly.
    return torch.stack([best_BW, parents_BW.to(best_BW.dtype), tokens_BW.to(best_BW.dtype)])
