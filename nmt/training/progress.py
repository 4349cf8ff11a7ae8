"""Where a run stands, and whether it is over. What is here goes into each checkpoint."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from nmt.config import Config, first_mistake
from nmt.device import Precision
from nmt.training.schedule import DecaySpan


class Ending(Enum):
    """Why a run ended, for people."""

    UPDATES = "max_updates reached"
    MINUTES = "max_minutes reached"
    SCHEDULE = "the learning rate reached 0"
    PATIENCE = "no better validation score for patience validations"
    INTERRUPTED = "interrupted"


Count = Annotated[int, Field(ge=0, lt=1 << 53)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass
class Progress:
    """Where a run stands."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    update: Count = 0
    epoch: Count = 0
    index: Count = 0
    """The next update of the epoch's plan."""
    seconds: NonNegative = 0.0
    """Spent in the loop, all resumes together."""
    scores: dict[Count, float] = field(default_factory=dict)
    """Of each validation by update, more is better."""
    validations_without_gain: Count = 0
    skipped: Count = 0
    """Updates that changed nothing, since a gradient was not finite."""
    skipped_in_a_row: Count = 0
    auto_precision: tuple[str, Precision] | None = None
    """The type of device that the run began on, and what precision ``auto`` came to there. It holds until the end: a
    later trial may find otherwise where the two are close."""
    machine: str | None = None
    """Hardware and number of ranks, which what was found out about memory holds for."""
    micro_batch_asked: int | str | None = None
    """The setting, which it holds for too."""
    micro_batch_tokens: Count | None = None
    """What ``auto`` came to."""
    micro_batch_limit: Count | None = None
    """Set where a larger micro-batch did not fit into memory."""
    loss_scale: NonNegative | None = None
    loss_scale_good_updates: Count = 0
    decay_span: DecaySpan | None = None
    """Where a decay began that lands on a limit of time."""
    landing_minutes: float | None = None
    """That limit."""

    def values(self) -> dict[str, Any]:
        """As JSON."""
        scores = {str(update): score for update, score in self.scores.items()}
        return asdict(self) | {"scores": scores, "decay_span": self.decay_span and list(self.decay_span)}

    @staticmethod
    def from_values(values: dict[str, Any]) -> Progress:
        """Read what :meth:`values` wrote.

        Raises:
            ValueError: it is something else; says in one sentence what.
        """
        try:
            return _PROGRESS.validate_python(values)
        except ValidationError as error:
            raise ValueError(f"{first_mistake(error)}.") from None

    def ending(self, config: Config) -> Ending | None:
        """Whether the run is over by its limits."""
        training = config.training
        if training.max_updates is not None and self.update >= training.max_updates:
            return Ending.UPDATES
        if training.max_minutes is not None and self.seconds >= training.max_minutes * 60:
            return Ending.MINUTES
        if self.decay_span is not None and self.update >= self.decay_span.last:
            return Ending.SCHEDULE
        if training.patience is not None and self.validations_without_gain >= training.patience:
            return Ending.PATIENCE
        return None


_PROGRESS = TypeAdapter(Progress)
