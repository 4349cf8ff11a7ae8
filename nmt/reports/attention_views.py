"""Heads of the encoder that show what figures 3 to 5 of "Attention Is All You Need" show, chosen by their weights."""

# Shapes: L layers, H heads, N source pieces without </s>.

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from nmt.translation.attention_maps import AttentionMaps

_Weights = NDArray[np.float64]

# A sentence with fewer pieces has no distant ones.
_FEWEST_PIECES = 3
# Pieces at this distance or more count as distant.
_DISTANT = 2


@dataclass(frozen=True)
class View:
    """Heads of one layer of the encoder's self-attention, chosen by a criterion."""

    name: str
    figure: int
    """The number of the figure in the paper."""
    layer: int
    heads: tuple[int, ...]
    piece: int | None
    """The query whose attention is shown; None shows all queries."""
    criterion: str
    """How layer, heads and piece were chosen, in sentences."""
    result: str
    """The value of the criterion, in a sentence."""


def views(maps: AttentionMaps) -> list[View]:
    """The views of a sentence; none if it has fewer than 3 pieces, and no structure if the encoder has one head."""
    pieces = len(maps.source_pieces) - 1
    # Many heads rest on </s>, which says nothing about the sentence.
    weights_LHNN = maps.encoder[:, :, :pieces, :pieces].astype(np.float64)
    if pieces < _FEWEST_PIECES or not weights_LHNN.size:
        return []
    found = [_long_distance(weights_LHNN), _anaphora(weights_LHNN, maps.source_pieces)]
    if weights_LHNN.shape[1] > 1:
        found.append(_structure(weights_LHNN))
    return found


def mean_distances(weights_LHNN: _Weights) -> _Weights:
    """The mean distance |i − j| of each query i, weighted by its attention to j: (L, H, N)."""
    positions = np.arange(weights_LHNN.shape[-1])
    return np.asarray((weights_LHNN * abs(positions[:, None] - positions)).sum(-1))


def backward_sharpness(weights_LHNN: _Weights) -> _Weights:
    """How sharply each query looks back, from 0 to 1: (L, H, N).

    This is the attention to distant earlier pieces, times 1 − the entropy over them as a share of the maximum entropy.
    The first queries, which have no such pieces, get 0.
    """
    pieces = weights_LHNN.shape[-1]
    distant = np.tril(weights_LHNN, -_DISTANT)
    attention = distant.sum(-1)
    share = distant / np.where(attention > 0, attention, 1)[..., None]
    entropy = -(share * np.log(np.where(share > 0, share, 1))).sum(-1)
    maximum = np.log(np.maximum(np.arange(pieces) - _DISTANT + 1, 1))
    return np.asarray(attention * (1 - entropy / np.where(maximum > 0, maximum, 1)))


def divergences(weights_HNN: _Weights) -> _Weights:
    """How much each pair of heads of a layer differs, from 0 to 1: (H, H).

    This is the Jensen-Shannon divergence between the rows of both heads in bits, averaged over the queries. Each row
    counts as much as the attention that both heads give to pieces (rather than to </s>).
    """
    heads = weights_HNN.shape[0]
    attention = weights_HNN.sum(-1)
    rows = weights_HNN / np.where(attention > 0, attention, 1)[..., None]
    found = np.zeros((heads, heads))
    for one, other in itertools.combinations(range(heads), 2):
        middle = (rows[one] + rows[other]) / 2
        divergence = (_relative_entropy(rows[one], middle) + _relative_entropy(rows[other], middle)) / 2
        found[one, other] = found[other, one] = (np.minimum(attention[one], attention[other]) * divergence).mean()
    return found


def _relative_entropy(rows: _Weights, reference: _Weights) -> _Weights:
    ratio = np.where(rows > 0, rows, 1) / np.where(rows > 0, reference, 1)
    return np.asarray((rows * np.log2(ratio)).sum(-1))


def _long_distance(weights_LHNN: _Weights) -> View:
    distances_LHN = mean_distances(weights_LHNN)
    distances_LH = distances_LHN.mean(-1)
    count = max(1, min(4, distances_LH.shape[1] // 2))
    farthest_LH = np.argsort(-distances_LH, axis=1, kind="stable")[:, :count]
    means_L = np.take_along_axis(distances_LH, farthest_LH, axis=1).mean(1)
    layer = int(means_L.argmax())
    heads = tuple(sorted(int(head) for head in farthest_LH[layer]))
    piece = int(distances_LHN[layer, list(heads)].mean(0).argmax())
    number = "head" if count == 1 else f"{count} heads of one layer"
    return View(
        "Long-distance dependencies",
        3,
        layer,
        heads,
        piece,
        f"The {number} with the greatest mean distance |i − j| between query and key, weighted by the attention; "
        "attention to </s> counts as distance 0. The piece with the greatest mean distance in "
        f"{'this head' if count == 1 else 'these heads'}.",
        f"Mean distance {means_L[layer]:.1f} positions; over all heads {distances_LH.mean():.1f}.",
    )


def _anaphora(weights_LHNN: _Weights, pieces: tuple[str, ...]) -> View:
    sharpness_LHN = backward_sharpness(weights_LHNN)
    means_LH = sharpness_LHN[..., _DISTANT:].mean(-1)
    layer, head, piece = (int(i) for i in np.unravel_index(
        (sharpness_LHN - means_LH[..., None]).argmax(), sharpness_LHN.shape
    ))  # fmt: skip
    others = [int(other) for other in np.argsort(-sharpness_LHN[layer, :, piece], kind="stable") if other != head]
    beside = "; beside it, the head of the same layer that is sharpest for this piece" if others else ""
    return View(
        "Anaphora",
        4,
        layer,
        tuple(sorted([head, *others[:1]])),
        piece,
        f"The head and the piece with the greatest sharpness above the head's mean{beside}. Sharpness is the attention "
        f"to pieces at least {_DISTANT} positions back, times 1 − their normalised entropy.",
        f"Sharpness {sharpness_LHN[layer, head, piece]:.2f} for {pieces[piece]} in head {head + 1}; mean of this head "
        f"{means_LH[layer, head]:.2f}.",
    )


def _structure(weights_LHNN: _Weights) -> View:
    divergences_LHH = np.stack([divergences(weights_HNN) for weights_HNN in weights_LHNN])
    layer, one, other = (int(i) for i in np.unravel_index(divergences_LHH.argmax(), divergences_LHH.shape))
    if one == other:  # All heads are the same.
        other = one + 1
    return View(
        "Structure",
        5,
        layer,
        (one, other),
        None,
        "The two heads of one layer with the greatest Jensen–Shannon divergence between their rows, averaged over the "
        "pieces. Each row is taken without </s> and counts as much as the attention that both heads give to pieces.",
        f"Divergence {divergences_LHH[layer, one, other]:.2f} bits of at most 1.",
    )
