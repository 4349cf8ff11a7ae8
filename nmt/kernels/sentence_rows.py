"""Attention over sentences that lie one after the other as rows, without padding.

Shapes: N and M rows, one per piece of all sentences; H heads, K size of a head; X sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt.kernels.packing import Packing

_LARGEST_HEAD, _HEAD_MULTIPLE = 256, 8
"""The sizes of a head that flash attention takes."""


class SentenceRows(Packing):
    """A batch of a single line that holds all sentences, one after the other."""

    positions: Tensor

    def __init__(self, places_N: Tensor, ends_X: Tensor, longest: int) -> None:
        """Take the sentences' places.

        Args:
            places_N: the position of each row in its sentence.
            ends_X: 0, then where each sentence ends; the last one ends with the last row. Sentences may be empty.
            longest: at least the number of rows of the longest sentence.
        """
        super().__init__(1, len(places_N))
        self.positions = places_N
        self.ends_X = ends_X
        self.longest = longest

    def split_heads(self, x_NX: Tensor, heads: int, sizes: Sequence[int]) -> tuple[Tensor, ...]:
        """Parts of the given sizes, each as rows of heads (N, H, K)."""
        # The gradient of a split into one part would be a copy.
        parts = torch.split(x_NX, list(sizes), dim=-1) if len(sizes) > 1 else [x_NX]
        return tuple(part.view(len(part), heads, -1) for part in parts)

    def merge_heads(self, x_NHK: Tensor) -> Tensor:
        """Rows (N, H · K): the inverse of :meth:`split_heads`."""
        return x_NHK.flatten(1)

    def twice(self) -> SentenceRows:
        """The same sentences, and once more after them."""
        ends = torch.cat([self.ends_X, self.ends_X[1:] + self.rows])
        return SentenceRows(torch.cat([self.positions, self.positions]), ends, self.longest)


SentenceAttention = Callable[[Tensor, Tensor, Tensor, SentenceRows, SentenceRows, bool], Tensor]
"""Equation 1 within each sentence: a function of queries (N, H, K), keys (M, H, K), values (M, H, K), the rows of the
queries, those of the keys, and whether a query attends only to itself and the keys before it; (N, H, K)."""


def masked_attention(
    query_NHK: Tensor, key_MHK: Tensor, value_MHK: Tensor, queries: SentenceRows, keys: SentenceRows, is_causal: bool
) -> Tensor:
    """The plain form of :func:`flash_attention`, which computes the scores of all rows and masks those of others."""
    allowed_NM = _sentences(queries)[:, None] == _sentences(keys)
    if is_causal:
        allowed_NM = allowed_NM & (keys.positions <= queries.positions[:, None])
    query_HNK, key_HMK, value_HMK = (x.transpose(0, 1) for x in (query_NHK, key_MHK, value_MHK))
    return F.scaled_dot_product_attention(query_HNK, key_HMK, value_HMK, attn_mask=allowed_NM).transpose(0, 1)


def _sentences(rows: SentenceRows) -> Tensor:
    """The number of each row's sentence."""
    return torch.searchsorted(
        rows.ends_X, torch.arange(rows.rows, dtype=torch.int32, device=rows.ends_X.device), right=True
    )


@cache
def flash_attention() -> SentenceAttention | None:
    """torch's flash attention over sentences of different lengths, in bf16 or fp16 on a GPU; None before torch 2.10."""
    try:
        # Only here, since this imports torch.compile: two seconds that a CPU has no use for.
        from torch.nn.attention import varlen
    except ImportError:
        return None
    # torch 2.10 has an argument of another name.
    has_window = "window_size" in varlen.varlen_attn.__annotations__
    only_before: dict[str, Any] = {"window_size": (-1, 0)} if has_window else {"is_causal": True}

    def attend(
        query_NHK: Tensor, key_MHK: Tensor, value_MHK: Tensor, queries: SentenceRows, keys: SentenceRows, causal: bool
    ) -> Tensor:
        ends = queries.ends_X, keys.ends_X, queries.longest, keys.longest
        mixed_NHK = varlen.varlen_attn(query_NHK, key_MHK, value_MHK, *ends, **(only_before if causal else {}))
        return cast(Tensor, mixed_NHK)

    return attend


def flash_attention_if_possible(device: torch.device, products: torch.dtype | None) -> SentenceAttention | None:
    """:func:`flash_attention` if this GPU and this torch have it for this dtype: a small one is tried."""
    if products not in (torch.bfloat16, torch.float16) or not torch.cuda.is_available():
        return None
    attend = flash_attention()
    if attend is None:
        return None
    try:
        _try(attend, device, products)
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        return None
    return attend


def _try(attend: SentenceAttention, device: torch.device, dtype: torch.dtype) -> None:
    rows = SentenceRows(
        torch.arange(8, device=device), torch.tensor([0, 8], dtype=torch.int32, device=device), longest=8
    )
    heads = torch.zeros(8, 1, 64, dtype=dtype, device=device, requires_grad=True)
    with torch.enable_grad():
        attend(heads, heads, heads, rows, rows, True).sum().backward()  # type: ignore[no-untyped-call]


def suits_flash_attention(key_size: int, value_size: int) -> bool:
    """Whether flash attention takes heads of these sizes."""
    return key_size == value_size and key_size <= _LARGEST_HEAD and key_size % _HEAD_MULTIPLE == 0
