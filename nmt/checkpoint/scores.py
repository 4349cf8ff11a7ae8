"""Validation scores as checkpoints and averages record them."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from nmt.checkpoint.bundle_files import BundleFolder
from nmt.checkpoint.kinds import read_json

VALIDATION = "validation"
"""The name in the notes of an average."""
_UPDATE = re.compile(r"\d{1,18}")


@dataclass(frozen=True)
class Score:
    """A validation score: BLEU, or the loss if BLEU was not measured."""

    value: float
    """Higher is better: BLEU, or the negative loss."""
    is_bleu: bool

    def __str__(self) -> str:
        return f"BLEU {self.value:.2f}" if self.is_bleu else f"loss {-self.value:.3f}"


def scores_until(checkpoint: Path) -> dict[int, float]:
    """Update -> validation score, as a checkpoint records them; higher is better. Damaged entries are skipped."""
    state = read_json(BundleFolder(checkpoint).training_state)
    scores = state.get("scores") if isinstance(state, dict) else None
    known = scores.items() if isinstance(scores, dict) else ()
    return {int(update): score for update, score in known if _UPDATE.fullmatch(update) and _is_number(score)}


def score_in_notes(bundle: Path) -> Score | None:
    """The score of an average, which was validated when it was made; None if it was not."""
    notes = read_json(BundleFolder(bundle).notes)
    figures = notes.get(VALIDATION) if isinstance(notes, dict) else None
    if not isinstance(figures, Mapping):
        return None
    loss, bleu = figures.get("loss"), figures.get("bleu")
    if _is_number(bleu):
        return Score(bleu, is_bleu=True)
    return Score(-loss, is_bleu=False) if _is_number(loss) else None


def best_updates(scores: Mapping[int, float], count: int) -> list[int]:
    """The updates with the highest scores, best first; of equal scores, the earlier first. NaN is no score."""
    ordered = sorted(update for update in scores if not math.isnan(scores[update]))
    return sorted(ordered, key=lambda update: -scores[update])[:count]


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
