"""Guided alignment: one head of a decoder learns which source piece each target piece comes from.

Sources: "Guided Alignment Training for Topic-Aware Neural Machine Translation" (Chen et al. 2016), and for one head of
a Transformer "Jointly Learning to Align and Translate with Transformer Models" (Garg et al. 2019).

Shapes: B sentences, T queries (target), S keys (source), N target and M source rows, H heads, K size of a head's
queries and keys, V size of a head's values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from nmt.config import ModelConfig
from nmt.model.masks import Attention, Mask
from nmt.model.slots import Slots

_SHALLOW = 3
"""Layers of a decoder whose last one aligns best: measured with two and three."""


def aligning_heads(config: ModelConfig) -> tuple[int, int]:
    """The attention over the encoder that aligns best: a decoder layer, from 0, and how many of its first heads.

    That is the head that learnt it, or else all heads of the last layer; in a deep decoder of the one before it, since
    the last attends to what the next piece needs (Garg et al. 2019).
    """
    if config.alignment_layer is not None:
        return config.alignment_layer - 1, 1
    last = config.decoder_layers - 1
    return (last if config.decoder_layers <= _SHALLOW else last - 1), config.heads


@dataclass
class Guide:
    """Keeps what the head attends to, with its gradient."""

    layer: int
    """The decoder layer of the head, from 1."""
    log_weights: list[Tensor] = field(default_factory=list)
    """The logarithms of its weights (B, T, S), of each pass through the model; any numbers at padding."""

    def around(self, mask: Mask, queries: Slots, keys: Slots, seen_B11S: Tensor) -> Mask:
        """The mask of the head's layer, which also keeps what the head attends to.

        Args:
            seen_B11S: the mask of the padded source.
        """
        return _GuidedMask(mask, queries, keys, seen_B11S[:, 0], self.log_weights)

    def loss(self, aligned_N: Tensor, target: Slots) -> Tensor:
        """-log of the weight of the source piece that each target piece comes from, summed; the mean of all passes.

        Args:
            aligned_N: the number of that piece, from 1; 0 for none.
        """
        aligned_BT1 = target.pad(aligned_N[:, None])
        of_aligned = [log_BTS.gather(2, (aligned_BT1 - 1).clamp(min=0)) for log_BTS in self.log_weights]
        return -torch.where(aligned_BT1 > 0, torch.stack(of_aligned).mean(dim=0), 0).sum()


@dataclass(frozen=True)
class _GuidedMask:
    mask: Mask
    queries: Slots
    keys: Slots
    seen_B1S: Tensor
    log_weights: list[Tensor]

    def attend(self, attention: Attention, query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
        """As :meth:`~nmt.model.masks.Mask.attend`."""
        [query_B1TK], [key_B1SK] = self.queries.spread(query[:, :1]), self.keys.spread(key[:, :1])
        dtype = torch.promote_types(query.dtype, torch.float32)
        with torch.autocast(query.device.type, enabled=False):
            scores_BTS = (query_B1TK.to(dtype) @ key_B1SK.to(dtype).transpose(-1, -2)).squeeze(1)
            scaled_BTS = scores_BTS / math.sqrt(query.shape[-1]) + self.seen_B1S
            self.log_weights.append(torch.log_softmax(scaled_BTS, dim=-1))
        return self.mask.attend(attention, query, key, value, dropout)
