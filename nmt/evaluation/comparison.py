"""Comparison of systems by paired bootstrap resampling (Koehn 2004), computed by sacreBLEU."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nmt.errors import ConfigError
from nmt.evaluation.metrics import MetricName, TokenizerName, check_counts, make_metric

SEED = "SACREBLEU_SEED"


def p_value(result: Any, baseline: Any) -> float | None:
    """sacreBLEU's p-value; 1 for equal scores, to which it gives the least one. None for the baseline itself."""
    if result.p_value is None:
        return None
    return 1.0 if result.score == baseline.score else float(result.p_value)


def check_seed() -> str:
    """The seed of resampling, which sacreBLEU reads from ``$SACREBLEU_SEED``.

    Raises:
        ConfigError: it is not a whole number from 1, nor ``none``. sacreBLEU's paired tests take 0 for ``none``.
    """
    seed = os.environ.get(SEED, "12345")
    if seed.lower() != "none" and not (seed.isascii() and seed.isdigit() and int(seed) > 0):
        raise ConfigError(f"{SEED}={seed}: must be a whole number from 1, or none.")
    return seed


@dataclass(frozen=True)
class SystemScore:
    """The score of one system by one metric."""

    system: str
    value: float
    mean: float
    """The mean over the resampled test sets."""
    interval: float
    """Half of the 95 % confidence interval."""
    p_value: float | None
    """The p-value of the difference from the baseline; None for the baseline itself."""


@dataclass(frozen=True)
class Comparison:
    """The scores of all systems by one metric; the first system is the baseline."""

    name: str
    signature: str
    systems: list[SystemScore]


def compare(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    metrics: Sequence[MetricName],
    *,
    target_lang: str = "",
    tokenize: TokenizerName | None = None,
    lowercase: bool = False,
    samples: int = 1_000,
    learned: Mapping[str, Any] | None = None,
) -> list[Comparison]:
    """Compare systems with the first one, over test sets resampled from the given one.

    Args:
        systems: lines of each system by its name.
        references, target_lang, tokenize, lowercase, learned: as for :func:`nmt.evaluation.metrics.score`.
        samples: number of resampled test sets; ``$SACREBLEU_SEED`` (default 12345) is the seed.

    Raises:
        DataError: the numbers of lines differ or are 0.
        ConfigError: ``$SACREBLEU_SEED`` is not a seed.
    """
    from sacrebleu.significance import PairedTest

    check_seed()
    for lines in systems.values():
        check_counts(lines, references)
    named = [(name, list(lines)) for name, lines in systems.items()]
    made = {
        metric: make_metric(metric, target_lang, tokenize=tokenize, lowercase=lowercase, learned=learned)
        for metric in metrics
    }
    test = PairedTest(named, made, [list(lines) for lines in references], test_type="bs", n_samples=samples)
    signatures, results = test()
    return [
        Comparison(
            name,
            signatures[name].format(),
            # sacreBLEU returns NumPy's numbers for some metrics, which cannot be written as JSON.
            [
                SystemScore(
                    system,
                    float(result.score),
                    float(result.mean),
                    float(result.ci),
                    p_value(result, results[name][0]),
                )
                for system, result in zip(systems, results[name], strict=True)
            ],
        )
        for name in signatures
    ]
