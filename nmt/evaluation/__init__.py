"""Scores of translations: BLEU, chrF and TER as sacreBLEU reports them, BLEU as the paper does, COMET and BLEURT."""

from nmt.evaluation.comparison import Comparison, compare
from nmt.evaluation.learned_metrics import learned_metrics
from nmt.evaluation.metrics import (
    MetricName,
    Score,
    SentenceScores,
    TokenizerName,
    bleu,
    check_counts,
    score,
    sentence_scores,
    tokenizer_model,
)
from nmt.evaluation.paper_bleu import paper_bleu
from nmt.evaluation.score_sheet import ScoreSheet, score_sheet
from nmt.evaluation.text_checks import hypothesis_warnings, tokenizer_warnings

__all__ = [
    "Comparison",
    "MetricName",
    "Score",
    "ScoreSheet",
    "SentenceScores",
    "TokenizerName",
    "bleu",
    "check_counts",
    "compare",
    "hypothesis_warnings",
    "learned_metrics",
    "paper_bleu",
    "score",
    "score_sheet",
    "sentence_scores",
    "tokenizer_model",
    "tokenizer_warnings",
]
