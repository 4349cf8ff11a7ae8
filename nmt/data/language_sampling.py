"""Text of several languages, sampled so that small languages get their share of a joint vocabulary.

The share of a language is proportional to (its share of the lines)^(1/T) for a temperature T: 1 keeps the shares of the
lines, higher temperatures bring them closer together. Arivazhagan et al. (2019, arXiv 1907.05019) take T = 5; the
exponent 0.3 of XLM-R (Conneau et al. 2020, arXiv 1911.02116) is T = 3.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from nmt.errors import VocabularyError

DEFAULT_TEMPERATURE = 5.0
_RANGE = 1.0, 100.0


def check_temperature(temperature: float) -> None:
    """Check a temperature.

    Raises:
        VocabularyError: it is not from 1 to 100.
    """
    low, high = _RANGE
    if not low <= temperature <= high:
        raise VocabularyError(
            f"the sampling temperature is {temperature:g}: give a number from {low:g} (by size) to {high:g} (nearly "
            "equal)."
        )


def sample_sizes(lines: Mapping[str, int], temperature: float, limit: int) -> dict[str, int]:
    """How many lines of each language to train on: together about as many as there are, at most about ``limit``.

    A language may get more lines than it has: then its lines are repeated.

    Args:
        lines: the number of lines of each language.
    """
    total = sum(lines.values())
    weights = {language: (count / max(total, 1)) ** (1 / temperature) for language, count in lines.items() if count}
    return {
        language: max(1, round(min(total, limit) * weights[language] / sum(weights.values()))) if count else 0
        for language, count in lines.items()
    }


def resampled(lines: Iterable[str], count: int, wanted: int) -> Iterator[str]:
    """Yield ``wanted`` of ``count`` lines, evenly spread; if more are wanted, each line that often, or once more."""
    for number, line in enumerate(lines):
        for _ in range((number + 1) * wanted // count - number * wanted // count):
            yield line
