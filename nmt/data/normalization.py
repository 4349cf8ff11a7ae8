"""What a normaliser changes in a text: the share of characters, with examples."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from nmt.text.printable import counted

_EXAMPLES = 5


@dataclass(frozen=True)
class Example:
    """A character that a normaliser changes, with its combining marks, and how often it occurs."""

    before: str
    after: str
    count: int

    def __str__(self) -> str:
        return f"{_visible(self.before)}→{_visible(self.after)} ({counted(self.count, 'time')})"


@dataclass(frozen=True)
class Changes:
    """What a normaliser changes in some lines."""

    characters: int
    """The number of characters in the lines."""
    changed: int
    """The number of characters that are changed."""
    examples: tuple[Example, ...]
    """The most frequent changes, most frequent first."""

    @property
    def share(self) -> float:
        """The share of characters that are changed."""
        return self.changed / max(self.characters, 1)


def count_changes(lines: Iterable[str], normalize: Callable[[str], str]) -> Changes:
    """Count what a normaliser changes, character by character; a letter and its combining marks count together."""
    characters = 0
    found: Counter[str] = Counter()
    for line in lines:
        characters += len(line)
        if normalize(line) != line:
            found.update(_with_marks(line))
    changes = {before: after for before in found if (after := normalize(before)) != before}
    most = sorted(changes, key=lambda before: (-found[before], before))[:_EXAMPLES]
    return Changes(
        characters,
        sum(found[before] * len(before) for before in changes),
        tuple(Example(before, changes[before], found[before]) for before in most),
    )


def _with_marks(line: str) -> Iterator[str]:
    """Each character with the combining marks that follow it."""
    begin = 0
    for place in range(1, len(line) + 1):
        if place == len(line) or not unicodedata.combining(line[place]):
            yield line[begin:place]
            begin = place


def _visible(text: str) -> str:
    """Text with invisible characters shown as code points."""
    if not text.strip(" "):
        return "space" if text else "nothing"
    return "".join(
        f"U+{ord(character):04X}" if unicodedata.category(character)[0] in "CZ" else character for character in text
    )
