"""Translations and scores as lines of output."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

from nmt.translation.options import Form
from nmt.translation.paragraphs import Paragraph
from nmt.translation.results import TranslatedText, Translation
from nmt.translation.target_scorer import ScoredTarget
from nmt.translation.word_alignment import pharaoh

_MOSES_SEPARATOR = " ||| "
"""Separates the fields of a Moses n-best list."""


def formatted(translation: Translation, number: int, nbest: int, form: Form, *, alignment: bool = False) -> list[str]:
    """The output lines for one line of input.

    Args:
        number: the number of the input line, from 1.
        nbest: the number of candidates to write. ``text`` and ``pharaoh`` write exactly this many lines, blank ones if
            there are fewer candidates.
        form: ``text``; ``jsonl``, one object per line of input; ``tsv``: number, rank, score and text; ``moses``, an
            n-best list; or ``pharaoh``, word alignments only.
        alignment: add the alignment, which the candidates must have: of pieces in jsonl, else of words.
    """
    if form == "jsonl":
        return [json.dumps({"line": number, "source": translation.source, **_facts(translation)}, ensure_ascii=False)]
    candidates = translation.candidates[:nbest]
    lines = [
        _line(translation, candidate, number, rank, form, alignment) for rank, candidate in enumerate(candidates, 1)
    ]
    if form in ("tsv", "moses"):  # each output line names its input line, so no blank lines are needed
        return lines
    blank = _MOSES_SEPARATOR if form == "text" and alignment else ""
    return lines + [blank] * (nbest - len(lines))


def _line(
    translation: Translation, candidate: TranslatedText, number: int, rank: int, form: Form, alignment: bool
) -> str:
    words = _words(translation, candidate) if alignment or form == "pharaoh" else ""
    if form == "pharaoh":
        return words
    if form == "tsv":
        text = candidate.text.replace("\t", " ")
        return "\t".join([str(number), str(rank), f"{candidate.score:.6f}", text, *([words] if alignment else [])])
    if form == "moses":
        features = f"logp= {candidate.log_probability:.6f} pieces= {len(candidate.pieces)}"
        if candidate.expected_utility is not None:
            features += f" utility= {candidate.expected_utility:.6f}"
        text = candidate.text.replace("|||", "| | |")
        fields = [str(number - 1), text, features, f"{candidate.score:.6f}", *([words] if alignment else [])]
        return _MOSES_SEPARATOR.join(fields)
    return _MOSES_SEPARATOR.join([candidate.text, *([words] if alignment else [])])


def _words(translation: Translation, candidate: TranslatedText) -> str:
    if candidate.alignment is None:  # the guard joined a candidate that is longer than the model's positions
        return ""
    return pharaoh(translation.source, translation.source_pieces, candidate.text, candidate.pieces, candidate.alignment)


def _facts(translation: Translation) -> dict[str, object]:
    record: dict[str, object] = {
        "translation": translation.text,
        "parts": translation.parts,
        "guard": asdict(translation.guard) if translation.guard is not None else None,
        "candidates": [_candidate(candidate) for candidate in translation.candidates],
    }
    if translation.via is not None:
        record["via"] = _facts(translation.via)
    if translation.candidates[0].alignment is not None:
        record["source_pieces"] = translation.source_pieces
    return record


def formatted_paragraph(
    paragraph: Paragraph, translation: Translation, nbest: int, form: Form, target_lang: str
) -> list[str]:
    """The output lines for a paragraph of input, or for a blank line.

    Args:
        form: ``text``: lines are wrapped like the paragraph, and a blank line is unchanged; or ``jsonl``: one object
            per paragraph, none for a blank line.
        target_lang: the language code of the translation.
    """
    if form == "jsonl":
        return [] if paragraph.is_blank else formatted(translation, paragraph.number, nbest, form)
    if paragraph.is_blank:
        return list(paragraph.lines)
    return paragraph.wrapped(translation.text, target_lang)


def _candidate(candidate: TranslatedText) -> dict[str, object]:
    record: dict[str, object] = {
        "text": candidate.text,
        "score": _finite(candidate.score),
        "log_probability": _finite(candidate.log_probability),
        "pieces": candidate.pieces,
    }
    if candidate.expected_utility is not None:
        record["expected_utility"] = candidate.expected_utility
    if candidate.terms:
        record["terms"] = [term._asdict() for term in candidate.terms]
    if candidate.alignment is not None:
        record["piece_log_probabilities"] = [_finite(value) for value in candidate.piece_log_probabilities or ()]
        record["alignment"] = candidate.alignment
    return record


def formatted_score(scored: ScoredTarget, number: int, form: Form) -> list[str]:
    """The output line for a scored pair.

    Args:
        number: the number of the pair, from 1.
        form: ``text``: score and log-probability, and the word alignment if there is one; ``jsonl``: one object, in
            which null stands for -inf; or ``pharaoh``: the word alignment only.
    """
    if form == "jsonl":
        return [_score_object(scored, number)]
    words = _aligned_words(scored)
    if form == "pharaoh":
        return [words or ""]
    return ["\t".join([str(scored.score), str(scored.log_probability), *([] if words is None else [words])])]


def _aligned_words(scored: ScoredTarget) -> str | None:
    if scored.source_pieces is None:
        return None
    if scored.alignment is None:  # a side is too long
        return ""
    return pharaoh(scored.source, scored.source_pieces, scored.text, scored.pieces, scored.alignment)


def _score_object(scored: ScoredTarget, number: int) -> str:
    record = {
        "line": number,
        "source": scored.source,
        "target": scored.text,
        "score": _finite(scored.score),
        "log_probability": _finite(scored.log_probability),
        "pieces": scored.pieces,
        "piece_log_probabilities": [_finite(value) for value in scored.piece_log_probabilities or ()],
    }
    if scored.source_pieces is not None:
        record |= {"source_pieces": scored.source_pieces, "alignment": scored.alignment}
    return json.dumps(record, ensure_ascii=False)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
