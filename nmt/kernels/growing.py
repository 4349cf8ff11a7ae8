"""Tensors that grow in place, so that a step of a search copies none of the keys and values before it.

Shapes: B sentences, H heads, X positions held, W positions added, K size of a head.
"""

from __future__ import annotations

from torch import Tensor


def append(held_BHXK: Tensor, written: int, new_BHWK: Tensor, room: int) -> Tensor:
    """Write ``new_BHWK`` after the first ``written`` positions, as ``torch.cat`` would.

    Args:
        held_BHXK: is written into if it has room; otherwise the result is a copy.
        room: positions that a copy has beyond those that are needed.
    """
    needed = written + new_BHWK.shape[2]
    if needed > held_BHXK.shape[2]:
        sentences, heads, _, size = new_BHWK.shape
        roomy_BHXK = new_BHWK.new_empty(sentences, heads, needed + room, size)
        roomy_BHXK[:, :, :written] = held_BHXK[:, :, :written]
        held_BHXK = roomy_BHXK
    held_BHXK[:, :, written:needed] = new_BHWK
    return held_BHXK
