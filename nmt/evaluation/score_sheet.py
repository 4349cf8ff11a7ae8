"""All scores of one or several systems, with confidence intervals and the significance of their differences.

sacreBLEU computes scores, intervals (bootstrap resampling, Koehn 2004) and both tests of significance: paired bootstrap
resampling, and paired approximate randomisation (Riezler and Maxwell 2005).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nmt.evaluation.comparison import check_seed, p_value
from nmt.evaluation.metrics import MetricName, TokenizerName, check_counts, make_metric
from nmt.evaluation.paper_bleu import SPLIT_LANGUAGES, moses_tokenizer, paper_signature
from nmt.languages import is_unspaced, primary_language

SAMPLES, TRIALS = 1_000, 10_000
"""Resampled test sets, and trials of approximate randomisation: sacreBLEU's defaults."""
_METRICS: tuple[MetricName, ...] = ("bleu", "chrf", "ter")


@dataclass(frozen=True)
class SheetScore:
    """The score of one system by one metric."""

    name: str
    """``BLEU``, ``tokenised BLEU`` (the paper's without split compounds), ``paper BLEU``, ``chrF2``,
    ``TER``, ``COMET`` or ``BLEURT``."""
    value: float
    mean: float
    """The mean over the resampled test sets."""
    interval: float
    """Half of the 95 % confidence interval around the mean."""
    p_bootstrap: float | None
    """The p-value of the difference from the first system by paired bootstrap resampling; None for that system."""
    p_randomization: float | None
    """The same by paired approximate randomisation."""


@dataclass(frozen=True)
class SystemSheet:
    """All scores of one system."""

    system: str
    scores: list[SheetScore]


@dataclass(frozen=True)
class ScoreSheet:
    """All scores of all systems."""

    references: str
    """Which references: a file, or a test set and its version."""
    lines: int
    systems: list[SystemSheet]
    signatures: dict[str, str]
    """Metric -> how it was computed. Scores are comparable only if their signatures are equal."""
    seed: str
    samples: int
    trials: int


@dataclass(frozen=True)
class _View:
    """Metrics that count the same tokens."""

    metrics: dict[str, Any]
    """Name -> sacreBLEU's object."""
    prepare: Callable[[str], str]
    """What is done to each line before."""
    signature: str | None = None
    """How they are computed; None for sacreBLEU's signature."""


def score_sheet(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    *,
    references_name: str,
    target_lang: str = "",
    tokenize: TokenizerName | None = None,
    lowercase: bool = False,
    samples: int = SAMPLES,
    trials: int = TRIALS,
    learned: Mapping[str, Any] | None = None,
) -> ScoreSheet:
    """Score systems by all metrics, and compare each with the first. COMET and BLEURT are shown if they are given.

    BLEU as in the paper needs a target language; for German it is shown with and without split compounds.

    Args:
        systems: lines of each system by its name.
        references, target_lang, tokenize, lowercase, learned: as for :func:`nmt.evaluation.metrics.score`.
        references_name: what the sheet calls the references.
        samples: number of resampled test sets; ``$SACREBLEU_SEED`` (default 12345) is the seed.
        trials: number of trials of approximate randomisation.

    Raises:
        DataError: the numbers of lines differ or are 0.
        NmtError: the tokeniser is not installed.
    """
    seed = check_seed()
    for name, lines in systems.items():
        check_counts(lines, references, name=name)
    signatures: dict[str, str] = {}
    by_system: dict[str, list[SheetScore]] = {name: [] for name in systems}
    for view in _views(len(references), target_lang, tokenize, lowercase, learned or {}):
        prepared = [(name, [view.prepare(line) for line in lines]) for name, lines in systems.items()]
        prepared_references = [[view.prepare(line) for line in lines] for lines in references]
        bootstrap = _tested(prepared, prepared_references, view.metrics, "bs", samples)
        randomized = _tested(prepared, prepared_references, view.metrics, "ar", trials) if len(systems) > 1 else None
        for name, metric in view.metrics.items():
            signatures[name] = view.signature or metric.get_signature().format()
            for number, system in enumerate(systems):
                result = bootstrap[name][number]
                by_system[system].append(
                    SheetScore(
                        name,
                        float(result.score),
                        float(result.mean),
                        float(result.ci),
                        p_value(result, bootstrap[name][0]),
                        p_value(randomized[name][number], randomized[name][0]) if randomized else None,
                    )
                )
    return ScoreSheet(
        references_name,
        len(references[0]),
        [SystemSheet(system, scores) for system, scores in by_system.items()],
        signatures,
        seed,
        samples,
        trials,
    )


def _views(
    reference_count: int,
    target_lang: str,
    tokenize: TokenizerName | None,
    lowercase: bool,
    learned: Mapping[str, Any],
) -> Iterator[_View]:
    from sacrebleu.metrics import BLEU

    made = {name: make_metric(name, target_lang, tokenize=tokenize, lowercase=lowercase) for name in _METRICS}
    yield _View({"BLEU": made["bleu"]}, str)
    language = primary_language(target_lang)
    # Moses' tokeniser splits no text that is written without spaces.
    if language and not is_unspaced(language):
        splits_compounds = language in SPLIT_LANGUAGES
        forms = [("tokenised BLEU", False)] if splits_compounds else []
        for name, splits in (*forms, ("paper BLEU", splits_compounds)):
            metric = BLEU(tokenize="none", smooth_method="none", force=True)
            signature = paper_signature(reference_count, language, splits_compounds=splits)
            yield _View({name: metric}, moses_tokenizer(language, splits_compounds=splits), signature)
    yield _View({"chrF2": made["chrf"], "TER": made["ter"]}, str)
    for metric in learned.values():
        yield _View({metric.name: metric}, str)


def _tested(
    systems: Sequence[tuple[str, list[str]]],
    references: Sequence[Sequence[str]],
    metrics: Mapping[str, Any],
    test: str,
    count: int,
) -> Mapping[str, Any]:
    """sacreBLEU's results of all systems by metric."""
    from sacrebleu.significance import PairedTest

    copies = [list(lines) for lines in references]
    signatures, results = PairedTest(list(systems), dict(metrics), copies, test_type=test, n_samples=count)()
    # sacreBLEU names the results by itself, in the order of the metrics.
    return {name: results[own_name] for name, own_name in zip(metrics, signatures, strict=True)}
