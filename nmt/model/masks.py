"""Which keys each query may attend to: all pieces, or the pieces so far. For a neighbourhood, see
:mod:`nmt.model.variants`.

Shapes: B sentences, T queries (target), S keys (source), H heads, K size of a head's queries and keys, V size of a
head's values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from nmt.kernels.policy import AttentionKernel
from nmt.kernels.sentence_rows import SentenceAttention, SentenceRows
from nmt.special_ids import EOS, PAD


def additive_mask(forbidden: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where a query may attend to a key, -inf where it is forbidden. No row may be forbidden throughout."""
    return torch.zeros(forbidden.shape, dtype=dtype, device=forbidden.device).masked_fill_(forbidden, -torch.inf)


def unseen_source(source_BS: Tensor, *, sees_eos: bool) -> Tensor:
    """The positions of sources that no query attends to: padding, and eos if the model does not see it.

    An eos without pieces before it is always seen, because no row may be masked throughout.
    """
    padding_BS = source_BS == PAD
    if sees_eos:
        return padding_BS
    eos_BS = source_BS == EOS
    eos_BS[:, 0] = False
    return padding_BS | eos_BS


class Mask(Protocol):
    """Which keys each query may attend to."""

    def attend(
        self, attention: AttentionKernel, query_BHTK: Tensor, key_BHSK: Tensor, value_BHSV: Tensor, dropout: float
    ) -> Tensor:
        """Apply ``attention`` to the allowed keys; (B, H, T, V)."""
        ...


@dataclass(frozen=True)
class AdditiveMask:
    """A number for each pair of query and key, which is added to its score."""

    mask: Tensor
    """0 or -inf, broadcast to (B, H, T, S); see :func:`additive_mask`."""

    def attend(
        self, attention: AttentionKernel, query_BHTK: Tensor, key_BHSK: Tensor, value_BHSV: Tensor, dropout: float
    ) -> Tensor:
        """As :meth:`Mask.attend`."""
        return attention(query_BHTK, key_BHSK, value_BHSV, self.mask, dropout)


@dataclass(frozen=True)
class SentenceMask:
    """Each query attends to its own sentence, where sentences lie one after the other as rows."""

    within_sentences: SentenceAttention
    queries: SentenceRows
    keys: SentenceRows
    is_causal: bool
    """Whether a query attends only to itself and to the keys before it."""

    def attend(self, attention: AttentionKernel, query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
        """As :meth:`Mask.attend`, by an attention of its own and without dropout; heads are rows (N, H, K)."""
        return self.within_sentences(query, key, value, self.queries, self.keys, self.is_causal)


def causal_mask(target_BT: Tensor, dtype: torch.dtype) -> AdditiveMask:
    """The mask of the decoder's self-attention over a whole target: each piece, and those before it.

    Padding needs no mask: it comes after all pieces that may attend to it.
    """
    length = target_BT.shape[1]
    later_TT = torch.ones(length, length, dtype=torch.bool, device=target_BT.device).triu(1)
    return AdditiveMask(additive_mask(later_TT, dtype))
