"""What came up while lines were translated, counted for the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from nmt.decoding.guard import Problem
from nmt.decoding.translation import Translation

_LINES_NAMED = 5


@dataclass
class Tally:
    """Counts of lines."""

    in_parts: int = 0
    doubtful: int = 0
    """Lines whose translations had problems of any kind."""
    repaired: int = 0
    not_repaired: list[int] = field(default_factory=list)
    """The numbers of the first lines whose translations were left with problems."""
    problems: Counter[Problem] = field(default_factory=Counter)

    def add(self, number: int, translation: Translation) -> None:
        """Count a line.

        Args:
            number: of the line, from 1.
        """
        self.in_parts += translation.parts > 1
        if translation.guard is not None:
            self.doubtful += 1
            self.repaired += translation.guard.repaired
            self.problems.update(translation.guard.problems)
            if not translation.guard.repaired and len(self.not_repaired) < _LINES_NAMED:
                self.not_repaired.append(number)

    def remarks(self, max_source_length: int, *, guard: bool, prefixed: bool) -> list[str]:
        """What a person should know, a sentence each; mostly nothing.

        Args:
            prefixed: translations were to begin with something.
        """
        remarks = []
        if self.in_parts:
            remarks.append(
                f"lines translated in parts: {self.in_parts:,}. They have more sentences than the model was trained "
                f"for, or more than {max_source_length} pieces."
                + (" Their prefixes were left out." if prefixed else "")
            )
        if self.doubtful and guard:
            kinds = ", ".join(f"{kind.replace('_', ' ')} {count:,}" for kind, count in self.problems.most_common())
            remarks.append(
                f"translations that looked wrong: {self.doubtful:,} ({kinds}); repaired: {self.repaired:,}."
                f"{self._not_repaired()} --guard-report FILE lists all; --no-guard repairs none."
            )
        return remarks

    def _not_repaired(self) -> str:
        count = self.doubtful - self.repaired
        if not count:
            return ""
        numbers = ", ".join(f"{number:,}" for number in self.not_repaired)
        more = count - len(self.not_repaired)
        return f" Not repaired: line{'s' * (count > 1)} {numbers}" + (f" and {more:,} more." if more else ".")
