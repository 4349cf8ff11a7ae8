"""The lines that a vocabulary is trained on: of one data set, or of several, sampled by language.

Small languages get their share of a joint vocabulary: that of a language is proportional to (its share of the
lines)^(1/T) for a temperature T. 1 keeps the shares of the lines, higher temperatures bring them closer together.
Arivazhagan et al. (2019, arXiv 1907.05019) take T = 5; the exponent 0.3 of XLM-R (Conneau et al. 2020, arXiv
1911.02116) is T = 3.3.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from nmt.data.shard_index import SIDES, Side
from nmt.data.vocab import sample
from nmt.data.vocab_record import DataSetText
from nmt.text.lines import read_lines
from nmt.text.steps import TextSteps, normalizer

SAMPLE_LINES = 2_000_000
"""Maximum number of lines per side to train a vocabulary on: more change little and cost memory."""


def lines_to_train_on(texts: Sequence[DataSetText], steps: TextSteps, temperature: float) -> Iterator[str]:
    """All or some lines of the training text.

    Args:
        steps: what text goes through.
        temperature: balances the languages of several data sets.
    """
    if len(texts) > 1:
        yield from _balanced_lines(texts, steps, temperature)
        return
    for side in SIDES:
        yield from training_lines(texts[0], side, steps, SAMPLE_LINES)


def training_lines(text: DataSetText, side: Side, steps: TextSteps, limit: int) -> Iterator[str]:
    """At most ``limit`` lines of one side of the training text, evenly spread, after the steps that give text."""
    return _normalized(sample(read_lines(text.train(side)), text.lines(side), limit), side, steps)


def language_samples(texts: Sequence[DataSetText], temperature: float) -> dict[str, int]:
    """How many lines of each language a joint vocabulary is trained on; a language in several data sets counts once."""
    return sample_sizes(_lines_by_language(texts), temperature, len(SIDES) * SAMPLE_LINES)


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


def _lines_by_language(texts: Sequence[DataSetText]) -> dict[str, int]:
    lines: Counter[str] = Counter()
    for text, side in itertools.product(texts, SIDES):
        lines[text.language(side)] += text.lines(side)
    return dict(lines)


def _balanced_lines(texts: Sequence[DataSetText], steps: TextSteps, temperature: float) -> Iterator[str]:
    """The sample of each language, evenly spread over all its files."""
    counts = _lines_by_language(texts)
    for language, wanted in language_samples(texts, temperature).items():
        files = (
            _normalized(read_lines(text.train(side)), side, steps)
            for text, side in itertools.product(texts, SIDES)
            if text.language(side) == language
        )
        yield from resampled(itertools.chain.from_iterable(files), counts[language], wanted)


def _normalized(lines: Iterator[str], side: Side, steps: TextSteps) -> Iterator[str]:
    of_side = steps.source if side == "source" else steps.target
    return map(normalizer(of_side), lines) if of_side else lines
