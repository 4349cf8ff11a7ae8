"""What came up while lines were translated, counted for the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from nmt.decoding.guard import Problem
from nmt.decoding.translation import Translation


@dataclass
class Tally:
    """Counts of lines."""

    in_parts: int = 0
    doubtful: int = 0
    """With problems of any kind."""
    mended: int = 0
    problems: Counter[Problem] = field(default_factory=Counter)

    def add(self, translation: Translation) -> None:
        """Count a line."""
        self.in_parts += translation.parts > 1
        if translation.guard is not None:
            self.doubtful += 1
            self.mended += translation.guard.mended
            self.problems.update(translation.guard.problems)

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
                f"translations that looked wrong: {self.doubtful:,} ({kinds}); another was found for {self.mended:,} "
                "of them. --format jsonl says which; --no-guard leaves them."
            )
        return remarks
