"""A score sheet as text, Markdown or LaTeX."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal, assert_never

from nmt.evaluation.score_sheet import ScoreSheet
from nmt.evaluation.significance import SystemScore
from nmt.reports.text_table import TextTable

SheetForm = Literal["text", "markdown", "latex"]

_SIGNIFICANT = 0.05
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}", "<": r"\textless{}",
        ">": r"\textgreater{}",
    }
)  # fmt: skip


def formatted_sheet(sheet: ScoreSheet, form: SheetForm) -> str:
    """The sheet as lines of text."""
    match form:
        case "text":
            return _as_text(sheet)
        case "markdown":
            return _as_markdown(sheet)
        case "latex":
            return _as_latex(sheet)
        case _:
            assert_never(form)


def sheet_record(sheet: ScoreSheet) -> dict[str, Any]:
    """The sheet for JSON; its signatures stand once."""
    scores = {name: [asdict(score) for score in each] for name, each in sheet.systems.items()}
    for score in itertools.chain(*scores.values()):
        del score["signature"]
    return asdict(sheet) | {"systems": [{"system": name, "scores": each} for name, each in scores.items()]}


def _as_text(sheet: ScoreSheet) -> str:
    lines = [f"references: {sheet.references}, {sheet.lines:,} lines", ""]
    lines += _aligned([_headings(sheet), *_rows(sheet)])
    if len(sheet.systems) > 1:
        lines += ["", f"{_about_tests(sheet)}:", *_aligned([_headings(sheet), *_p_rows(sheet)])]
    width = max(map(len, sheet.signatures))
    lines += ["", _about_intervals(sheet), ""]
    lines += [f"{name.ljust(width)}  {signature}" for name, signature in sheet.signatures.items()]
    return "\n".join(lines) + "\n"


def _as_markdown(sheet: ScoreSheet) -> str:
    parts = [
        f"References: {_code(sheet.references)}, {sheet.lines:,} lines.",
        str(TextTable(_headings(sheet), rows=_cells(_rows(sheet)))),
    ]
    if len(sheet.systems) > 1:
        parts += [f"{_about_tests(sheet)}:", str(TextTable(_headings(sheet), rows=_cells(_p_rows(sheet))))]
    parts.append(_about_intervals(sheet))
    parts.append("\n".join(f"- {name}: {_code(signature)}" for name, signature in sheet.signatures.items()))
    return "\n\n".join(parts) + "\n"


def _as_latex(sheet: ScoreSheet) -> str:
    """A table of the package booktabs; everything that it does not hold is in comments."""
    columns = len(_headings(sheet)) - 1
    lines = [
        f"% References: {_one_line(sheet.references)}, {sheet.lines:,} lines. {_about_intervals(sheet)}",
        *(f"% {name}: {signature}" for name, signature in sheet.signatures.items()),
        rf"\begin{{tabular}}{{l{'r' * columns}}}",
        r"\toprule",
        _latex_row(_headings(sheet)),
        r"\midrule",
        *(_latex_row(row) for row in _rows(sheet)),
    ]
    if len(sheet.systems) > 1:
        title = rf"\multicolumn{{{columns + 1}}}{{l}}{{{_about_tests(sheet).translate(_LATEX)}}} \\"
        lines += [r"\midrule", title, *(_latex_row(row) for row in _p_rows(sheet))]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _headings(sheet: ScoreSheet) -> list[str]:
    return ["system", *sheet.signatures]


def _rows(sheet: ScoreSheet) -> list[list[str]]:
    return [
        [_one_line(system), *(f"{score.value:.2f} ± {score.interval:.2f}" for score in scores)]
        for system, scores in sheet.systems.items()
    ]


def _p_rows(sheet: ScoreSheet) -> list[list[str]]:
    return [[_one_line(system), *map(_p_values, scores)] for system, scores in list(sheet.systems.items())[1:]]


def _p_values(score: SystemScore) -> str:
    values = [value for value in (score.p_bootstrap, score.p_randomization) if value is not None]
    star = "*" if values and max(values) < _SIGNIFICANT else ""
    return f"{' / '.join(f'{value:.4f}' for value in values)}{star}"


def _about_tests(sheet: ScoreSheet) -> str:
    first = _one_line(next(iter(sheet.systems)))
    return (
        f"p of the difference from {first}: paired bootstrap ({sheet.samples:,} samples) / approximate randomisation "
        f"({sheet.trials:,} trials); * both below {_SIGNIFICANT}"
    )


def _about_intervals(sheet: ScoreSheet) -> str:
    how = f"{sheet.samples:,} samples, seed {sheet.seed}"
    return f"± half of the 95 % confidence interval, by bootstrap resampling ({how})"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]).rstrip()
        for row in rows
    ]


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cell.translate(_LATEX).replace("±", r"$\pm$") for cell in cells) + r" \\"


def _code(text: str) -> str:
    """Text that Markdown shows as it is."""
    return f"`{text.replace('`', chr(39))}`"


def _cells(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Rows for Markdown: the first cell is a name, which may hold anything."""
    return [[_code(name).replace("|", r"\|"), *cells] for name, *cells in rows]


def _one_line(text: str) -> str:
    return " ".join(text.split())
