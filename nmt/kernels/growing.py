"""A tensor that grows in place, so that a step of a search does not copy the keys and values of earlier steps.

Shapes: B sentences, H heads, X positions held, W positions added, K size of a head.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Growing:
    """Grows along X as by ``torch.cat``. Appending writes into the memory of this value: append to each value once."""

    buffer_BHXK: Tensor
    """Filled up to :attr:`length`."""
    length: int = 0

    def last(self, positions: int) -> Tensor:
        """The positions appended last (B, H, X, K)."""
        return self.buffer_BHXK[:, :, self.length - positions : self.length]

    def append(self, new_BHWK: Tensor, room: int) -> Growing:
        """Add positions.

        Args:
            room: further positions to make room for, if there is no room for the new ones.
        """
        buffer_BHXK, length = self.buffer_BHXK, self.length + new_BHWK.shape[2]
        if length > buffer_BHXK.shape[2]:
            sentences, heads, _, size = new_BHWK.shape
            buffer_BHXK = new_BHWK.new_empty(sentences, heads, length + room, size)
            buffer_BHXK[:, :, : self.length] = self.last(self.length)
        buffer_BHXK[:, :, self.length : length] = new_BHWK
        return Growing(buffer_BHXK, length)

    def select(self, sentences_B: Tensor) -> Growing:
        """Keep only some sentences."""
        return Growing(self.buffer_BHXK.index_select(0, sentences_B), self.length)
