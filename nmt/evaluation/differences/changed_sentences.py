"""The sentences whose scores differ most between the systems."""

from __future__ import annotations

from dataclasses import dataclass

from nmt.evaluation.differences.parallel_texts import ParallelTexts
from nmt.evaluation.metrics import sentence_scores

SAMPLES = 5
"""The default number of sentences per system."""


@dataclass(frozen=True)
class ChangedSentence:
    """A sentence with both translations."""

    line: int
    """The number of its line, from 1."""
    chrf: tuple[float, float]
    """Sentence-level chrF of systems A and B."""
    source: str | None
    reference: str
    hypotheses: tuple[str, str]


@dataclass(frozen=True)
class ChangedSentences:
    """The sentences with the greatest differences in favour of each system, the greatest first."""

    a: tuple[ChangedSentence, ...]
    b: tuple[ChangedSentence, ...]
    lines_better: tuple[int, int]
    """The number of all lines that A translates better, and of those that B does."""


def changed_sentences(texts: ParallelTexts, samples: int = SAMPLES) -> ChangedSentences:
    """Choose the sentences by the difference of their chrF.

    Args:
        samples: the maximum number of sentences per system.
    """
    changed = _chrf_of_changed(texts)
    gains = {line: b - a for line, (a, b) in changed.items()}
    for_a = sorted((line for line in gains if gains[line] < 0), key=lambda line: gains[line])
    for_b = sorted((line for line in gains if gains[line] > 0), key=lambda line: -gains[line])

    def sentence(line: int) -> ChangedSentence:
        a, b = texts.systems
        source = None if texts.source is None else texts.source.lines[line]
        return ChangedSentence(
            line + 1, changed[line], source, texts.reference.lines[line], (a.lines[line], b.lines[line])
        )

    return ChangedSentences(
        tuple(map(sentence, for_a[:samples])), tuple(map(sentence, for_b[:samples])), (len(for_a), len(for_b))
    )


def _chrf_of_changed(texts: ParallelTexts) -> dict[int, tuple[float, float]]:
    """chrF of both systems for each line, from 0, that they translate differently."""
    a, b = (system.lines for system in texts.systems)
    lines = [line for line in range(len(a)) if a[line] != b[line]]
    if not lines:
        return {}
    references = [[texts.reference.lines[line] for line in lines]]
    of_a, of_b = (sentence_scores("chrf", [system[line] for line in lines], references).values for system in (a, b))
    return dict(zip(lines, zip(of_a, of_b, strict=True), strict=True))
