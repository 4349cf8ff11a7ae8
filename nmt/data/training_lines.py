"""The lines that a vocabulary is trained on: of one data set, or of several, sampled by language."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from nmt.data.language_sampling import resampled, sample_sizes
from nmt.data.shards import SIDES, Side
from nmt.data.vocab import sample
from nmt.data.vocab_record import DataSetText
from nmt.text import NormalizationRule, normalizer, read_lines

SAMPLE_LINES = 2_000_000
"""Maximum number of lines per side to train a vocabulary on: more change little and cost memory."""


def lines_to_train_on(texts: Sequence[DataSetText], rule: NormalizationRule, temperature: float) -> Iterator[str]:
    """All or some lines of the training text.

    Args:
        rule: applied to source text.
        temperature: balances the languages of several data sets.
    """
    if len(texts) > 1:
        yield from _balanced_lines(texts, rule, temperature)
        return
    for side in SIDES:
        yield from training_lines(texts[0], side, rule, SAMPLE_LINES)


def training_lines(text: DataSetText, side: Side, rule: NormalizationRule, limit: int) -> Iterator[str]:
    """At most ``limit`` lines of one side of the training text, evenly spread; the rule is applied to the source."""
    return _normalized(sample(read_lines(text.train(side)), text.lines(side), limit), side, rule)


def language_samples(texts: Sequence[DataSetText], temperature: float) -> dict[str, int]:
    """How many lines of each language a joint vocabulary is trained on; a language in several data sets counts once."""
    return sample_sizes(_lines_by_language(texts), temperature, len(SIDES) * SAMPLE_LINES)


def _lines_by_language(texts: Sequence[DataSetText]) -> dict[str, int]:
    lines: Counter[str] = Counter()
    for text, side in itertools.product(texts, SIDES):
        lines[text.language(side)] += text.lines(side)
    return dict(lines)


def _balanced_lines(texts: Sequence[DataSetText], rule: NormalizationRule, temperature: float) -> Iterator[str]:
    """The sample of each language, evenly spread over all its files."""
    counts = _lines_by_language(texts)
    for language, wanted in language_samples(texts, temperature).items():
        files = (
            _normalized(read_lines(text.train(side)), side, rule)
            for text, side in itertools.product(texts, SIDES)
            if text.language(side) == language
        )
        yield from resampled(itertools.chain.from_iterable(files), counts[language], wanted)


def _normalized(lines: Iterator[str], side: Side, rule: NormalizationRule) -> Iterator[str]:
    return lines if side == "target" else map(source_normalizer(rule), lines)


def source_normalizer(rule: NormalizationRule) -> Callable[[str], str]:
    """A rule for source text as a function of a line."""
    return normalizer(nfc=False, punctuation=False, language="", rule=rule)
