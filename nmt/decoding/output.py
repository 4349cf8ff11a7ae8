"""Translations as lines of output."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Literal

from nmt.decoding.translation import Translation


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
    candidates = [
        {
            "text": candidate.text,
            "score": candidate.score,
            "log_probability": candidate.log_probability,
            "pieces": list(candidate.pieces),
        }
        for candidate in translation.candidates
    ]
    record = {
        "line": number,
        "source": translation.source,
        "translation": translation.text,
        "parts": translation.parts,
        "guard": asdict(translation.guard) if translation.guard is not None else None,
        "candidates": candidates,
    }
    return [json.dumps(record, ensure_ascii=False)]
