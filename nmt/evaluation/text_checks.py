"""Checks for text whose score is meaningless: subword marks, tokenised text, scripts that a tokeniser cannot split."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence

_SPACED_PUNCTUATION = re.compile(r"\s[.,!?;:](\s|$)")
_ESCAPED = re.compile(r"&(quot|apos|amp|lt|gt|#124|#91|#93);")
_ENOUGH = 0.2
"""The share of lines from which on a feature is not taken for chance."""
_LINES_FOR_SCRIPT = 1_000
_SCRIPTS = {
    "kana": (("\u3041", "\u30ff"), ("\uff66", "\uff9f")),
    "han": (("\u3400", "\u9fff"), ("\uf900", "\ufaff"), ("\U00020000", "\U0003ffff")),
    "hangul": (("\u1100", "\u11ff"), ("\u3130", "\u318f"), ("\uac00", "\ud7a3")),
    "thai": (("\u0e00", "\u0e7f"),),
    "lao": (("\u0e80", "\u0eff"),),
    "khmer": (("\u1780", "\u17ff"),),
    "burmese": (("\u1000", "\u109f"),),
}
_SCRIPT_NAMES = {
    "kana": "Japanese", "han": "Chinese characters", "hangul": "Hangul", "thai": "Thai", "lao": "Lao", "khmer": "Khmer",
    "burmese": "Burmese",
}  # fmt: skip
_BY_CHARACTERS = "Use --tokenize char or flores200, or --metric chrf."
_SCRIPT_ADVICE = dict.fromkeys(("thai", "lao", "khmer", "burmese"), _BY_CHARACTERS) | {
    "kana": "Use --target-lang ja (or --tokenize char).",
    "han": "Use --target-lang zh (or --tokenize char).",
    "hangul": "Use --target-lang ko (or --tokenize char).",
}


def hypothesis_warnings(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[str]:
    """Warnings about a hypothesis that looks wrong compared with its references."""
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
            "the hypothesis looks tokenised, but the reference does not. Detokenise it: its score is too low."
        )
    return warnings


def tokenizer_warnings(references: Sequence[Sequence[str]], tokenizer: str) -> list[str]:
    """Warnings if BLEU's tokeniser cannot split the script of the references, so that sentences count as one word.

    Args:
        tokenizer: sacreBLEU's name, as in the signature.
    """
    if tokenizer not in ("13a", "intl"):
        return []
    scripts = Counter(
        script
        for lines in references
        for line in itertools.islice(lines, _LINES_FOR_SCRIPT)
        for character in line
        if character.isalpha() and (script := _script(character))
    )
    foreign = scripts.total() - scripts["other"]
    if foreign < _ENOUGH * scripts.total() or not foreign:
        return []
    # Japanese text also has Han characters.
    found = "kana" if scripts["kana"] else max(_SCRIPTS, key=lambda script: scripts[script])
    return [
        f"the reference is written in {_SCRIPT_NAMES[found]}, which the tokeniser {tokenizer} does not split: "
        f"BLEU means little. {_SCRIPT_ADVICE[found]}"
    ]


def _script(character: str) -> str:
    """The script of a character if 13a does not split it; else ``other``."""
    for script, ranges in _SCRIPTS.items():
        if any(first <= character <= last for first, last in ranges):
            return script
    return "other"


def _tokenised_share(lines: Sequence[str]) -> float:
    """The share of lines with a space before punctuation, or with escaped characters."""
    if not lines:
        return 0.0
    return sum(bool(_SPACED_PUNCTUATION.search(line) or _ESCAPED.search(line)) for line in lines) / len(lines)
