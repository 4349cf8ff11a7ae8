"""Several systems side by side: paired bootstrap resampling (Koehn 2004), as sacreBLEU does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nmt.evaluation.metrics import MetricName, TokenizerName, check_counts, make_metric


@dataclass(frozen=True)
class SystemScore:
    """One system by one metric."""

    system: str
    value: float
    mean: float
    """Over the resampled test sets."""
    interval: float
    """Half of the 95 % confidence interval."""
    p_value: float | None
    """Of the difference from the baseline; None for the baseline itself."""


@dataclass(frozen=True)
class Comparison:
    """All systems by one metric; the first is the baseline."""

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
) -> list[Comparison]:
    """Compare systems with the first of them, over test sets drawn again and again from the one there is.

    Args:
        systems: lines of each system by its name.
        references, target_lang, tokenize, lowercase: as for :func:`nmt.evaluation.metrics.score`.
        samples: how many test sets to draw; seeded by ``$SACREBLEU_SEED``, 12345 if unset.

    Raises:
        DataError: the counts of lines differ, or there are none.
    """
    from sacrebleu.significance import PairedTest

    for lines in systems.values():
        check_counts(lines, references)
    named = [(name, list(lines)) for name, lines in systems.items()]
    made = {metric: make_metric(metric, target_lang, tokenize=tokenize, lowercase=lowercase) for metric in metrics}
    test = PairedTest(named, made, [list(lines) for lines in references], test_type="bs", n_samples=samples)
    signatures, results = test()
    return [
        Comparison(
            name,
            signatures[name].format(),
            # sacreBLEU gives NumPy's numbers for some metrics, which JSON does not know.
            [
                SystemScore(
                    system,
                    float(result.score),
                    float(result.mean),
                    float(result.ci),
                    None if result.p_value is None else float(result.p_value),
                )
                for system, result in zip(systems, results[name], strict=True)
            ],
        )
        for name in signatures
    ]
