"""Compares our greedy outputs with those of another toolkit that has the same weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from nmt.data.vocab import Vocabulary
from nmt.model.transformer import Transformer

TIE = 1e-4
"""Pieces whose logits differ by less are tied: fp32 cannot order them reliably."""


@dataclass(frozen=True)
class Difference:
    """A difference between two greedy outputs that is not a tie."""

    sentence: int
    place: int
    """The index of the first piece that differs."""
    gap: float
    """The best logit minus the logit of the worse of the two pieces, in float64."""


@dataclass(frozen=True)
class Agreement:
    """The numbers of equal and different greedy outputs."""

    sentences: int
    equal: int
    ties: int
    """The number of outputs that first differ at a tie."""
    differences: tuple[Difference, ...]


def greedy_agreement(
    model: Transformer, sources: Sequence[list[int]], ours: Sequence[list[int]], theirs: Sequence[list[int]]
) -> Agreement:
    """Compare greedy outputs, and find out which differences are ties.

    Args:
        model: the model in float64.
        sources: ids with eos.
        ours, theirs: the output ids of each source, without eos.
    """
    equal, ties, differences = 0, 0, []
    for sentence, (source, our, their) in enumerate(zip(sources, ours, theirs, strict=True)):
        if our == their:
            equal += 1
            continue
        place, gap = _first_gap(model, source, our, their)
        if gap < TIE:
            ties += 1
        else:
            differences.append(Difference(sentence, place, gap))
    return Agreement(len(sources), equal, ties, tuple(differences))


def _first_gap(model: Transformer, source: list[int], ours: list[int], theirs: list[int]) -> tuple[int, float]:
    pairs = list(zip([*ours, Vocabulary.EOS], [*theirs, Vocabulary.EOS], strict=False))
    place = next(index for index, (our, their) in enumerate(pairs) if our != their)
    with torch.no_grad():
        source_BS, target_BT = torch.tensor([source]), torch.tensor([[Vocabulary.BOS, *ours[:place]]])
        sides = [model.packed(side.to(model.device)) for side in (source_BS, target_BT)]
        logits_V = model(*sides)[target_BT.shape[1] - 1]
    logits_V[[Vocabulary.PAD, Vocabulary.UNK, Vocabulary.BOS]] = -torch.inf
    return place, float(logits_V.max() - logits_V[list(pairs[place])].min())
