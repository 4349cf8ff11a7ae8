"""The pieces that each sentence's outputs may hold, if the search is given short-lists (:mod:`nmt.data.short_lists`).

The models compute logits for the pieces of all sentences of the batch together, or for the whole vocabulary where these
are too many. From them each sentence takes those of its own list, so its outputs do not depend on the other sentences.

Shapes: B sentences, W hypotheses of each, N = B · W rows, C pieces with logits (V if all), L candidates of a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.data.short_lists import ShortLists
from nmt.device import to_device
from nmt.kernels.packing import rounded_up
from nmt.model.masks import additive_mask
from nmt.special_ids import EOS, PAD

# A copy of a larger share of the projection takes longer than a search gains.
_MAX_SHARE = 0.4
# Libraries compile a product for each pair of a number of rows and a number of pieces, and keep it.
_SIZES_PER_OCTAVE = 2
# The special pieces are the first candidates of every sentence, so their columns are their ids.
_SPECIAL = EOS + 1


@dataclass(frozen=True)
class Candidates:
    """The candidates of the unfinished sentences of a batch."""

    projected_C: Tensor | None
    """The pieces that the models compute logits for; None for all."""
    pieces_BL: Tensor
    """The candidates, ascending, padded on the right."""
    places_BL: Tensor
    """Where the logit of each candidate lies among those that the models compute."""
    mask_BL: Tensor
    """0 for candidates, -inf for padding."""
    column_BV: NDArray[np.int32]
    """The column of each piece among the candidates; -1 if it is none."""

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
        pieces = np.zeros((len(lists), max(map(len, lists))), dtype=np.int64)
        column = np.full((len(lists), vocab_size), -1, dtype=np.int32)
        for row, own in enumerate(lists):
            pieces[row, : len(own)] = own
            column[row, own] = np.arange(len(own))
        is_padding = np.arange(pieces.shape[1]) >= np.array([[len(own)] for own in lists])
        projected = _projected(lists, vocab_size)
        places = pieces if projected is None else np.searchsorted(projected, pieces)
        device = source_BS.device
        return Candidates(
            None if projected is None else to_device(torch.from_numpy(_padded(projected)), device),
            to_device(torch.from_numpy(pieces), device),
            to_device(torch.from_numpy(places), device),
            to_device(additive_mask(torch.from_numpy(is_padding), torch.float32), device),
            column,
        )

    def restrict(self, logits_NC: Tensor) -> Tensor:
        """The logits (N, L) of each sentence's candidates."""
        sentences, choices = self.places_BL.shape
        logits_BWC = logits_NC.view(sentences, -1, logits_NC.shape[1])
        places_BWL = self.places_BL[:, None].expand(-1, logits_BWC.shape[1], -1)
        return (logits_BWC.gather(2, places_BWL) + self.mask_BL[:, None]).view(-1, choices)

    def pieces(self, columns_BW: Tensor) -> Tensor:
        """The pieces (B, W) in these columns."""
        return self.pieces_BL.gather(1, columns_BW)

    def columns(self, sentences: NDArray[Any], pieces: NDArray[Any]) -> NDArray[np.int64]:
        """The columns of pieces that are candidates of their sentences."""
        columns: NDArray[np.int64] = self.column_BV[sentences, pieces].astype(np.int64)
        return columns

    def select(self, sentences_B: Tensor, sentences: Sequence[int]) -> Candidates:
        """Keep only some sentences.

        Args:
            sentences_B: their indices, on the device of the candidates.
            sentences: the same indices.
        """
        return replace(
            self,
            pieces_BL=self.pieces_BL[sentences_B],
            places_BL=self.places_BL[sentences_B],
            mask_BL=self.mask_BL[sentences_B],
            column_BV=self.column_BV[list(sentences)],
        )


def _projected(lists: Sequence[NDArray[np.int64]], vocab_size: int) -> NDArray[np.int64] | None:
    """The pieces of all lists, ascending; None for the whole vocabulary."""
    pieces = np.unique(np.concatenate(lists))
    return None if rounded_up(len(pieces), _SIZES_PER_OCTAVE) > _MAX_SHARE * vocab_size else pieces


def _padded(pieces: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.pad(pieces, (0, rounded_up(len(pieces), _SIZES_PER_OCTAVE) - len(pieces)), constant_values=PAD)


def _without_special(row: list[int]) -> NDArray[np.int64]:
    return np.array([piece for piece in row if piece >= _SPECIAL], dtype=np.int64)
