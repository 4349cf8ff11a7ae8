"""The table of a sweep: what its runs reached, beside the paper's figures."""

from __future__ import annotations

import statistics
from pathlib import Path

from definition import Sweep
from rows import read_results

from nmt.table import Table


def results_table(sweep: Sweep, folder: Path) -> Table:
    """Perplexity and BLEU on the valid set of every row that is scored: the mean over its seeds, and their range."""
    table = Table(
        sweep.title,
        ["row", "parameters", "paper", "updates", "perplexity", "paper", "BLEU", "paper", "seeds"],
        note="Valid set, last checkpoint, perplexity per piece. Means over the seeds, and half of their range.",
    )
    for row in sweep.rows:
        results = read_results(folder, row)
        paper = row.paper
        table.add(
            row.name,
            f"{results[0]['parameters'] / 1e6:.1f} M" if results else "",
            "" if paper.parameters is None else f"{paper.parameters:g} M",
            f"{max(result['updates'] for result in results):,}" if results else "",
            _mean([result["perplexity"] for result in results], 2),
            "" if paper.perplexity is None else f"{paper.perplexity:.2f}",
            _mean([result["bleu"] for result in results], 1),
            "" if paper.bleu is None else f"{paper.bleu:.1f}",
            str(len(results)),
        )
    return table


def _mean(values: list[float], digits: int) -> str:
    if not values:
        return ""
    spread = f" ± {(max(values) - min(values)) / 2:.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{spread}"
