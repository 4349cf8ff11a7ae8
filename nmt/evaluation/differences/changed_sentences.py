"""The sentences whose scores differ most between the systems."""

from __future__ import annotations

from dataclasses import dataclass

from nmt.evaluation.differences.parallel_texts import ParallelTexts
from nmt.evaluation.metrics import make_metric, sentence_scores

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

    a: list[ChangedSentence]
    b: list[ChangedSentence]
    lines_better: tuple[int, int]
    """The number of all lines that A translates better, and of those that B does."""


def changed_sentences(texts: ParallelTexts, samples: int = SAMPLES) -> ChangedSentences:
    """Choose the sentences by the difference of their chrF.

    Args:
        samples: the maximum number of sentences per system.
    """
    a, b = (system.lines for system in texts.systems)
    changed = [line for line in range(len(a)) if a[line] != b[line]]
    if not changed:
        return ChangedSentences([], [], (0, 0))
    references = [[texts.reference.lines[line] for line in changed]]
    metric = make_metric("chrf", sentences=True)
    scores = (sentence_scores(metric, [lines[line] for line in changed], references).values for lines in (a, b))
    chrf = dict(zip(changed, zip(*scores, strict=True), strict=True))
    gains = {line: of_b - of_a for line, (of_a, of_b) in chrf.items()}
    for_a = sorted((line for line in gains if gains[line] < 0), key=lambda line: gains[line])
    for_b = sorted((line for line in gains if gains[line] > 0), key=lambda line: -gains[line])

    def sentence(line: int) -> ChangedSentence:
        source = None if texts.source is None else texts.source.lines[line]
        return ChangedSentence(line + 1, chrf[line], source, texts.reference.lines[line], (a[line], b[line]))

    return ChangedSentences(
        [sentence(line) for line in for_a[:samples]],
        [sentence(line) for line in for_b[:samples]],
        (len(for_a), len(for_b)),
    )
