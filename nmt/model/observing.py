"""Look at the weights of the attentions while a model computes.

Shapes: B sentences, T queries (target), S keys (source), H heads, K size of a head's queries and keys, V size of a
head's values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from nmt.kernels.policy import AttentionKernel
from nmt.model.masks import Mask

See = Callable[[int, Tensor], None]
"""Called for each layer, from 0, with the weights (B, H, T, S) of its attention."""


@dataclass(frozen=True)
class Watch:
    """What to call for each of the three attentions (section 3.2.3); None for those that nobody looks at."""

    encoder: See | None = None
    decoder: See | None = None
    memory: See | None = None


NOTHING = Watch()


@dataclass(frozen=True)
class WatchedMask:
    """A mask that shows the weights of each attention that goes through it."""

    mask: Mask
    see: Callable[[Tensor], None]

    def attend(
        self, attention: AttentionKernel, query_BHTK: Tensor, key_BHSK: Tensor, value_BHSV: Tensor, dropout: float
    ) -> Tensor:
        """As :meth:`Mask.attend`."""
        # Attention mixes the values by its weights, so from the values 1 0 0 ..., 0 1 0 ... it makes the weights.
        (*batch, keys, _) = key_BHSK.shape
        unit_BHSS = torch.eye(keys, dtype=value_BHSV.dtype, device=value_BHSV.device).expand(*batch, -1, -1)
        self.see(self.mask.attend(attention, query_BHTK, key_BHSK, unit_BHSS, 0.0))
        return self.mask.attend(attention, query_BHTK, key_BHSK, value_BHSV, dropout)


def watched(mask: Mask, see: See | None, layer: int) -> Mask:
    """The mask, or one that also shows the weights of a layer's attention."""
    return mask if see is None else WatchedMask(mask, partial(see, layer))
