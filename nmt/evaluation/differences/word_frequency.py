"""How well the systems translate rare and frequent words of the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from nmt.evaluation.differences.parallel_texts import ParallelTexts, Text, tokens_of
from nmt.evaluation.differences.tables import Comparison, bucket_of, buckets

FREQUENCIES = buckets(0, 1, 2, 6, 21, 101, 1_001)
"""How often a word occurs in the counted text."""


def words_of(texts: ParallelTexts) -> frozenset[str]:
    """The words of reference and hypotheses: all whose frequency is asked for."""
    return frozenset(word for text in (texts.reference, *texts.systems) for tokens in text.tokens for word in tokens)


def count_words(lines: Iterable[str], texts: ParallelTexts) -> Counter[str]:
    """How often the words of compared texts occur in a text of any size: memory grows with these words alone."""
    wanted = words_of(texts)
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(token for token in tokens_of(line, texts.bleu) if token in wanted)
    return counts


def reference_frequencies(texts: ParallelTexts) -> Counter[str]:
    """How often each word occurs in the references."""
    return Counter(word for tokens in texts.reference.tokens for word in tokens)


def words_by_frequency(
    texts: ParallelTexts, frequencies: Mapping[str, int], *, counted_in: str = "the references"
) -> Comparison:
    """Precision, recall and F1 of words, by how often they occur; without the buckets that have no reference words.

    Records: ``bucket``, ``reference_words``, and ``systems``, each with ``right`` (words that the reference of the same
    line has too, each as often as both have it), ``hypothesis_words``, ``precision``, ``recall``, ``f1`` from 0 to 1.

    Args:
        counted_in: what the frequencies were counted in, for the note.
    """
    table = Comparison(
        "Words by frequency",
        ["occurs", "words", "A", "B", "B - A", "A prec/rec", "B prec/rec"],
        note=f"Occurs: how often in {counted_in}. A, B: F1 of the words; prec/rec: precision and recall; in percent.",
    )
    indices = {word: bucket_of(frequencies.get(word, 0), FREQUENCIES) for word in words_of(texts)}
    expected, *written = (_sizes(text, indices) for text in (texts.reference, *texts.systems))
    right = [_right(system, texts.reference, indices) for system in texts.systems]
    for index, bucket in enumerate(FREQUENCIES):
        words = expected[index]
        if not words:
            continue
        a, b = (_scores(right[system][index], written[system][index], words) for system in (0, 1))
        table.records.append({"bucket": bucket, "reference_words": words, "systems": (a, b)})
        gain = b["f1"] - a["f1"]
        table.gains.append(gain)
        f1 = (f"{100 * each['f1']:.1f}" for each in (a, b))
        others = (f"{100 * each['precision']:.1f}/{100 * each['recall']:.1f}" for each in (a, b))
        table.rows.append([bucket.label, f"{words:,}", *f1, f"{100 * gain:+z.1f}", *others])
    return table


def _sizes(text: Text, indices: Mapping[str, int]) -> Counter[int]:
    return Counter(indices[word] for tokens in text.tokens for word in tokens)


def _right(system: Text, reference: Text, indices: Mapping[str, int]) -> Counter[int]:
    right: Counter[int] = Counter()
    for hypothesis, tokens in zip(system.tokens, reference.tokens, strict=True):
        for word, count in (Counter(hypothesis) & Counter(tokens)).items():
            right[indices[word]] += count
    return right


def _scores(right: int, written: int, expected: int) -> dict[str, float]:
    return {
        "right": right,
        "hypothesis_words": written,
        "precision": right / written if written else 0.0,
        "recall": right / expected,
        "f1": 2 * right / (written + expected),
    }
