"""Which precisions the program chooses on this machine, why, and whether the figures agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.doctor.rates import BEAM
from nmt.doctor.speeds import COMPARED, TrainingSpeed, TranslatingSpeed
from nmt.machine.device import Hardware

# A choice within this share of the fastest one is right: repeated measurements differ by as much.
_AS_FAST = 0.9


@dataclass(frozen=True)
class Choice:
    """One choice."""

    subject: str
    taken: str
    reason: str
    measured: dict[str, float]
    """What each of the possible choices reached; more is better."""
    unit: str

    @property
    def is_right(self) -> bool | None:
        """Whether what is taken is the fastest, or as fast; None if there was nothing to compare."""
        if self.taken not in self.measured or len(self.measured) < 2:
            return None
        return self.measured[self.taken] >= _AS_FAST * max(self.measured.values())


def choices(
    small: Hardware, base: Hardware, training: Sequence[TrainingSpeed], translating: Sequence[TranslatingSpeed]
) -> list[Choice]:
    """The precisions that are chosen, with what was measured of each.

    Args:
        small, base: what the program chooses for models of these sizes.
    """
    return [
        Choice(
            "precision of training",
            small.precision,
            small.reason,
            {speed.precision: speed.tokens_per_second for speed in training if speed.preset == COMPARED},
            f"target tokens/s, {COMPARED}",
        ),
        Choice(
            "precision of translating",
            base.precision,
            f"{base.reason}; int8 rounds more, so it is used only if asked for",
            {
                speed.precision: speed.beam_tokens_per_second
                for speed in translating
                if speed.engine.startswith("nmt ") and speed.precision != "int8"
            },
            f"target tokens/s, base, beam {BEAM}",
        ),
    ]
