"""What two models are compared on: lines that are hard to segment, and random pieces of every length."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.data.vocab import Vocabulary
from nmt.data.vocab_pair import VocabularyPair

LINES = (
    "A plain sentence, with a comma.",
    "  leading, trailing and   several    spaces   ",
    "tab\tand no-break\u00a0space, thin\u2009space, zero\u200bwidth",
    "ÄÖÜ äöü ß ñ ç ø Ł ő – „Zitat“ «guillemets» …",
    "Смешанный mixed μικτό 混合 テスト 한국어 العربية עברית हिन्दी",
    "emoji 😀 👩‍👩‍👧‍👦 🇩🇪 and ☃ ♥",
    "combining e\u0301 a\u0308 and fullwidth ＡＢＣ １２３ ﬁ ligature",
    "numbers 3.141,59 1,000,000 50% €20 x² ½",
    "https://example.org/a_b?c=d&e=f user@example.org C++ #hash @@ ##",
    "control \x01 \x07 \x1b characters",
    "tag in the middle >>xx<< of a line",
    "averyveryveryverylongwordwithoutanyspaces" * 4,
    "UPPER lower MiXeD CamelCase snake_case kebab-case",
    "quotes \"double\" 'single' `back` ’curly’ -- (brackets) [square] {curly}",
    "",
    " ",
    "a",
    "?!.,;:",
)
_LENGTHS = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377)


@dataclass(frozen=True)
class Probes:
    """Sources and targets that two models are compared on."""

    lines: tuple[str, ...]
    """Text, to be segmented and translated."""
    sources: tuple[tuple[str, ...], ...]
    targets: tuple[tuple[str, ...], ...]
    """Random pieces: pairs of sources and targets of lengths from 1 to the maximum."""
    given: tuple[str, ...] = ()
    """Source text of the user, the first of the lines."""


def make_probes(vocab: VocabularyPair, longest: int, given: Sequence[str] = ()) -> Probes:
    """The probes for a model; the same model always gets the same.

    Args:
        longest: maximum pieces of a sentence, without eos.
        given: source text of the user.
    """
    draw = random.Random(0)
    lengths = [length for length in _LENGTHS if length < longest] + [longest]
    tags = [f"{tag} {LINES[0]}" for tag in vocab.source.language_tags[:3]]
    return Probes(
        (*given, *tags, *LINES),  # the first ones are searched by every side
        tuple(_random_pieces(vocab.source, length, draw) for length in lengths),
        tuple(_random_pieces(vocab.target, length, draw) for length in lengths),
        tuple(given),
    )


def _random_pieces(vocab: Vocabulary, length: int, draw: random.Random) -> tuple[str, ...]:
    return tuple(vocab.pieces(draw.randrange(Vocabulary.EOS + 1, vocab.size) for _ in range(length)))
