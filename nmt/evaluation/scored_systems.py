"""The scores of one or several systems by several metrics, and what is known of the files that they are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.data.data_folder import DataFolder
from nmt.data.manifest import read_manifest
from nmt.evaluation.metrics import MetricName, Score, SentenceScores, make_metric, score, sentence_scores
from nmt.evaluation.paper_bleu import paper_bleu
from nmt.evaluation.significance import SystemScore, evaluate
from nmt.text.languages import language_of_name


@dataclass(frozen=True)
class ScoredSystems:
    """The scores of systems, in the order of the metrics."""

    scores: dict[str, list[Score]]
    """For each system its scores; the paper's BLEU comes last."""
    comparisons: list[tuple[SystemScore, ...]]
    """For each metric the systems, compared with the first by paired bootstrap resampling; empty for one system."""
    sentences: dict[str, list[SentenceScores]]
    """For each system the scores of its sentences by each metric, if they were asked for."""


def score_systems(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    names: Sequence[MetricName],
    *,
    paper_language: str | None = None,
    with_sentences: bool = False,
    **how: Any,
) -> ScoredSystems:
    """Score systems, and compare each with the first.

    Args:
        systems: lines of each system by its name.
        references: for each reference translation, a list with as many lines as a system has.
        paper_language: add the paper's BLEU, with the tokeniser of this language.
        how: as :func:`nmt.evaluation.metrics.make_metric` takes it.

    Raises:
        DataError: the numbers of lines differ or are 0.
    """
    metrics = [make_metric(name, **how) for name in names]
    scores = {system: [score(each, lines, references) for each in metrics] for system, lines in systems.items()}
    if paper_language is not None:
        for system, lines in systems.items():
            scores[system].append(paper_bleu(lines, references, target_lang=paper_language))
    compared = evaluate(systems, references, metrics).values() if len(systems) > 1 else []
    sentences: dict[str, list[SentenceScores]] = {}
    if with_sentences:
        of_sentences = [make_metric(name, sentences=True, **how) for name in names]
        sentences = {
            system: [sentence_scores(each, lines, references) for each in of_sentences]
            for system, lines in systems.items()
        }
    return ScoredSystems(scores, list(zip(*compared, strict=True)), sentences)


def reference_language(reference: Path) -> str:
    """The language of a reference: by its name, or by the manifest beside it; empty if neither says it."""
    if of_name := language_of_name(reference):
        return of_name
    if DataFolder(reference.parent).manifest.is_file():
        return read_manifest(reference.parent).target_lang
    return ""
