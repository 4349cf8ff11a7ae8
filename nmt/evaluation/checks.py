"""What makes a score meaningless although it can be computed: subword marks, and tokenised text."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SPACED_PUNCTUATION = re.compile(r"\s[.,!?;:](\s|$)")
_ESCAPED = re.compile(r"&(quot|apos|amp|lt|gt|#124|#91|#93);")
_ENOUGH = 0.2
"""Share of lines from which on a habit is no accident."""


def hypothesis_warnings(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[str]:
    """What looks wrong in a hypothesis, beside its references."""
    warnings = []
    for mark, meaning in (("▁", "pieces of SentencePiece"), ("@@", "pieces of subword-nmt")):
        count = sum(mark in line for line in hypotheses)
        if count and not any(mark in line for lines in references for line in lines):
            warnings.append(
                f"{count:,} lines of the hypothesis hold {mark!r}: are these {meaning} that were not joined?"
            )
    reference_share = max((_tokenised_share(lines) for lines in references), default=0.0)
    if _tokenised_share(hypotheses) >= max(_ENOUGH, 3 * reference_share):
        warnings.append(
            "the hypothesis looks tokenised, the reference does not: detokenise it, or the score is too low."
        )
    return warnings


def _tokenised_share(lines: Sequence[str]) -> float:
    """Share of lines with a space before a mark of punctuation, or with escaped characters."""
    if not lines:
        return 0.0
    return sum(bool(_SPACED_PUNCTUATION.search(line) or _ESCAPED.search(line)) for line in lines) / len(lines)
