"""Diverse beam search: a beam in groups, each of which keeps away from what the groups before it take (Vijayakumar et
al. 2018).

Beam search mostly returns one translation in many small variations, since hypotheses that differ late push out those
that differ early. Here the beam is divided into groups that do not compete with each other. At each step they choose
one after the other, and a piece costs a later group the more, the more hypotheses of earlier groups have just taken it
(the paper's Hamming diversity).

What a hypothesis has paid for pieces stays with it, as in the paper's algorithm: were it forgotten at the next step, a
group of several places would soon be back at what the first group likes best. It matters for the choice within a group
and for nothing else. Log-probabilities and scores are the model's own, unlike in toolkits whose scores of later groups
hold what was paid: only so do candidates of different groups compare with each other, with those of another search,
and with what scoring says of the same output.

Shapes: B sentences, W places of the beam, G groups, P places of each (W = G · P), K extensions of a hypothesis,
X = P · K, Y places of the groups that have chosen.
"""

from __future__ import annotations

import torch
from torch import Tensor


def choose_by_group(
    extended_BWK: Tensor, pieces_BWK: Tensor, paid_BW: Tensor, places_BG: Tensor, beam: int, strength: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The extensions with which the hypotheses of each group go on.

    Where there is but one hypothesis (W = 1), which has read nothing yet, all groups begin with it.

    Args:
        extended_BWK: log-probability of each hypothesis with each of its best extensions; of these as many as the beam
            is wide suffice, since what earlier groups take makes no more pieces dearer than they have places.
        pieces_BWK: the pieces that extend them.
        paid_BW: what each hypothesis has paid so far.
        places_BG: places of each group that no finished hypothesis has used up.
        beam: width of the whole beam, a multiple of the groups.
        strength: what a piece costs for each hypothesis of an earlier group that has taken it.

    Returns:
        For each place of the new beam, group by group and in each by what it chose by: the log-probability, or -inf
        where the place is empty; the index of the extension among all (W · K); and what was paid up to here (B, W).
    """
    groups, choices = places_BG.shape[1], extended_BWK.shape[2]
    group_width = extended_BWK.shape[1] // groups  # 0 where all begin with the same hypothesis
    best, indices, paid = [], [], []
    taken_BY = pieces_BWK.new_empty(len(pieces_BWK), 0)
    for group in range(groups):
        begin = group * group_width
        own = slice(begin, begin + max(1, group_width))
        extended_BX, pieces_BX = extended_BWK[:, own].flatten(1), pieces_BWK[:, own].flatten(1)
        times_BX = (pieces_BX[:, :, None] == taken_BY[:, None, :]).sum(dim=2)
        paid_BX = paid_BW[:, own].repeat_interleave(choices, dim=1) + strength * times_BX
        index_BP = (extended_BX - paid_BX).topk(min(beam // groups, extended_BX.shape[1]), dim=1).indices
        empty_BP = torch.arange(index_BP.shape[1], device=index_BP.device) >= places_BG[:, group, None]
        best_BP = extended_BX.gather(1, index_BP).masked_fill_(empty_BP, -torch.inf)
        # An empty place takes nothing, and no piece is -1.
        chosen_BP = pieces_BX.gather(1, index_BP).masked_fill_(best_BP == -torch.inf, -1)
        taken_BY = torch.cat([taken_BY, chosen_BP], dim=1)
        best.append(best_BP)
        indices.append(index_BP + begin * choices)
        paid.append(paid_BX.gather(1, index_BP))
    return torch.cat(best, dim=1), torch.cat(indices, dim=1), torch.cat(paid, dim=1)
