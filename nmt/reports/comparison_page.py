"""The page that ``nmt compare`` writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from markupsafe import Markup

from nmt.evaluation.differences.finding import Differences
from nmt.evaluation.differences.tables import Comparison
from nmt.evaluation.differences.word_diff import word_diff
from nmt.reports.comparison_text import ComparedFiles, tables, verdict
from nmt.reports.pages import Page
from nmt.table import Table

COMPARISON = Page("nmt compare", "comparison.html")

_GAINS = "◂ A better · B better ▸"
# The longest bar of a table is never for a gain below one point, so that small gains look small.
_LEAST_SCALE = 0.01


def write_comparison(found: Differences, files: ComparedFiles, path: Path) -> None:
    """Write the page atomically.

    Raises:
        OutputError: something else exists at ``path``.
        WriteError: the file cannot be written.
    """
    COMPARISON.write(path, comparison_page(found, files))


def comparison_page(found: Differences, files: ComparedFiles) -> str:
    """A self-contained page."""
    texts = [("A", files.systems[0]), ("B", files.systems[1]), ("reference", files.reference)]
    return COMPARISON.html(
        f"Comparison of translations: {' and '.join(_short_names(files))}",
        files=texts if files.source is None else [*texts, ("source", files.source)],
        verdict=verdict(found),
        figures=list(_figures(found)),
        tables=[_drawn(each) for each in (found.totals.metrics, *tables(found))],
        ngrams=[each for each in found.ngrams.values() if each.rows],
        sentences=[
            (system, [(each, *word_diff(*each.hypotheses, each.reference)) for each in chosen])
            for system, chosen in (("A", found.sentences.a), ("B", found.sentences.b))
            if chosen
        ],
    )


def _short_names(files: ComparedFiles) -> Sequence[str]:
    """The names of the systems' files, with their folders where these alone tell them apart."""
    names = [Path(name).name for name in files.systems]
    return names if names[0] != names[1] else files.systems


def _figures(found: Differences) -> Iterator[tuple[str, str, str, str]]:
    """The main figures: a name, the values of A and B, and a remark."""
    totals = found.totals
    for metric in totals.metrics.records:
        a, b = metric["values"]
        yield metric["name"], f"{a:.2f}", f"{b:.2f}", f"{b - a:+z.2f}, p = {metric['p_value']:.4f}"
    a, b = totals.length_ratios
    yield "length ratio", f"{a:.3f}", f"{b:.3f}", f"{b - a:+z.3f}"
    a, b = found.sentences.lines_better
    yield "lines better by chrF", f"{a:,}", f"{b:,}", f"{totals.differing_lines:,} of {totals.lines:,} lines differ"


def _drawn(each: Comparison) -> Table:
    """A table with its figures drawn: gains as bars to both sides, shares as bars behind the numbers."""
    header, rows = list(each.header), [list(row) for row in each.rows]
    for column, shares in each.shares.items():
        for row, share in zip(rows, shares, strict=True):
            row[column] = _share(row[column], share, "ab"[column - 1])
    if each.gains:
        header.append(_GAINS)
        scale = max(_LEAST_SCALE, *map(abs, each.gains))
        for row, gain in zip(rows, each.gains, strict=True):
            row.append(_gain_bar(gain / scale))
    return Table(each.title, header, rows, each.note, numbers=range(1, len(each.header)))


def _share(text: str, share: float, system: str) -> Markup:
    return Markup('<span class="share {}" style="--share: {:.1f}%">{}</span>').format(system, 100 * share, text)


def _gain_bar(gain: float) -> Markup:
    """A bar from the middle to the side of the better system.

    Args:
        gain: from -1 (A is better) to 1 (B is better).
    """
    bar = Markup('<i class="{}" style="--begin: {:.1f}%; --size: {:.1f}%"></i>')
    made = bar.format("a" if gain < 0 else "b", 50 * (1 + min(gain, 0)), 50 * abs(gain)) if gain else ""
    return Markup('<span class="gain">{}</span>').format(made)
