"""Variants of training pairs that make a model robust against text as people type it.

The kinds, and what each does, are those of OpusTrainer (Nikolov et al. 2023, arXiv 2311.14838), but for noise: its
letters are those of the training text here, since a vocabulary has no pieces for others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from nmt.config import AugmentationConfig
from nmt.text.case import capitalized, upper

Pair = tuple[str, str]
Draw = np.random.Generator
_KIND_OF_TYPO = 0.1
"""The probability of each kind of typing error in a source that may have some, as in OpusTrainer."""
_END_MARKS = (".．｡。।۔။።։", "!！՜", "?？؟;՞፧", ",，､、،၊", ":：", ";；؛፤", "…")
"""Marks at the ends of sentences that correspond to each other across languages."""
_ALL_MARKS = frozenset("".join(_END_MARKS))
_KEYBOARD = ("1234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm")
_LOOK_ALIKES = ("o0", "l1i", "s5", "z2", "b8", "g9q", "uv", "nm", "ce", "ft", "vw")
_NOISE_WORDS, _NOISE_LETTERS = 6, (2, 5)


def augmented(pairs: Sequence[Pair], shares: AugmentationConfig, languages: Pair, draw: Draw) -> list[Pair]:
    """The pairs, a share of each kind changed; pairs of noise stand before the pair that drew them.

    A pair may be changed in several ways. The source alone gets typing errors.

    Args:
        languages: the codes of the source and target languages.
    """
    kinds: list[tuple[float, Callable[[Pair], Pair]]] = [
        (shares.upper_case, lambda pair: (upper(pair[0], languages[0]), upper(pair[1], languages[1]))),
        (shares.title_case, lambda pair: (_titled(pair[0], languages[0]), _titled(pair[1], languages[1]))),
        (shares.no_end_mark, _without_end_mark),
        (shares.typos, lambda pair: (_mistyped(pair[0], draw), pair[1])),
    ]
    drawn = draw.random((len(kinds) + 1, len(pairs)))
    letters = _letters(pairs) if shares.noise else ""
    result = []
    for index, pair in enumerate(pairs):
        changed = pair
        for (share, change), number in zip(kinds, drawn[:, index], strict=False):
            if number < share and all(changed):
                changed = change(changed)
        if letters and drawn[-1, index] < shares.noise:
            result.append((_noise(letters, draw),) * 2)
        result.append(changed)
    return result


def _titled(text: str, language: str) -> str:
    return " ".join(capitalized(word, language) for word in text.split(" "))


def _without_end_mark(pair: Pair) -> Pair:
    """Drop the last mark of both sides, if they correspond and are no part of several."""
    if not any(all(side[-1] in marks for side in pair) for marks in _END_MARKS):
        return pair
    without = [side[:-1].rstrip() for side in pair]
    if any(not side or side[-1] in _ALL_MARKS for side in without):
        return pair
    return without[0], without[1]


def _mistyped(text: str, draw: Draw) -> str:
    for make in _TYPOS:
        if draw.random() < _KIND_OF_TYPO:
            text = make(text, draw)
    return text


def _at(places: Sequence[int], draw: Draw) -> int | None:
    """One of some places; None if there is none."""
    return places[int(draw.integers(len(places)))] if places else None


def _where(text: str, is_wanted: Callable[[str], bool], width: int = 1) -> list[int]:
    """The places in a text where each of ``width`` characters is wanted."""
    wanted = list(map(is_wanted, text))
    return [place for place in range(len(text) - width + 1) if all(wanted[place : place + width])]


def _swapped(text: str, draw: Draw) -> str:
    place = _at(_where(text, str.isalnum, 2), draw)
    return text if place is None else text[:place] + text[place + 1] + text[place] + text[place + 2 :]


def _missing(text: str, draw: Draw) -> str:
    places = _where(text, str.isalnum)
    place = _at(places, draw) if len(places) > 1 else None
    return text if place is None else text[:place] + text[place + 1 :]


def _repeated(text: str, draw: Draw) -> str:
    place = _at(_where(text, str.isalnum), draw)
    return text if place is None else text[: place + 1] + text[place:]


def _single(text: str, draw: Draw) -> str:
    """One letter of two that are equal is missing."""
    doubles = [place for place in _where(text, str.isalnum, 2) if text[place] == text[place + 1]]
    place = _at(doubles, draw)
    return text if place is None else text[:place] + text[place + 1 :]


def _joined(text: str, draw: Draw) -> str:
    """A space is missing."""
    place = _at([place for place in _where(text, str.isspace) if 0 < place < len(text) - 1], draw)
    return text if place is None else text[:place] + text[place + 1 :]


def _spaced(text: str, draw: Draw) -> str:
    """There is a space within a word."""
    place = _at(_where(text, lambda character: not character.isspace(), 2), draw)
    return text if place is None else f"{text[: place + 1]} {text[place + 1 :]}"


def _added(text: str, draw: Draw) -> str:
    """A key beside a letter's was hit too."""
    return _with_other(text, _NEAR_KEYS, draw, keeps=True)


def _near(text: str, draw: Draw) -> str:
    """A key beside a letter's was hit instead."""
    return _with_other(text, _NEAR_KEYS, draw)


def _alike(text: str, draw: Draw) -> str:
    return _with_other(text, _ALIKE, draw)


def _with_other(text: str, others: dict[str, str], draw: Draw, *, keeps: bool = False) -> str:
    place = _at(_where(text, lambda character: character.lower() in others), draw)
    if place is None:
        return text
    letter = text[place]
    choices = others[letter.lower()]
    other = choices[int(draw.integers(len(choices)))]
    return text[: place + keeps] + (other.upper() if letter.isupper() else other) + text[place + 1 :]


def _near_keys() -> dict[str, str]:
    places = {key: (row, column) for row, keys in enumerate(_KEYBOARD) for column, key in enumerate(keys)}
    return {
        key: "".join(
            other
            for other, place in places.items()
            if other != key
            and (abs(place[0] - row), place[1] - column) in {(0, 1), (0, -1), (1, 0), (1, row - place[0])}
        )
        for key, (row, column) in places.items()
    }


_NEAR_KEYS = _near_keys()
_ALIKE = {
    letter: "".join(
        dict.fromkeys(other for group in _LOOK_ALIKES if letter in group for other in group if other != letter)
    )
    for letter in set("".join(_LOOK_ALIKES))
}
_TYPOS = (_swapped, _missing, _added, _near, _alike, _joined, _spaced, _repeated, _single)


def _letters(pairs: Sequence[Pair]) -> str:
    """All letters of some text, each as often as it occurs."""
    return "".join(filter(str.isalpha, itertools.chain.from_iterable(itertools.chain.from_iterable(pairs))))


def _noise(letters: str, draw: Draw) -> str:
    """Words of random letters, which are equal on both sides: a model learns to copy what it does not know."""
    lengths = draw.integers(_NOISE_LETTERS[0], _NOISE_LETTERS[1] + 1, int(draw.integers(1, _NOISE_WORDS + 1)))
    return " ".join("".join(letters[place] for place in draw.integers(len(letters), size=n)) for n in lengths)
