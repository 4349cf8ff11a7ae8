"""All scores of one or several systems, with confidence intervals and the significance of their differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nmt.evaluation.metrics import MetricName, TokenizerName, make_metric
from nmt.evaluation.paper_bleu import SPLIT_LANGUAGES, PaperBleu
from nmt.evaluation.significance import SAMPLES, SystemScore, check_seed, evaluate
from nmt.text.languages import is_unspaced, primary_language

if TYPE_CHECKING:
    from nmt.evaluation.comet import Comet


@dataclass(frozen=True)
class ScoreSheet:
    """All scores of all systems."""

    references: str
    """Which references: a file, or a test set and its version."""
    lines: int
    systems: dict[str, list[SystemScore]]
    signatures: dict[str, str]
    """Metric -> how it was computed. Scores are comparable only if their signatures are equal."""
    seed: str
    samples: int


def score_sheet(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    *,
    references_name: str,
    target_lang: str = "",
    tokenize: TokenizerName | None = None,
    lowercase: bool = False,
    samples: int = SAMPLES,
    comet: Comet | None = None,
) -> ScoreSheet:
    """Score systems by all metrics, and compare each with the first. COMET is shown if it is given.

    BLEU as in the paper needs a target language; for German it is shown with and without split compounds.

    Args:
        systems, references, samples: as for :func:`nmt.evaluation.significance.evaluate`.
        target_lang, tokenize, lowercase, comet: as for :func:`nmt.evaluation.metrics.make_metric`.
        references_name: what the sheet calls the references.

    Raises:
        DataError: the numbers of lines differ or are 0.
        ConfigError: ``$SACREBLEU_SEED`` is not a seed.
        NmtError: the tokeniser is not installed.
    """
    seed = check_seed()
    names: tuple[MetricName, ...] = ("bleu", "chrf", "ter")
    bleu, *others = (make_metric(name, target_lang, tokenize=tokenize, lowercase=lowercase) for name in names)
    metrics = [bleu, *_paper_metrics(primary_language(target_lang)), *others, *([] if comet is None else [comet])]
    scores = evaluate(systems, references, metrics, samples=samples)
    first = next(iter(scores.values()))
    return ScoreSheet(
        references_name,
        len(references[0]),
        scores,
        {score.name: metric.get_signature().format() for score, metric in zip(first, metrics, strict=True)},
        seed,
        samples,
    )


def _paper_metrics(language: str) -> list[PaperBleu]:
    """BLEU as in the paper, and without split compounds where that differs; none without words to tokenise."""
    # Moses' tokeniser splits no text that is written without spaces.
    if not language or is_unspaced(language):
        return []
    if language not in SPLIT_LANGUAGES:
        return [PaperBleu("paper BLEU", language, splits_compounds=False)]
    forms = (("tokenised BLEU", False), ("paper BLEU", True))
    return [PaperBleu(name, language, splits_compounds=splits) for name, splits in forms]
