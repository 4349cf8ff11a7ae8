"""Diverse beam search (Vijayakumar et al. 2018): groups of the beam, each penalised for pieces of earlier groups.

Beam search mostly returns small variations of one translation, because hypotheses that differ late displace those that
differ early. Here the beam is divided into groups that do not compete with each other. At each step the groups choose
in turn. A piece costs a later group a penalty for each hypothesis of an earlier group that has just taken it (the
paper's Hamming diversity).

A hypothesis keeps its penalties, as in the paper's algorithm. Without them, a group of several places would soon return
to the favourites of the first group. The penalty affects only the choice within a group. Log-probabilities and scores
are the model's own. In other toolkits the scores of later groups include the penalty, so they cannot be compared with
other groups, with another search or with the scores of given targets.

Shapes: B sentences, W places of the beam, G groups, P places per group (W = G · P), K extensions per hypothesis,
X = P · K, Y places of the groups that have already chosen.
"""

from __future__ import annotations

import torch
from torch import Tensor


def choose_by_group(
    extended_BWK: Tensor, pieces_BWK: Tensor, penalties_BW: Tensor, places_BG: Tensor, strength: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Choose the extensions of each group.

    Args:
        extended_BWK: log-probability of each hypothesis with each of its K best extensions. K = W suffices: earlier
            groups penalise at most as many pieces as they have places.
        pieces_BWK: the pieces of these extensions.
        penalties_BW: the penalty of each hypothesis so far.
        places_BG: the places of each group minus its finished hypotheses.
        strength: the penalty on a piece per hypothesis of an earlier group that has taken it.

    Returns:
        For each place of the new beam, group by group, best first by penalised log-probability: the log-probability, or
        -inf if the place is empty; the index of the extension among all (W · K); and the penalty so far (B, W).
    """
    groups, choices = places_BG.shape[1], extended_BWK.shape[2]
    width = extended_BWK.shape[1] // groups
    best, indices, penalties = [], [], []
    taken_BY = pieces_BWK.new_empty(len(pieces_BWK), 0)
    for group in range(groups):
        begin = group * width
        own = slice(begin, begin + width)
        extended_BX, pieces_BX = extended_BWK[:, own].flatten(1), pieces_BWK[:, own].flatten(1)
        times_BX = (pieces_BX[:, :, None] == taken_BY[:, None, :]).sum(dim=2)
        penalties_BX = penalties_BW[:, own].repeat_interleave(choices, dim=1) + strength * times_BX
        index_BP = (extended_BX - penalties_BX).topk(width, dim=1).indices
        empty_BP = torch.arange(index_BP.shape[1], device=index_BP.device) >= places_BG[:, group, None]
        best_BP = extended_BX.gather(1, index_BP).masked_fill_(empty_BP, -torch.inf)
        # An empty place takes no piece; -1 is no piece's id.
        chosen_BP = pieces_BX.gather(1, index_BP).masked_fill_(best_BP == -torch.inf, -1)
        taken_BY = torch.cat([taken_BY, chosen_BP], dim=1)
        best.append(best_BP)
        indices.append(index_BP + begin * choices)
        penalties.append(penalties_BX.gather(1, index_BP))
    return torch.cat(best, dim=1), torch.cat(indices, dim=1), torch.cat(penalties, dim=1)
