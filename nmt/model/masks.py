"""Which keys each query may attend to: all pieces of its sentence, or the pieces so far. For a neighbourhood, see
:mod:`nmt.model.variants`.

Shapes: N query and M key rows; B sentences, T queries (target), S keys (source), H heads, K size of a head's queries
and keys, V size of a head's values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from nmt.model.packing import PackedAttention, PackedSequences
from nmt.model.slots import Slots
from nmt.special_ids import EOS

Attention = Callable[[Tensor, Tensor, Tensor, Tensor | None, float], Tensor]
"""A function of queries (B, H, T, K), keys (B, H, S, K), values (B, H, S, V), a mask that is added to the scores, and
the probability of dropout; (B, H, T, V)."""

StepAttention = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""Equation 1 in a step of a search whose length is on the device: a function of queries (B, H, W, K), the keys and
values of all slots (B, H, X, K), a mask that is added to the scores (B, W, X), and the number of pieces before the step
(1). W slots belong to each piece, those of the step included; later ones are not read. (B, H, W, K)."""


class Mask(Protocol):
    """Which keys each query may attend to, for heads of rows."""

    def attend(self, attention: Attention, query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
        """Apply ``attention`` to queries (N, H, K), keys (M, H, K) and values (M, H, V); (N, H, V)."""
        ...


class PaddedMask(Protocol):
    """Which keys each query may attend to, for heads of padded sentences."""

    def attend(
        self, attention: Attention, query_BHTK: Tensor, key_BHSK: Tensor, value_BHSV: Tensor, dropout: float
    ) -> Tensor:
        """Apply ``attention`` to the allowed keys; (B, H, T, V)."""
        ...


@dataclass(frozen=True)
class AdditiveMask:
    """A number for each pair of query and key, which is added to its score."""

    mask: Tensor
    """0 or -inf, broadcast to (B, H, T, S); see :func:`additive_mask`."""

    def attend(
        self, attention: Attention, query_BHTK: Tensor, key_BHSK: Tensor, value_BHSV: Tensor, dropout: float
    ) -> Tensor:
        """As :meth:`PaddedMask.attend`."""
        return attention(query_BHTK, key_BHSK, value_BHSV, self.mask, dropout)


@dataclass(frozen=True)
class SoFarMask:
    """The past of each hypothesis of a step, by an attention that reads no slot behind that step."""

    step_attention: StepAttention
    past_BWX: Tensor
    """0 where a piece is a hypothesis' own past, -inf where it is not."""
    length_1: Tensor
    """The number of pieces before the step."""

    def attend(
        self, attention: Attention, query_BHTK: Tensor, key_BHSK: Tensor, value_BHSV: Tensor, dropout: float
    ) -> Tensor:
        """As :meth:`PaddedMask.attend`, without dropout."""
        return self.step_attention(query_BHTK, key_BHSK, value_BHSV, self.past_BWX, self.length_1)


@dataclass(frozen=True)
class PaddedRows:
    """Each query attends within its sentence. For this alone the sentences are padded."""

    queries: Slots
    keys: Slots | None
    """Those of the keys; None if keys and values are padded already (B, H, S, K)."""
    mask: PaddedMask

    def attend(self, attention: Attention, query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
        """As :meth:`Mask.attend`."""
        rows = len(query)
        if self.keys is self.queries:
            query, key, value = self.queries.spread(query, key, value)
        else:
            [query] = self.queries.spread(query)
            key, value = (key, value) if self.keys is None else self.keys.spread(key, value)
        return self.queries.collect(self.mask.attend(attention, query, key, value, dropout), rows)


@dataclass(frozen=True)
class PackedMask:
    """Each query attends within its sentence, by an attention that knows where sentences end."""

    packed_attention: PackedAttention
    queries: PackedSequences
    keys: PackedSequences
    is_causal: bool
    """Whether a query attends only to itself and to the keys before it."""

    def attend(self, attention: Attention, query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
        """As :meth:`Mask.attend`, without dropout."""
        return self.packed_attention(query, key, value, self.queries, self.keys, self.is_causal)


def additive_mask(forbidden: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where a query may attend to a key, -inf where it is forbidden. No row may be forbidden throughout."""
    return torch.zeros(forbidden.shape, dtype=dtype, device=forbidden.device).masked_fill_(forbidden, -torch.inf)


def source_mask(source: PackedSequences, dtype: torch.dtype, *, sees_eos: bool) -> Tensor:
    """0 at pieces, -inf at padding and at an eos that the model does not see (B, 1, 1, S).

    An eos without pieces before it is always seen, because no row may be masked throughout.
    """
    slots = source.slots
    unseen_BS = slots.empty
    if unseen_BS is None:
        unseen_BS = torch.zeros(slots.sentences, slots.length, dtype=torch.bool, device=source.tokens_N.device)
    if not sees_eos:
        eos_N = (source.tokens_N == EOS) & (source.positions_N > 0)
        unseen_BS = unseen_BS | slots.pad(eos_N[:, None])[:, :, 0]
    return additive_mask(unseen_BS, dtype)[:, None, None, :]


def causal_mask(length: int, dtype: torch.dtype, device: torch.device) -> AdditiveMask:
    """The mask of the decoder's self-attention over a whole target: each piece, and those before it.

    Padding needs no mask: it comes after all pieces that may attend to it.
    """
    later_TT = torch.ones(length, length, dtype=torch.bool, device=device).triu(1)
    return AdditiveMask(additive_mask(later_TT, dtype))
