"""A look at a sample of the pairs: is each side in its language, and is each line beside its translation?

The sample is spread evenly over a corpus, in blocks of neighbouring pairs, and the same in every run. Doubts are
warnings: no pair is dropped for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from unicodedata import is_normalized

import numpy as np

from nmt.corpora.formats import Pair
from nmt.corpora.pair_filters import has_markup
from nmt.corpora.schema import Recipe
from nmt.corpora.wrong_language import alike, in_other_script, most_seem_to_be
from nmt.text.languages import language_of_name, primary_language
from nmt.text.lines import comparison_key

_BLOCK = 16
_MAX_BLOCKS = 128
_FEWEST = 20
"""Fewer pairs are not judged."""
_FEW_DECOMPOSED = 0.01
"""A smaller share of decomposed lines does no harm."""
_LITTLE_MARKUP = 0.05
"""A smaller share of pairs with markup may be text about it."""
_SIDE_NAMES = ("source", "target")
_MOST_SEGMENTS = 8
"""Parts of a corpus in which the alignment is judged on its own: it may be lost in the middle."""
_MAX_OFFSET = 3
# A part is misaligned if lengths at an offset correlate at least so much, and by so much more than those side by side,
# which correlate by 0.5 to 0.95 in correct pairs; all others hardly do.
_CORRELATION, _MORE = 0.5, 0.3
# Sides are not parallel at all if their lengths vary, but hardly together.
_UNRELATED, _VARIATION, _MANY = 0.1, 0.2, 200


class PairSample:
    """Collects blocks of neighbouring pairs: all of a small corpus, otherwise between 1,024 and 2,048 pairs."""

    def __init__(self) -> None:
        self.blocks: dict[int, list[Pair]] = {}
        """By the number of the first pair, counted from 0."""
        self._stride = 1

    def add(self, number: int, pair: Pair) -> None:
        """Offer a pair of the corpus, in order.

        Args:
            number: of the pair, counted from 0.
        """
        block, place = divmod(number, _BLOCK)
        if block % self._stride:
            return
        if place == 0 and len(self.blocks) == _MAX_BLOCKS:
            self._stride *= 2
            self.blocks = {first: pairs for first, pairs in self.blocks.items() if first // _BLOCK % self._stride == 0}
            if block % self._stride:
                return
        self.blocks.setdefault(block * _BLOCK, []).append(pair)

    def doubts(
        self,
        source_lang: str,
        target_lang: str,
        *,
        composes: bool = False,
        trains: bool = True,
        drops_markup: bool = False,
    ) -> list[str]:
        """What seems to be wrong with the corpus, as sentences that say what to do; usually nothing.

        Args:
            composes: whether training text is brought to Unicode normal form C anyway.
            trains: whether it is training text; otherwise its target side are references.
            drops_markup: whether a filter finds markup anyway.
        """
        pairs = [pair for block in self.blocks.values() for pair in block if all(map(str.strip, pair))]
        if len(pairs) < _FEWEST:
            return []
        equal = sum(comparison_key(source) == comparison_key(target) for source, target in pairs)
        if 2 * equal > len(pairs):
            return [
                f"source and target are equal in {equal:,} of {len(pairs):,} sampled pairs. Are both files the same?"
            ]
        found = (
            _about_languages(list(self.blocks.values()), (source_lang, target_lang)),
            self._about_alignment(),
            "" if composes and trains else _about_decomposition(pairs, trains=trains),
            "" if drops_markup or not trains else _about_markup(pairs),
        )
        return list(filter(None, found))

    def _about_alignment(self) -> str:
        firsts = list(self.blocks)
        count = max(1, min(_MOST_SEGMENTS, len(firsts) // 4))
        parts = [[firsts[index] for index in part] for part in np.array_split(np.arange(len(firsts)), count)]
        offsets = {part[0]: offset for part in parts if (offset := _offset([self.blocks[first] for first in part]))}
        if offsets:
            begin = min(offsets)
            offset = Counter(offsets.values()).most_common(1)[0][0]
            where = f"from about line {begin + 1:,}, " if begin else ""
            lines = f"{abs(offset)} line{'s' * (abs(offset) > 1)} {'later' if offset > 0 else 'earlier'}"
            return (
                f"{where}the sides seem to be shifted: a source line fits the target {lines}. "
                "Check that no line was added or lost on one side."
            )
        lengths = _lengths(list(self.blocks.values()), 0)
        varies = len(lengths) >= _MANY and lengths.std(axis=0).min() > _VARIATION
        if varies and _correlation(lengths) < _UNRELATED:
            return "the lengths of source and target lines do not vary together. Are they translations of each other?"
        return ""


def _about_decomposition(pairs: Sequence[Pair], *, trains: bool) -> str:
    """Which sides have text that is not in Unicode normal form C: models take it for other characters.

    The source of held-out text is composed as the model's text was, when it is translated.
    """
    shares = [sum(not is_normalized("NFC", pair[side]) for pair in pairs) / len(pairs) for side in (0, 1)]
    found = [
        f"{share:.0%} of the {_SIDE_NAMES[side]} lines" for side, share in enumerate(shares) if share > _FEW_DECOMPOSED
    ]
    if not found or (not trains and shares[1] <= _FEW_DECOMPOSED):
        return ""
    consequence = (
        "so a model takes their characters for others. Compose training text with normalisation.nfc: true in the "
        "recipe (--show-recipe prints it)."
        if trains
        else "so translations of a model that composes its text differ from these references. Compose the file, for "
        "example with `uconv -x any-nfc`."
    )
    return (
        f"{' and '.join(found if trains else found[-1:])} are not in Unicode normal form C (as letters followed by "
        f"their accents), {consequence}"
    )


def _about_markup(pairs: Sequence[Pair]) -> str:
    share = sum(any(map(has_markup, pair)) for pair in pairs) / len(pairs)
    if share <= _LITTLE_MARKUP:
        return ""
    return (
        f"{share:.0%} of the sampled pairs have tags or entities of HTML (as <b> or &amp;), which a model learns to "
        "write. Drop such pairs with --filter html."
    )


def doubts_about_names(recipe: Recipe) -> list[str]:
    """The files whose names end in other languages than they are said to be in, as warnings."""
    doubts = []
    languages = recipe.source_lang, recipe.target_lang
    for split, corpus in recipe.corpora():
        files = corpus.side_names(recipe)
        named = [language_of_name(Path(file)) for file in files]
        if all(named) and files and list(map(primary_language, named)) != list(map(primary_language, languages)):
            doubts.append(
                f"{split}: {files[0]} is read as {languages[0]}, and {files[1]} as {languages[1]}, but their names say "
                f"{named[0]} and {named[1]}. Check which file is the source, and the languages."
            )
    return doubts


def _about_languages(blocks: Sequence[Sequence[Pair]], languages: tuple[str, str]) -> str:
    sides = [[[pair[side] for pair in block if pair[side].strip()] for block in blocks] for side in (0, 1)]
    for judge in (_by_script, _by_identification):
        doubts = [judge(sides[side], languages[side], languages[1 - side]) for side in (0, 1)]
        if all(doubt == "exchanged" for doubt in doubts):
            return (
                f"source and target seem to be exchanged: the source looks like {languages[1]}, the target like "
                f"{languages[0]}. Exchange the files, or the languages."
            )
        for side, doubt in zip(_SIDE_NAMES, doubts, strict=True):
            if doubt:
                said = languages[side == "target"]
                seems = "is in the script of" if judge is _by_script else "looks like"
                found = f"{seems} {languages[side == 'source']}" if doubt == "exchanged" else f"looks {doubt}"
                return f"the {side} is said to be {said}, but {found}. Check the files and the languages."
    return ""


def _by_script(blocks: Sequence[Sequence[str]], own: str, other: str) -> str:
    """How a side looks if most of its lines are in a script that its language does not use; otherwise empty."""
    is_foreign, is_foreign_to_other = in_other_script(own), in_other_script(other)
    if is_foreign is None:
        return ""
    lines = [line for block in blocks for line in block]
    foreign = list(filter(is_foreign, lines))
    if 2 * len(foreign) <= len(lines):
        return ""
    fits = is_foreign_to_other is not None and 2 * sum(map(is_foreign_to_other, foreign)) <= len(foreign)
    return "exchanged" if fits else f"different: {len(foreign):,} of {len(lines):,} sampled lines are in another script"


def _by_identification(blocks: Sequence[Sequence[str]], own: str, other: str) -> str:
    """How a side looks if the language identifier takes most of it for one other language; otherwise empty."""
    found = most_seem_to_be(blocks, own)
    return "exchanged" if found in alike(other) else f"like {found}" if found else ""


def _offset(blocks: Sequence[Sequence[Pair]]) -> int:
    """The number of lines by which the target is shifted against the source; 0 if it is not."""
    found = {offset: _correlation(_lengths(blocks, offset)) for offset in range(-_MAX_OFFSET, _MAX_OFFSET + 1)}
    best = max(found, key=found.__getitem__)
    return best if found[best] > max(_CORRELATION, found[0] + _MORE) else 0


def _lengths(blocks: Sequence[Sequence[Pair]], offset: int) -> np.ndarray:
    """Logarithms of the lengths in characters of each source line and the target line so many lines later.

    Shape (pairs, 2). Pairs lie within the blocks, and have no blank line.
    """
    sizes = [
        (len(block[index][0]), len(block[index + offset][1]))
        for block in blocks
        for index in range(max(0, -offset), min(len(block), len(block) - offset))
        if block[index][0].strip() and block[index + offset][1].strip()
    ]
    return np.log(sizes).reshape(-1, 2)


def _correlation(lengths: np.ndarray) -> float:
    if len(lengths) < _FEWEST or lengths.std(axis=0).min() < 1e-6:
        return 0.0
    return float(np.corrcoef(lengths.T)[0, 1])
