"""The progress of a run, saved in each checkpoint, and whether the run has ended."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from nmt.checkpoint.scores import Score
from nmt.config import Config, first_mistake
from nmt.option_fields import Precision
from nmt.training.loss_scale import LossScale
from nmt.training.metrics_file import Count, Meter, NonNegative


class Ending(Enum):
    """Why a run ended, in words."""

    UPDATES = "max_updates reached"
    MINUTES = "max_minutes reached"
    PATIENCE = "no better validation score for patience validations"
    INTERRUPTED = "interrupted"


@dataclass
class Progress:
    """The progress of a run, as saved in a checkpoint."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    update: Count = 0
    epoch: Count = 0
    index: Count = 0
    """The index of the next update in the epoch's plan."""
    seconds: NonNegative = 0.0
    """Seconds spent in the loop, over all resumes."""
    validation_seconds: NonNegative = 0.0
    """Duration of the last validation."""
    scores: dict[Count, Score] = field(default_factory=dict)
    """Update -> validation score."""
    validations_without_gain: Count = 0
    skipped: Count = 0
    """The number of updates that were skipped because a gradient was not finite."""
    skipped_in_a_row: Count = 0
    auto_precision: tuple[str, Precision] | None = None
    """The type of device that the run started on, and the precision that ``auto`` chose there. It is kept until the
    end, because a later measurement may choose another precision if two are equally fast."""
    machine: str | None = None
    """The hardware and the number of ranks for which the micro-batch size below was found."""
    micro_batch_asked: int | str | None = None
    """The setting for which the micro-batch size below was found."""
    micro_batch_tokens: Annotated[int, Field(ge=1)] | None = None
    """The maximum of tokens of a micro-batch: as asked, as ``auto`` chose it, or less where that did not fit into
    memory. None before preflight has found it."""
    compiles: bool | None = None
    """Whether ``training.compile: auto`` chose to compile on this machine. It is kept until the end, because another
    measurement of speed may choose otherwise. None before preflight has chosen."""
    loss_scale: LossScale | None = None
    """The scale of the loss; None in other precisions than fp16."""
    unlogged: Meter = field(default_factory=Meter)
    """The updates since the last ``update`` record, so that the next one counts them also in a resumed run."""

    def values(self) -> dict[str, Any]:
        """The progress as JSON values."""
        scores = {str(update): asdict(score) for update, score in self.scores.items()}
        return asdict(self) | {"scores": scores}

    @staticmethod
    def from_values(values: dict[str, Any]) -> Progress:
        """Read what :meth:`values` wrote.

        Raises:
            ValueError: the values are invalid. The message is one sentence.
        """
        try:
            return _PROGRESS.validate_python(values)
        except ValidationError as error:
            raise ValueError(f"{first_mistake(error)}.") from None

    def ending(self, config: Config) -> Ending | None:
        """The limit that the run has reached; None if it is not over."""
        training = config.training
        if training.max_updates is not None and self.update >= training.max_updates:
            return Ending.UPDATES
        if training.max_minutes is not None and self.seconds >= training.max_minutes * 60:
            return Ending.MINUTES
        if training.patience is not None and self.validations_without_gain >= training.patience:
            return Ending.PATIENCE
        return None


_PROGRESS = TypeAdapter(Progress)
