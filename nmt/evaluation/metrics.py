"""BLEU, chrF and TER, computed by sacreBLEU and named by its signatures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nmt.errors import DataError, NmtError

MetricName = Literal["bleu", "chrf", "ter"]
METRIC_NAMES: tuple[MetricName, ...] = ("bleu", "chrf", "ter")

# Languages that sacreBLEU tokenises by a package that does not come with it, and the extra that brings it.
_EXTRAS = {"ja": "sacrebleu[ja]", "ko": "sacrebleu[ko]"}


@dataclass(frozen=True)
class Score:
    """One figure and how it came about."""

    name: str
    """``BLEU``, ``chrF2``, ``TER``, ``paper BLEU``."""
    value: float
    signature: str
    """sacreBLEU's, or what says the same: two figures compare only where these are equal."""
    detail: str
    """What sacreBLEU prints beside the figure, such as the n-gram precisions."""


def score(
    metric: MetricName, hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, target_lang: str = ""
) -> Score:
    """Score a whole text.

    Args:
        references: one list of lines, as many as hypotheses, for each reference translation.
        target_lang: decides on the tokeniser for Chinese, Japanese and Korean; all others use 13a.

    Raises:
        DataError: the counts of lines differ, or there are none.
    """
    check_counts(hypotheses, references)
    computer = make_metric(metric, target_lang)
    result = computer.corpus_score(list(hypotheses), [list(lines) for lines in references])
    detail = result.format(score_only=False).split(" = ", 1)[-1]
    return Score(result.name, float(result.score), computer.get_signature().format(), detail)


def bleu(hypotheses: Sequence[str], references: Sequence[str], *, target_lang: str) -> Score:
    """BLEU against one reference; see :func:`score`."""
    return score("bleu", hypotheses, [references], target_lang=target_lang)


def make_metric(metric: MetricName, target_lang: str) -> Any:
    """sacreBLEU's object for a metric.

    Raises:
        NmtError: the tokeniser of the target language is not installed.
    """
    from sacrebleu.metrics import BLEU, CHRF, TER

    language = target_lang.split("-")[0].split("_")[0].lower()
    if metric == "chrf":
        return CHRF()
    if metric == "ter":
        return TER(asian_support=language in ("zh", "ja", "ko"))
    try:
        return BLEU(trg_lang=language)
    except (ImportError, RuntimeError) as error:
        extra = _EXTRAS.get(language)
        if extra is None:
            raise
        raise NmtError(f"BLEU for {language} needs a tokeniser: pip install '{extra}' ({error}).") from None


def check_counts(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Refuse texts that cannot be parallel.

    Raises:
        DataError: names both counts.
    """
    if not hypotheses:
        raise DataError("the hypothesis is empty: there is nothing to score.")
    for lines in references:
        if len(lines) != len(hypotheses):
            raise DataError(
                f"the hypothesis has {len(hypotheses):,} lines, but the reference has {len(lines):,}: a score needs "
                f"one hypothesis for each reference.{_two_newstests(len(hypotheses), len(lines))}"
            )


def _two_newstests(hypotheses: int, references: int) -> str:
    """newstest2014 goes about in two sizes: filtered, and in full as the paper's figures use it."""
    if (hypotheses, references) == (3_003, 2_737):
        return " These are translations of all of newstest2014: use --test-set wmt14/full."
    if (hypotheses, references) == (2_737, 3_003):
        return " These are translations of the filtered newstest2014: use --test-set wmt14."
    return ""
