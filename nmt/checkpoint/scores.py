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
# A lower BLEU says nothing of a model: one that learns may score 0.0 after one that repeats a frequent word scored 0.2.
_LOWEST_BLEU = 1.0


@dataclass(frozen=True)
class Score:
    """A validation score."""

    loss: float
    bleu: float | None
    """None if it was not measured."""

    @property
    def rank(self) -> tuple[float, float]:
        """Higher is better: by BLEU, and by the loss where BLEU is equal, below 1 or not measured."""
        return max(self.bleu or 0.0, _LOWEST_BLEU), -self.loss

    def __str__(self) -> str:
        return f"loss {self.loss:.3f}" if self.bleu is None else f"BLEU {self.bleu:.2f}"


def scores_until(checkpoint: Path) -> dict[int, Score]:
    """Update -> validation score, as a checkpoint records them. Damaged entries are skipped."""
    state = read_json(BundleFolder(checkpoint).training_state)
    scores = state.get("scores") if isinstance(state, dict) else None
    known = scores.items() if isinstance(scores, dict) else ()
    read = {int(update): _score(values) for update, values in known if _UPDATE.fullmatch(update)}
    return {update: score for update, score in read.items() if score is not None}


def score_in_notes(bundle: Path) -> Score | None:
    """The score of an average, which was validated when it was made; None if it was not."""
    notes = read_json(BundleFolder(bundle).notes)
    return _score(notes.get(VALIDATION)) if isinstance(notes, dict) else None


def best_updates(scores: Mapping[int, Score], count: int) -> list[int]:
    """The updates with the best scores, best first; of equal scores, the earlier first. A loss of NaN is no score."""
    ordered = sorted(update for update in scores if not math.isnan(scores[update].loss))
    return sorted(ordered, key=lambda update: scores[update].rank, reverse=True)[:count]


def _score(values: Any) -> Score | None:
    """The score that a file holds; None if it holds none."""
    loss, bleu = (values.get("loss"), values.get("bleu")) if isinstance(values, Mapping) else (None, None)
    return Score(loss, bleu) if _is_number(loss) and (bleu is None or _is_number(bleu)) else None


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
