"""Whether another toolkit, given our weights, finds the outputs that we find, or only ties come out otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from nmt.data.vocab import Vocabulary
from nmt.model.transformer import Transformer

TIE = 1e-4
"""Pieces whose logits lie closer than this are equally good: fp32 cannot tell them apart for certain."""


@dataclass(frozen=True)
class Difference:
    """Where greedy outputs part that are no tie."""

    sentence: int
    place: int
    """Of the first piece that differs, from 0."""
    gap: float
    """By how much the logit of the worse of the two pieces is below the best piece's, in float64."""


@dataclass(frozen=True)
class Agreement:
    """How many greedy outputs are the same."""

    sentences: int
    equal: int
    ties: int
    """Outputs that part at a tie."""
    differences: tuple[Difference, ...]


def greedy_agreement(
    model: Transformer, sources: Sequence[list[int]], ours: Sequence[list[int]], theirs: Sequence[list[int]]
) -> Agreement:
    """Compare greedy outputs, and judge those that differ.

    Args:
        model: in float64.
        sources: pieces with eos.
        ours, theirs: pieces without eos, of each source.
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
        logits_V = model(source_BS.to(model.device), target_BT.to(model.device))[0, -1]
    logits_V[[Vocabulary.PAD, Vocabulary.UNK, Vocabulary.BOS]] = -torch.inf
    return place, float(logits_V.max() - logits_V[list(pairs[place])].min())
