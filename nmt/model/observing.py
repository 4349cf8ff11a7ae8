"""Observe the weights of the attentions while a model computes.

Shapes: B sentences, T queries (target), S keys (source), H heads, K size of a head's queries and keys, V size of a
head's values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from nmt.model.masks import Attention, Mask, PaddedMask, PaddedRows

OnWeights = Callable[[int, Tensor], None]
"""Called for each layer, from 0, with the weights (B, H, T, S) of its attention."""


@dataclass(frozen=True)
class AttentionObserver:
    """What to call for each of the three attentions (section 3.2.3); None for those that are not observed."""

    encoder: OnWeights | None = None
    decoder: OnWeights | None = None
    memory: OnWeights | None = None


NO_OBSERVER = AttentionObserver()


@dataclass(frozen=True)
class ObservedMask:
    """A mask that passes on the weights of each attention that goes through it."""

    mask: PaddedMask
    on_weights: Callable[[Tensor], None]

    def attend(
        self, attention: Attention, query_BHTK: Tensor, key_BHSK: Tensor, value_BHSV: Tensor, dropout: float
    ) -> Tensor:
        """As :meth:`~nmt.model.masks.PaddedMask.attend`."""
        self.on_weights(self._weights(attention, query_BHTK, key_BHSK))
        return self.mask.attend(attention, query_BHTK, key_BHSK, value_BHSV, dropout)

    def _weights(self, attention: Attention, query_BHTK: Tensor, key_BHSK: Tensor) -> Tensor:
        """The weights (B, H, T, S), at least in fp32."""
        # Attention mixes the values by its weights, so from the values 1 0 0 ..., 0 1 0 ... it makes the weights.
        dtype = torch.promote_types(key_BHSK.dtype, torch.float32)
        (*batch, keys, _) = key_BHSK.shape
        unit_BHSS = torch.eye(keys, dtype=dtype, device=key_BHSK.device).expand(*batch, -1, -1)
        with torch.autocast(key_BHSK.device.type, enabled=False):
            return self.mask.attend(attention, query_BHTK.to(dtype), key_BHSK.to(dtype), unit_BHSS, 0.0)


def observed(mask: Mask, on_weights: OnWeights | None, layer: int) -> Mask:
    """The mask, or one that also passes on the weights of a layer's attention over padded sentences."""
    if on_weights is None:
        return mask
    assert isinstance(mask, PaddedRows)
    return replace(mask, mask=ObservedMask(mask.mask, partial(on_weights, layer)))
