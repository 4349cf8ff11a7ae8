"""Numbers of lines for messages: how many there are, and the first few."""

from __future__ import annotations

from dataclasses import dataclass, field

_SHOWN = 5


@dataclass
class LineNumbers:
    """Lines of an input of any length."""

    count: int = 0
    first: list[int] = field(default_factory=list)
    """The numbers of the first few."""

    def add(self, number: int) -> None:
        """Count a line."""
        self.count += 1
        if len(self.first) < _SHOWN:
            self.first.append(number)

    def __str__(self) -> str:
        numbers = ", ".join(f"{number:,}" for number in self.first)
        more = self.count - len(self.first)
        return f"line{'s' * (self.count > 1)} {numbers}" + (f" and {more:,} more" if more else "")
