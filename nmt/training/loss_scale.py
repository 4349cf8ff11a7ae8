"""Loss scaling for fp16 (Micikevicius et al. 2018, Mixed Precision Training, section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from nmt.option_fields import Precision

_FIRST = 2.0**15
_UPDATES_UNTIL_LARGER = 1_000


@dataclass
class LossScale:
    """The factor of an fp16 loss, which keeps small gradients from vanishing."""

    value: Annotated[float, Field(ge=1, allow_inf_nan=False)] = _FIRST
    good_updates: Annotated[int, Field(ge=0, lt=_UPDATES_UNTIL_LARGER)] = 0
    """Updates since the scale last changed."""

    @staticmethod
    def initial(precision: Precision) -> LossScale | None:
        """The scale that a run begins with; None in other precisions than fp16."""
        return LossScale() if precision == "fp16" else None

    def adapt(self, *, overflowed: bool) -> None:
        """Halve the scale after an overflow; double it after 1,000 updates without one."""
        if overflowed:
            self.value, self.good_updates = max(1.0, self.value / 2), 0
            return
        self.good_updates += 1
        if self.good_updates == _UPDATES_UNTIL_LARGER:
            self.value, self.good_updates = self.value * 2, 0
