"""Checks for text whose score is meaningless: subword marks, tokenised text, scripts that a tokeniser cannot split."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import regex

from nmt.text.normalization import nfc
from nmt.text.printable import counted

_SPACED_PUNCTUATION = re.compile(r"\s[.,!?;:](\s|$)")
_ESCAPED = re.compile(r"&(quot|apos|amp|lt|gt|#124|#91|#93);")
_ENOUGH = 0.2
"""The share of lines from which on a feature is not taken for chance."""
_LINES_FOR_SCRIPT = 1_000
_LINES_FOR_WORDS = 100
_BY_CHARACTERS = "--tokenize char or flores200, or --metric chrf"
# Scripts that 13a does not split: what they are called, and the language whose tokeniser splits them.
_SCRIPTS = {
    r"\p{Hiragana}|\p{Katakana}": ("Japanese", "ja"),
    r"\p{Han}": ("Chinese characters", "zh"),
    r"\p{Hangul}": ("Hangul", "ko"),
    r"\p{Thai}": ("Thai", None),
    r"\p{Lao}": ("Lao", None),
    r"\p{Khmer}": ("Khmer", None),
    r"\p{Myanmar}": ("Burmese", None),
}


def hypothesis_warnings(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[str]:
    """Warnings about a hypothesis that looks wrong compared with its references."""
    warnings = []
    for mark, meaning in (("▁", "pieces of SentencePiece"), ("@@", "pieces of subword-nmt")):
        count = sum(mark in line for line in hypotheses)
        if count and not any(mark in line for lines in references for line in lines):
            warnings.append(
                f"the hypothesis has {mark!r} in {counted(count, 'line')}: are these {meaning} that were not joined?"
            )
    reference_share = max((_tokenised_share(lines) for lines in references), default=0.0)
    if _tokenised_share(hypotheses) >= max(_ENOUGH, 3 * reference_share):
        warnings.append(
            "the hypothesis looks tokenised, but the reference does not. Detokenise it: its score is too low."
        )
    shares = {
        "hypothesis": _decomposed_share(hypotheses),
        "reference": max(map(_decomposed_share, references), default=0),
    }
    other, decomposed = sorted(shares, key=lambda name: shares[name])
    if shares[decomposed] >= max(_ENOUGH, 3 * shares[other]):
        warnings.append(
            f"the {decomposed} has letters and accents apart (Unicode NFD), the {other} has not. They count as "
            "different: convert both to NFC, for example with uconv -x any-nfc."
        )
    return warnings


def share_few_words(hypotheses: Sequence[str], reference: Sequence[str]) -> bool:
    """Whether fewer words of a hypothesis are in its reference than in most texts of one language."""
    words = [set(" ".join(lines[:_LINES_FOR_WORDS]).lower().split()) for lines in (hypotheses, reference)]
    return len(words[0] & words[1]) < _ENOUGH * len(words[0])


def tokenizer_warnings(references: Sequence[Sequence[str]], tokenizer: str) -> list[str]:
    """Warnings if BLEU's tokeniser cannot split the script of the references, so that sentences count as one word.

    Args:
        tokenizer: sacreBLEU's name, as in the signature.
    """
    if tokenizer not in ("13a", "intl"):
        return []
    lines = itertools.chain.from_iterable(lines[:_LINES_FOR_SCRIPT] for lines in references)
    letters = "".join(filter(str.isalpha, itertools.chain.from_iterable(lines)))
    counts = {script: len(regex.findall(script, letters)) for script in _SCRIPTS}
    if sum(counts.values()) < max(1, _ENOUGH * len(letters)):
        return []
    # Japanese text has Han characters too, mostly more of them.
    japanese, *others = _SCRIPTS
    name, language = _SCRIPTS[japanese if counts[japanese] else max(others, key=lambda script: counts[script])]
    advice = f"--target-lang {language} (or --tokenize char)" if language else _BY_CHARACTERS
    return [
        f"the reference is written in {name}, which the tokeniser {tokenizer} does not split: BLEU means little. "
        f"Use {advice}."
    ]


def _tokenised_share(lines: Sequence[str]) -> float:
    """The share of lines with a space before punctuation, or with escaped characters."""
    if not lines:
        return 0.0
    return sum(bool(_SPACED_PUNCTUATION.search(line) or _ESCAPED.search(line)) for line in lines) / len(lines)


def _decomposed_share(lines: Sequence[str]) -> float:
    """The share of lines that are not in Unicode's normal form C, of those beyond ASCII."""
    others = [line for line in lines if not line.isascii()]
    return sum(line != nfc(line) for line in others) / max(1, len(others))
