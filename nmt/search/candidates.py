"""The pieces that a batch's outputs may hold, if the search is given short-lists (:mod:`nmt.data.short_lists`).

The models then return logits for the candidates of the batch only: the pieces of any of its sentences' lists. A mask
keeps each sentence to its own list, so its outputs do not depend on the other sentences.

Shapes: B sentences, W hypotheses of each, N = B · W rows, C candidates, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.data.short_lists import ShortLists
from nmt.data.vocab import Vocabulary
from nmt.model.masks import additive_mask

# A copy of a larger share of the projection takes longer than a search gains.
_MAX_SHARE = 0.4
# The special pieces are the first candidates, so their columns are their ids.
_SPECIAL = Vocabulary.EOS + 1


@dataclass(frozen=True)
class Candidates:
    """The candidates of the unfinished sentences of a batch."""

    pieces_C: Tensor
    """The ids, ascending, and at the end repeated padding."""
    are_all: bool
    """Whether the models compute the logits of the whole vocabulary, because there would be too many candidates."""
    mask_BC: Tensor
    """0 for the pieces of a sentence's own list, -inf for the others."""
    column_V: Tensor
    """The column of each piece; -1 if it is none of the candidates."""

    @staticmethod
    def of(
        short_lists: ShortLists, source_BS: Tensor, prefixes: Sequence[Sequence[int]] | None, vocab_size: int
    ) -> Candidates:
        """The candidates of a batch; the pieces of a sentence's prefix are always among them."""
        rows = source_BS.tolist()
        lists = [
            np.union1d(short_lists.of_sentence(_without_special(row)), np.array(prefix, dtype=np.int64))
            for row, prefix in zip(rows, prefixes or [()] * len(rows), strict=True)
        ]
        pieces = np.unique(np.concatenate(lists))
        size = _rounded_up(len(pieces))
        are_all = size > _MAX_SHARE * vocab_size
        if are_all:
            pieces, size = np.arange(vocab_size), vocab_size
        spare = size - len(pieces)
        column = np.full(vocab_size, -1, dtype=np.int64)
        column[pieces] = np.arange(len(pieces))
        allowed = np.zeros((len(lists), len(pieces) + spare), dtype=bool)
        for row, own in enumerate(lists):
            allowed[row, column[own]] = True
        device = source_BS.device
        return Candidates(
            torch.from_numpy(np.pad(pieces, (0, spare), constant_values=Vocabulary.PAD)).to(device),
            are_all,
            additive_mask(torch.from_numpy(~allowed), torch.float32).to(device),
            torch.from_numpy(column).to(device),
        )

    def restrict(self, logits_NC: Tensor) -> Tensor:
        """Set the logits of other sentences' candidates to -inf, in place."""
        logits_NC.view(len(self.mask_BC), -1, logits_NC.shape[1]).add_(self.mask_BC[:, None])
        return logits_NC

    def select(self, sentences_B: Tensor) -> Candidates:
        """Keep only some sentences."""
        return replace(self, mask_BC=self.mask_BC[sentences_B])


def _without_special(row: list[int]) -> NDArray[np.int64]:
    return np.array([piece for piece in row if piece >= _SPECIAL], dtype=np.int64)


def _rounded_up(count: int) -> int:
    """The next power of two, or one and a half times one.

    Libraries compile a product for each pair of a number of rows and a number of candidates, and keep it.
    """
    power = 1 << (count - 1).bit_length()
    return power * 3 // 4 if count <= power * 3 // 4 else power
