"""All differences between two systems, in one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nmt.evaluation.differences.changed_sentences import SAMPLES, ChangedSentences, changed_sentences
from nmt.evaluation.differences.copying import Kept, copying
from nmt.evaluation.differences.lengths import LengthBucket, LengthRatios, bleu_by_length, length_ratios
from nmt.evaluation.differences.ngrams import NgramGains, ngram_gains
from nmt.evaluation.differences.parallel_texts import ParallelTexts
from nmt.evaluation.differences.totals import Totals, totals
from nmt.evaluation.differences.word_frequency import FrequencyBucket, reference_frequencies, words_by_frequency


@dataclass(frozen=True)
class Differences:
    """The differences between systems A and B."""

    totals: Totals
    by_length: tuple[LengthBucket, ...]
    by_frequency: tuple[FrequencyBucket, ...]
    copying: tuple[Kept, ...]
    length_ratios: tuple[LengthRatios, ...]
    ngrams: NgramGains
    sentences: ChangedSentences


def find_differences(
    texts: ParallelTexts, frequencies: Mapping[str, int] | None = None, *, samples: int = SAMPLES
) -> Differences:
    """Compute all differences.

    Args:
        frequencies: how often words occur in the training data; by default, how often in the references.
        samples: the maximum number of sentences shown per system.
    """
    return Differences(
        totals=totals(texts),
        by_length=bleu_by_length(texts),
        by_frequency=words_by_frequency(texts, reference_frequencies(texts) if frequencies is None else frequencies),
        copying=copying(texts),
        length_ratios=length_ratios(texts),
        ngrams=ngram_gains(texts),
        sentences=changed_sentences(texts, samples),
    )
