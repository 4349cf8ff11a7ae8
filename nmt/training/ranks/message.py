"""The message that ranks exchange once per update: a row of figures that is summed with the gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from nmt.data.batching import Batch
from nmt.machine.device import begin_to_host, to_device
from nmt.training.loss import Losses
from nmt.training.ranks.exchange import Ranks

# Sums over all ranks: two losses, source tokens, votes to stop, the run's seconds.
_SUMS = 5
# Then three figures in a place of each rank: target tokens, busy seconds, and if its memory ended, positions that fit.
_PER_RANK = 3
_FITTING = 2


class UpdateOutcome(Enum):
    """What became of an update, on all ranks alike."""

    DONE = "done"
    SKIPPED = "skipped"
    """Nothing changed, because a gradient was not finite."""
    AGAIN = "again"
    """Nothing changed, because a micro-batch did not fit into the memory of a rank: make it again from smaller ones."""


@dataclass(frozen=True)
class Report:
    """The part of a rank's message that the training loop knows."""

    wants_to_stop: bool = False
    run_seconds: float = 0.0
    """Of the whole run; the main rank's value counts."""
    busy_seconds: float = 0.0
    """Of this update, with the wait for data, without that for other ranks. On a GPU: the time that its work for the
    previous update took; 0 in the first update."""


@dataclass(frozen=True)
class UpdateResult:
    """The result of an update over all ranks, the same on each; losses are means over target tokens, in nats."""

    smoothed_loss: float
    cross_entropy: float
    target_tokens: int
    source_tokens: int
    gradient_norm: float
    """Before clipping; finite only where the update was done."""
    rank_tokens_per_second: tuple[float, ...]
    """Target tokens of each rank per second of its busy time."""
    wants_to_stop: bool
    """Whether any rank does."""
    run_seconds: float
    fitting_tokens: int | None = None
    """If the update must be made again: positions of a micro-batch that is likely to fit on every rank."""

    @property
    def outcome(self) -> UpdateOutcome:
        """What became of it."""
        if self.fitting_tokens is not None:
            return UpdateOutcome.AGAIN
        return UpdateOutcome.DONE if math.isfinite(self.gradient_norm) else UpdateOutcome.SKIPPED


class Message:
    """The figures of one update, in a row of memory that ranks sum."""

    def __init__(self, row: Tensor, ranks: Ranks) -> None:
        """Use a row of :meth:`length` numbers, all zero."""
        self._row = row
        self._ranks = ranks

    @staticmethod
    def length(ranks: Ranks) -> int:
        """How many numbers the row has."""
        return _SUMS + _PER_RANK * ranks.size

    def add_losses(self, losses: Losses) -> None:
        """Add the losses of a micro-batch; the host does not wait for the device."""
        self._row[0] += losses.smoothed.detach()
        self._row[1] += losses.cross_entropy

    def write(self, batches: Sequence[Batch], report: Report, fitting_tokens: int | None = None) -> None:
        """Fill in the rest before ranks sum the row.

        Args:
            fitting_tokens: positions of a micro-batch that is likely to fit, if one did not fit.
        """
        target_tokens = sum(batch.target_tokens for batch in batches)
        source_tokens = sum(batch.source_tokens for batch in batches)
        run_seconds = report.run_seconds if self._ranks.is_main else 0.0
        sums = torch.tensor([source_tokens, report.wants_to_stop, run_seconds])
        places = torch.zeros(self._ranks.size, _PER_RANK)
        places[self._ranks.rank] = torch.tensor([target_tokens, report.busy_seconds, fitting_tokens or 0])
        self._row[2:] = to_device(torch.cat([sums, places.flatten()]).to(self._row.dtype), self._row.device)

    def infinite_if_again(self, norm: Tensor) -> Tensor:
        """The norm of summed gradients; infinite where a rank had not all of its own, so that nothing changes."""
        return torch.where(self._row[_SUMS + _FITTING :: _PER_RANK].amax() > 0, torch.inf, norm)

    def begin_to_host(self, norm: Tensor) -> Callable[[], Tensor]:
        """Begin to copy the summed row to the host, followed by the norm of the gradients; the result waits for it."""
        return begin_to_host(torch.cat([self._row, norm[None]]))

    @staticmethod
    def read(row_and_norm: Tensor, target_tokens: int) -> UpdateResult:
        """Read a summed row.

        Args:
            target_tokens: of the update, over all ranks.
        """
        values: list[float] = row_and_norm.tolist()
        smoothed, cross_entropy, source_tokens, votes, run_seconds = values[:_SUMS]
        tokens, seconds, fitting = (values[_SUMS + i : -1 : _PER_RANK] for i in range(_PER_RANK))
        return UpdateResult(
            smoothed_loss=smoothed / target_tokens,
            cross_entropy=cross_entropy / target_tokens,
            target_tokens=target_tokens,
            source_tokens=round(source_tokens),
            gradient_norm=values[-1],
            rank_tokens_per_second=tuple(t / s if s else 0.0 for t, s in zip(tokens, seconds, strict=True)),
            wants_to_stop=votes > 0,
            run_seconds=run_seconds,
            fitting_tokens=min((round(size) for size in fitting if size), default=None),
        )
