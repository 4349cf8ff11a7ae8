"""Translations and scores as lines of output."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Literal

from nmt.decoding.paragraphs import Paragraph
from nmt.decoding.target_scorer import ScoredTarget
from nmt.decoding.translation import TranslatedText, Translation


def formatted(translation: Translation, number: int, nbest: int, form: Literal["text", "jsonl"]) -> list[str]:
    """The lines that stand for one line of input.

    Args:
        number: of the input line, from 1.
        nbest: in text form there are exactly so many lines, blank ones where fewer translations were found.
        form: ``text``, or ``jsonl``: one object a line of input.
    """
    if form == "text":
        texts = [candidate.text for candidate in translation.candidates[:nbest]]
        return texts + [""] * (nbest - len(texts))
    record = {
        "line": number,
        "source": translation.source,
        "translation": translation.text,
        "parts": translation.parts,
        "guard": asdict(translation.guard) if translation.guard is not None else None,
        "candidates": [_candidate(candidate) for candidate in translation.candidates],
    }
    if translation.candidates[0].alignment is not None:
        record["source_pieces"] = translation.source_pieces
    return [json.dumps(record, ensure_ascii=False)]


def formatted_paragraph(
    paragraph: Paragraph, translation: Translation, nbest: int, form: Literal["text", "jsonl"], target_lang: str
) -> list[str]:
    """The lines that stand for a paragraph of input, or for a blank line.

    Args:
        form: ``text``: the lines are wrapped as the paragraph is, and a blank line stays as it is; or ``jsonl``: one
            object per paragraph, none for a blank line.
        target_lang: code of the language of the translation.
    """
    if form == "jsonl":
        return [] if paragraph.is_blank else formatted(translation, paragraph.number, nbest, form)
    if paragraph.is_blank:
        return list(paragraph.lines)
    return paragraph.wrapped(translation.text, target_lang)


def _candidate(candidate: TranslatedText) -> dict[str, object]:
    record: dict[str, object] = {
        "text": candidate.text,
        "score": candidate.score,
        "log_probability": candidate.log_probability,
        "pieces": candidate.pieces,
    }
    if candidate.expected_utility is not None:
        record["expected_utility"] = candidate.expected_utility
    if candidate.alignment is not None:
        record["piece_log_probabilities"] = candidate.piece_log_probabilities
        record["alignment"] = candidate.alignment
    return record


def formatted_score(scored: ScoredTarget, number: int, form: Literal["text", "jsonl"]) -> list[str]:
    """The line that stands for a pair whose target was scored.

    Args:
        number: of the pair, from 1.
        form: ``text``: score and log-probability; or ``jsonl``: one object, in which null stands for -inf.
    """
    if form == "text":
        return [f"{scored.score}\t{scored.log_probability}"]
    record = {
        "line": number,
        "source": scored.source,
        "target": scored.target,
        "score": _finite(scored.score),
        "log_probability": _finite(scored.log_probability),
        "pieces": scored.pieces,
        "piece_log_probabilities": [_finite(value) for value in scored.piece_log_probabilities],
    }
    if scored.source_pieces is not None:
        record |= {"source_pieces": scored.source_pieces, "alignment": scored.alignment}
    return [json.dumps(record, ensure_ascii=False)]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
