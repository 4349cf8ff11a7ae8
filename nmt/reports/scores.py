"""Scores of systems as text and as a record for JSON."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from nmt.evaluation.robustness import RobustnessSheet
from nmt.evaluation.score_sheet import ScoreSheet
from nmt.evaluation.scored_systems import ScoredSystems
from nmt.evaluation.significance import SystemScore
from nmt.record import Record
from nmt.table import Table
from nmt.text.printable import counted

Found = ScoredSystems | ScoreSheet | RobustnessSheet

_SIGNIFICANT = 0.05


def scores_json(found: Found, test_set: str | None, langpair: str | None, lineage: Record) -> str:
    """All scores as JSON with a line end.

    Args:
        lineage: what they were made from.
    """
    facts = {"test_set": test_set, "langpair": langpair, "lineage": lineage.stored()}
    if isinstance(found, ScoreSheet):
        record = sheet_record(found) | facts
    else:
        record = facts | (robustness_record(found) if isinstance(found, RobustnessSheet) else scores_record(found))
    return json.dumps(record, indent=2, ensure_ascii=False) + "\n"


def formatted_scores(found: Found, test_set: str | None, langpair: str | None) -> str:
    """All scores as lines of text."""
    if isinstance(found, ScoreSheet):
        return sheet_text(found)
    if isinstance(found, RobustnessSheet):
        return robustness_text(found)
    return scores_text(found, "" if test_set is None else f"test set: {test_set}, {langpair}")


def robustness_record(sheet: RobustnessSheet) -> dict[str, Any]:
    """The scores of all variants."""
    return {
        "systems": [
            {
                "system": each.variant,
                "lines": each.lines,
                "scores": [{"name": sheet.metric, "value": each.value, "signature": sheet.signature}],
                "share": each.share,
                "problems": each.problems,
            }
            for each in sheet.scores
        ]
    }


def robustness_text(sheet: RobustnessSheet) -> str:
    """The scores of all variants as a table."""
    table = Table("", ["source", "lines", sheet.metric, "kept", "lines with problems"], numbers=(1, 2, 3))
    for each in sheet.scores:
        problems = ", ".join(f"{problem} {count:,}" for problem, count in each.problems.items())
        table.add(each.variant, f"{each.lines:,}", f"{each.value:.2f}", f"{each.share:.0%}", problems)
    return f"{table.plain()}\n\n{sheet.signature}\n"


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


def sheet_record(sheet: ScoreSheet) -> dict[str, Any]:
    """The sheet for JSON; its signatures stand once."""
    scores = {name: [asdict(score) for score in each] for name, each in sheet.systems.items()}
    for score in itertools.chain(*scores.values()):
        del score["signature"]
    return asdict(sheet) | {"systems": [{"system": name, "scores": each} for name, each in scores.items()]}


def sheet_text(sheet: ScoreSheet) -> str:
    """The sheet as aligned tables."""
    names = list(map(_one_line, sheet.systems))
    parts = [f"references: {sheet.references}, {counted(sheet.lines, 'line')}", _scores(sheet, names).plain()]
    if len(names) > 1:
        about = f"p of the difference from {names[0]}, by paired bootstrap; * below {_SIGNIFICANT}"
        parts.append(f"{about}:\n{_tests(sheet, names).plain()}")
    how = f"{sheet.samples:,} samples, seed {sheet.seed}"
    parts.append(f"± half of the 95 % confidence interval, by bootstrap resampling ({how})")
    parts.append(Table("", [], [list(each) for each in sheet.signatures.items()], numbers=()).plain())
    return "\n\n".join(parts) + "\n"


def _scores(sheet: ScoreSheet, names: list[str]) -> Table:
    table = Table("", ["system", *sheet.signatures])
    for name, scores in zip(names, sheet.systems.values(), strict=True):
        table.add(name, *(f"{score.value:.2f} ± {score.interval:.2f}" for score in scores))
    return table


def _tests(sheet: ScoreSheet, names: list[str]) -> Table:
    """The p-values of all systems but the first, which they are compared with."""
    table = Table("", ["system", *sheet.signatures])
    for name, scores in list(zip(names, sheet.systems.values(), strict=True))[1:]:
        table.add(name, *(_p_value(each.p_bootstrap) for each in scores if each.p_bootstrap is not None))
    return table


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _p_value(value: float) -> str:
    return f"{value:.4f}{'*' if value < _SIGNIFICANT else ''}"
