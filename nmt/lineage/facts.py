"""Facts about a link: as text for people, and as JSON values for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Fact:
    """A fact that holds numbers."""

    text: str
    """With units and separators of thousands."""
    value: Any
    """Of JSON: a number, or an object with numbers."""

    def __str__(self) -> str:
        return self.text


Facts = Mapping[str, str | Fact]
"""Label -> fact."""


def count_of(number: int, unit: str = "") -> Fact:
    """A number of things."""
    return Fact(f"{number:,} {unit}".rstrip(), number)


def counts_of(counts: Mapping[str, int]) -> Fact:
    """Several numbers, each with its name."""
    return Fact(", ".join(f"{name} {count:,}" for name, count in counts.items()), dict(counts))


def json_values(facts: Facts) -> dict[str, Any]:
    """The facts as values of JSON."""
    return {label: fact.value if isinstance(fact, Fact) else fact for label, fact in facts.items()}
