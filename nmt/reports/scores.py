"""Scores of systems, as text and as a record for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from nmt.evaluation.scored_systems import ScoredSystems
from nmt.evaluation.significance import SystemScore


def scores_record(scored: ScoredSystems) -> dict[str, Any]:
    """The scores of all systems, and their comparisons."""
    records = {system: [asdict(each) for each in scores] for system, scores in scored.scores.items()}
    for system, sentences in scored.sentences.items():
        for record, of_sentences in zip(records[system], sentences, strict=False):  # the paper's BLEU comes last
            record["sentences"] = asdict(of_sentences)
    return {
        "systems": [{"hypothesis": system, "scores": scores} for system, scores in records.items()],
        "comparisons": [_comparison_record(list(records), of_metric) for of_metric in scored.comparisons],
    }


def _comparison_record(systems: list[str], scores: Sequence[SystemScore]) -> dict[str, Any]:
    """The scores of all systems by one metric."""
    records = [
        {
            "system": system,
            "value": each.value,
            "mean": each.mean,
            "interval": each.interval,
            "p_value": each.p_bootstrap,
        }
        for system, each in zip(systems, scores, strict=True)
    ]
    return {"name": scores[0].name, "signature": scores[0].signature, "systems": records}


def scores_text(scored: ScoredSystems, heading: str = "") -> str:
    """The scores as lines of text."""
    lines = [heading] if heading else []
    several = len(scored.scores) > 1
    for system, scores in scored.scores.items():
        lines += [f"{system}:"] if several else []
        indent = "  " if several else ""
        lines += [f"{indent}{score.name} = {score.detail}\n{indent}  {score.signature}" for score in scores]
    for of_metric in scored.comparisons:
        lines.append(f"\n{of_metric[0].name}, paired bootstrap against {next(iter(scored.scores))}:")
        for system, found in zip(scored.scores, of_metric, strict=True):
            p_value = "baseline" if found.p_bootstrap is None else f"p = {found.p_bootstrap:.4f}"
            lines.append(f"  {found.value:6.2f}  ({found.mean:.2f} ± {found.interval:.2f})  {p_value}  {system}")
        lines.append(f"  {of_metric[0].signature}")
    return "\n".join(lines) + "\n"
