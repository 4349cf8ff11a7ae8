"""Where the translations of two systems differ, and in what."""

from nmt.evaluation.differences.changed_sentences import ChangedSentence, ChangedSentences
from nmt.evaluation.differences.copying import Kept
from nmt.evaluation.differences.finding import Differences, find_differences
from nmt.evaluation.differences.lengths import LengthBucket, LengthRatios
from nmt.evaluation.differences.ngrams import NgramGains, RightNgram
from nmt.evaluation.differences.parallel_texts import ParallelTexts, Text, parallel_texts, tokenizer
from nmt.evaluation.differences.totals import MetricTotal, Totals
from nmt.evaluation.differences.word_diff import Part, word_diff
from nmt.evaluation.differences.word_frequency import FrequencyBucket, count_words, words_of

__all__ = [
    "ChangedSentence",
    "ChangedSentences",
    "Differences",
    "FrequencyBucket",
    "Kept",
    "LengthBucket",
    "LengthRatios",
    "MetricTotal",
    "NgramGains",
    "ParallelTexts",
    "Part",
    "RightNgram",
    "Text",
    "Totals",
    "count_words",
    "find_differences",
    "parallel_texts",
    "tokenizer",
    "word_diff",
    "words_of",
]
