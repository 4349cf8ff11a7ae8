"""The variants of attention that the paper discusses: unscaled, additive (section 3.2.1) and restricted (section 4).

Section 4 proposes self-attention that is restricted to a neighbourhood, for long inputs. Here a query attends to the
nearest ``before`` positions before it, to itself, and to the nearest ``after`` positions after it. Only this band of
the scores is computed: the queries are cut into blocks, and each block attends to its window of keys as if it were a
sentence of its own. So time and memory grow linearly with the length.

Shapes: B sentences, T queries (target), S keys (source), H heads, K size of a head's queries and keys, V size of a
head's values; N blocks of a sentence, C queries of a block, W keys of a block (its window), X blocks of all sentences.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.model.masks import AdditiveMask, Attention, PaddedMask, additive_mask

MIN_BLOCK = 32
"""Smaller blocks save scores, but their products are too small for the processor."""


def unscaled(attention: Attention) -> Attention:
    """Dot-product attention without 1/sqrt(d_k) (section 3.2.1): the queries are multiplied by sqrt(d_k) before."""

    def attend(query_BHTK: Tensor, key_BHSK: Tensor, value_BHSV: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
        return attention(query_BHTK * math.sqrt(query_BHTK.shape[-1]), key_BHSK, value_BHSV, mask, dropout)

    return attend


class AdditiveAttention(nn.Module):
    """Attention whose scores are v^T tanh(query + key), with a vector v per head (Bahdanau et al. 2015).

    The projections of queries and keys are those of the paper's heads. The sums of all pairs are held in memory: d_k
    times as many numbers as the scores.
    """

    __call__: Callable[..., Tensor]

    def __init__(self, heads: int, key_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, key_size, 1))
        bound = math.sqrt(6 / (key_size + 1))  # Glorot, for K inputs and one output
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(
        self, query_BHTK: Tensor, key_BHSK: Tensor, value_BHSV: Tensor, mask: Tensor | None, dropout: float
    ) -> Tensor:
        """As :func:`attention`."""
        # The product below would copy the sums of heads that do not lie together.
        query_BHTK, key_BHSK = query_BHTK.contiguous(), key_BHSK.contiguous()
        sums_BHTSK = (query_BHTK[:, :, :, None] + key_BHSK[:, :, None]).tanh_()
        scores_BHTS = (sums_BHTSK @ self.weight[:, None]).squeeze(-1)
        weights_BHTS = torch.softmax(scores_BHTS if mask is None else scores_BHTS + mask, dim=-1)
        return F.dropout(weights_BHTS, dropout) @ value_BHSV


def source_neighbourhood(mask_B11S: Tensor, neighbours: int) -> PaddedMask:
    """The mask of the encoder's self-attention: pieces within ``neighbours`` positions on either side.

    Args:
        mask_B11S: 0 at pieces, -inf at padding.
    """
    return neighbourhood(mask_B11S[:, 0, 0] < 0, neighbours, neighbours, mask_B11S.dtype)


def target_neighbourhood(length: int, neighbours: int, dtype: torch.dtype, device: torch.device) -> PaddedMask:
    """The mask of the decoder's self-attention over a whole target: each piece, and the nearest before it."""
    no_padding_1T = torch.zeros(1, length, dtype=torch.bool, device=device)
    return neighbourhood(no_padding_1T, neighbours, 0, dtype)


def neighbourhood(padding_BS: Tensor, before: int, after: int, dtype: torch.dtype) -> PaddedMask:
    """The mask of restricted self-attention (section 4).

    Args:
        padding_BS: the keys that are forbidden to all queries but themselves. A row of their own keeps their weights
            finite; nothing reads them.
        before: the number of positions before each query that it may attend to.
        after: the number of positions after it.
    """
    length = padding_BS.shape[1]
    before, after = min(before, length), min(after, length)
    block = _block(before, after)
    if length**2 <= -(-length // block) * block * (before + block + after):
        # The band has no fewer scores than there are pairs.
        position = torch.arange(length, device=padding_BS.device)
        is_near_TS = _is_near(position, position, before, after)
        is_itself_TS = torch.eye(length, dtype=torch.bool, device=padding_BS.device)
        allowed_BTS = is_near_TS & (~padding_BS[:, None, :] | is_itself_TS)
        return AdditiveMask(additive_mask(~allowed_BTS, dtype)[:, None])
    return Neighbourhood.of(padding_BS, before, after, dtype)


@dataclass(frozen=True)
class Neighbourhood:
    """The band of restricted self-attention, in blocks. Make it by :func:`neighbourhood`."""

    before: int
    after: int
    length: int
    mask_BNCW: Tensor
    """0 or -inf for each query of a block and each key of its window."""

    @staticmethod
    def of(padding_BS: Tensor, before: int, after: int, dtype: torch.dtype) -> Neighbourhood:
        """The band of a padded batch; arguments as for :func:`neighbourhood`."""
        length, device, block = padding_BS.shape[1], padding_BS.device, _block(before, after)
        query_C = torch.arange(block, device=device) + before
        key_W = torch.arange(before + block + after, device=device)
        is_near_CW, is_itself_CW = _is_near(query_C, key_W, before, after), query_C[:, None] == key_W
        spare = -length % block
        padding_BNW = F.pad(padding_BS, (before, spare + after), value=True).unfold(1, len(key_W), block)
        allowed_BNCW = is_near_CW & (~padding_BNW[:, :, None, :] | is_itself_CW)
        return Neighbourhood(before, after, length, additive_mask(~allowed_BNCW, dtype))

    def attend(
        self, attention: Attention, query_BHTK: Tensor, key_BHSK: Tensor, value_BHSV: Tensor, dropout: float
    ) -> Tensor:
        """As :meth:`~nmt.model.masks.PaddedMask.attend`."""
        sentences, heads, _, size = query_BHTK.shape
        blocks, block = self.mask_BNCW.shape[1:3]
        query_BHTK = F.pad(query_BHTK, (0, 0, 0, blocks * block - self.length))
        query_XHCK = query_BHTK.reshape(sentences, heads, blocks, block, size).transpose(1, 2).flatten(0, 1)
        mask_X1CW = self.mask_BNCW.expand(sentences, -1, -1, -1).flatten(0, 1)[:, None]
        mixed_XHCV = attention(query_XHCK, self._windows(key_BHSK), self._windows(value_BHSV), mask_X1CW, dropout)
        mixed_BHNCV = mixed_XHCV.view(sentences, blocks, *mixed_XHCV.shape[1:]).transpose(1, 2)
        return mixed_BHNCV.flatten(2, 3)[:, :, : self.length]

    def _windows(self, x_BHSK: Tensor) -> Tensor:
        """The window of each block of each sentence (B · N, H, W, K)."""
        block, window = self.mask_BNCW.shape[2:]
        x_BHSK = F.pad(x_BHSK, (0, 0, self.before, -self.length % block + self.after))
        return x_BHSK.unfold(2, window, block).permute(0, 2, 1, 4, 3).flatten(0, 1)


def _block(before: int, after: int) -> int:
    # With blocks as long as the neighbourhood, half of the computed scores lie within the band.
    return max(before + after, MIN_BLOCK)


def _is_near(query_T: Tensor, key_S: Tensor, before: int, after: int) -> Tensor:
    distance_TS = key_S - query_T[:, None]
    return (-before <= distance_TS) & (distance_TS <= after)
