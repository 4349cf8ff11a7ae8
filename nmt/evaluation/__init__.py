"""Scores of translations: BLEU, chrF and TER as sacreBLEU reports them, and BLEU as the paper does."""

from nmt.evaluation.checks import hypothesis_warnings
from nmt.evaluation.comparison import Comparison, compare
from nmt.evaluation.metrics import METRIC_NAMES, MetricName, Score, bleu, score
from nmt.evaluation.paper_bleu import paper_bleu

__all__ = [
    "METRIC_NAMES",
    "Comparison",
    "MetricName",
    "Score",
    "bleu",
    "compare",
    "hypothesis_warnings",
    "paper_bleu",
    "score",
]
