"""How the updates of a run are divided into micro-batches: by the attention that the model has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from nmt.data.arrays import Indices
from nmt.data.batching import Batch, EpochPlan, rank_micro_batches
from nmt.data.dealing import MicroBatchLimits, dealt_micro_batches
from nmt.model.packing import Lengths, PackedSize
from nmt.special_ids import EOS
from nmt.training.input.model_inputs import ModelInputs, PreparedBatch
from nmt.training.ranks.exchange import Ranks

_HOST = torch.device("cpu")
SideLengths = tuple[Indices, Indices]
"""The pieces of all sources, and of all targets, without eos."""


class MicroBatching(Protocol):
    """A way to divide updates, with a maximum of tokens."""

    @property
    def tokens(self) -> int:
        """What no micro-batch exceeds, in the pieces of one side: with padding or spare rows."""

    def of(self, plan: EpochPlan, index: int, ranks: Ranks, lengths: SideLengths) -> list[Indices]:
        """This rank's micro-batches of an update."""

    def prepared(self, batch: Batch) -> PreparedBatch:
        """A micro-batch ready for the device. Any thread may call this."""

    def full_of(self, longest: int, pieces: int) -> Batch:
        """The micro-batch that needs the most memory: as many of the longest pairs as fit.

        Args:
            pieces: the size of the vocabulary.
        """


@dataclass(frozen=True)
class Padded:
    """For attention that pads sentences: micro-batches of pairs of like length."""

    tokens: int
    """The maximum of pairs times the longest side. A micro-batch of one pair may have more."""
    size_of: Callable[[Lengths], PackedSize] = PackedSize.of
    """Of the model."""
    device: torch.device = _HOST

    def of(self, plan: EpochPlan, index: int, ranks: Ranks, lengths: SideLengths) -> list[Indices]:
        return rank_micro_batches(plan, index, *lengths, rank=ranks.rank, ranks=ranks.size, max_tokens=self.tokens)

    def prepared(self, batch: Batch) -> PreparedBatch:
        inputs = ModelInputs.of(batch, self.size_of(batch.source_lengths_B), self.size_of(batch.target_lengths_B))
        return PreparedBatch.of(batch, inputs, self.device, batch.positions)

    def full_of(self, longest: int, pieces: int) -> Batch:
        return longest_pairs(max(1, self.tokens // longest), longest, pieces)


@dataclass(frozen=True)
class Filled:
    """For attention that needs no padding: micro-batches of pairs of all lengths, all filled up to one size."""

    limits: MicroBatchLimits
    source: PackedSize
    target: PackedSize
    device: torch.device = _HOST

    @staticmethod
    def within(limits: MicroBatchLimits, longest: int, device: torch.device) -> Filled:
        """With the size that these limits need.

        Args:
            longest: the pieces of the longest sentence, with eos.
        """
        source, target = PackedSize.for_all([limits.source, limits.target], limits.pairs, longest)
        return Filled(limits, source, target, device)

    @property
    def tokens(self) -> int:
        return self.limits.tokens

    def of(self, plan: EpochPlan, index: int, ranks: Ranks, lengths: SideLengths) -> list[Indices]:
        return dealt_micro_batches(plan, index, *lengths, rank=ranks.rank, ranks=ranks.size, limits=self.limits)

    def prepared(self, batch: Batch) -> PreparedBatch:
        return PreparedBatch.of(batch, ModelInputs.of(batch, self.source, self.target), self.device, self.tokens)

    def full_of(self, longest: int, pieces: int) -> Batch:
        fitting = min(self.limits.source, self.limits.target) // longest
        return longest_pairs(min(fitting, self.limits.pairs), longest, pieces)


def longest_pairs(count: int, longest: int, pieces: int) -> Batch:
    """A batch of random pairs of ``longest`` pieces on each side, with eos."""
    lengths = np.full(count, longest)
    tokens = np.random.default_rng(0).integers(EOS + 1, pieces, lengths.sum())
    return Batch(tokens, tokens, tokens, lengths, lengths)
