"""Scores of systems with confidence intervals, and whether they differ significantly, computed by sacreBLEU."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nmt.errors import ConfigError
from nmt.evaluation.metrics import check_counts

SEED = "SACREBLEU_SEED"
SAMPLES = 1_000
"""Resampled test sets: sacreBLEU's default."""


@dataclass(frozen=True)
class SystemScore:
    """The score of one system by one metric, compared with that of the first system."""

    name: str
    """The metric: ``BLEU``, ``tokenised BLEU`` (the paper's without split compounds), ``paper BLEU``, ``chrF2``,
    ``chrF2++``, ``TER`` or ``COMET``."""
    value: float
    mean: float
    """The mean over the resampled test sets."""
    interval: float
    """Half of the 95 % confidence interval around the mean."""
    p_bootstrap: float | None
    """The p-value of the difference from the first system by paired bootstrap resampling; None for that system."""
    signature: str
    """How the score was computed and resampled."""


def evaluate(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    metrics: Sequence[Any],
    *,
    samples: int = SAMPLES,
) -> dict[str, list[SystemScore]]:
    """Score systems by metrics, and compare each with the first by paired bootstrap resampling (Koehn 2004).

    Equal scores have p = 1. ``$SACREBLEU_SEED`` (default 12345) is the seed.

    Args:
        systems: lines of each system by its name.
        references: for each reference translation, a list with as many lines as a system has.
        metrics: by :func:`nmt.evaluation.metrics.make_metric`, or others of sacreBLEU; their names must differ.
        samples: number of resampled test sets.

    Returns:
        For each system, its scores in the order of the metrics.

    Raises:
        DataError: the numbers of lines differ or are 0.
        ConfigError: ``$SACREBLEU_SEED`` is not a seed.
    """
    from sacrebleu.significance import PairedTest

    check_seed()
    for name, lines in systems.items():
        check_counts(lines, references, name=name)
    named = [(name, list(lines)) for name, lines in systems.items()]
    copies = [list(lines) for lines in references]
    test = PairedTest(named, dict(enumerate(metrics)), copies, test_type="bs", n_samples=samples)
    signatures, bootstrap = test()
    return {
        system: [
            SystemScore(
                name,
                # sacreBLEU returns NumPy's numbers for some metrics, which cannot be written as JSON.
                float(bootstrap[name][number].score),
                float(bootstrap[name][number].mean),
                float(bootstrap[name][number].ci),
                _p_value(bootstrap[name], number),
                signature.format(),
            )
            for name, signature in signatures.items()
        ]
        for number, system in enumerate(systems)
    }


def _p_value(results: Sequence[Any], number: int) -> float | None:
    """sacreBLEU's p-value; 1 for equal scores, to which it gives the least one. None for the first system."""
    if number == 0:
        return None
    return 1.0 if results[number].score == results[0].score else float(results[number].p_value)


def check_seed() -> str:
    """The seed of resampling, which sacreBLEU reads from ``$SACREBLEU_SEED``.

    Raises:
        ConfigError: it is not a whole number from 1, nor ``none``. sacreBLEU's paired tests take 0 for ``none``.
    """
    seed = os.environ.get(SEED, "12345")
    if seed.lower() != "none" and not (seed.isascii() and seed.isdigit() and int(seed) > 0):
        raise ConfigError(f"{SEED}={seed}: must be a whole number from 1, or none.")
    return seed
