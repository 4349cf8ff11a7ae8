"""What stays as it is in a text: a character that stands for it, and where a translation has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import regex

from nmt.spans.positions import LETTER
from nmt.spans.span import Span

_STAND_INS = range(0x2801, 0x2900)
"""Braille that is not in the text. Steps of text remove private characters, but not symbols."""
_LETTERS = regex.compile(LETTER * 2, regex.V1)
_LONGEST_WORD = 40
"""Letters looked at on either side of a place."""


@dataclass(frozen=True)
class Covered:
    """A text with one character, a stand-in, for each part that stays: nothing divides or changes it."""

    text: str
    stand_ins: Mapping[int, str]
    """The code of each stand-in -> what it stands for, as for :meth:`str.translate`."""

    @staticmethod
    def of(text: str, spans: Sequence[Span]) -> Covered:
        """Cover what the spans of a text keep."""
        own = set(text)
        free = (code for code in _STAND_INS if chr(code) not in own)
        parts, stand_ins = list[str](), dict[int, str]()
        end = 0
        for (start, stop), code in zip(_kept(text, spans), free, strict=False):
            parts += [text[end:start], chr(code)]
            stand_ins[code] = text[start:stop]
            end = stop
        return Covered("".join([*parts, text[end:]]), stand_ins)

    def part(self, text: str) -> Covered | None:
        """A part of the text; None if there are no stand-ins in it."""
        stand_ins = {ord(each): self.stand_ins[ord(each)] for each in text if ord(each) in self.stand_ins}
        return Covered(text, stand_ins) if stand_ins else None

    @property
    def characters(self) -> frozenset[str]:
        """The stand-ins."""
        return frozenset(map(chr, self.stand_ins))

    @property
    def kept(self) -> Counter[str]:
        """What stays, and how often."""
        return Counter(self.stand_ins.values())

    def uncovered(self, text: str) -> str:
        """A text with what its stand-ins stand for."""
        return text.translate(self.stand_ins)

    def is_kept(self, seen: str, output: str) -> bool:
        """Whether a translation has all that stays, as often as what the model saw of the text."""
        had, has = (Counter(text[slice(*place)] for place in self._places(text)) for text in (seen, output))
        return had <= has

    def spans_in(self, output: str) -> list[Span]:
        """Spans that keep in a translation what stays, where it has that."""
        return [Span(start, end, text="") for start, end in sorted(self._places(output))]

    def _places(self, text: str) -> Iterator[tuple[int, int]]:
        """Where a text has what stays: longer parts first, since they may hold others."""
        taken: set[int] = set()
        for part, count in sorted(self.kept.items(), key=lambda each: -len(each[0])):
            free = (place for place in copies(part, text) if taken.isdisjoint(range(*place)))
            for place in islice(free, count):
                taken.update(range(*place))
                yield place


def _kept(text: str, spans: Sequence[Span]) -> Iterator[tuple[int, int]]:
    """What spans keep, without white space around it."""
    end = 0
    for span in spans:
        inside = text[span.start : span.end]
        if span.text is not None and inside.strip() and span.start >= end:
            start = span.start + len(inside) - len(inside.lstrip())
            end = start + len(inside.strip())
            yield start, end


def copies(text: str, output: str) -> list[tuple[int, int]]:
    """Where a text stands in an output, but not within a word."""
    found = []
    place = output.find(text) if text else -1
    while place >= 0:
        end = place + len(text)
        is_copy = not (is_in_word(output, place) or is_in_word(output, end))
        if is_copy:
            found.append((place, end))
        place = output.find(text, end if is_copy else place + 1)
    return found


def is_in_word(text: str, place: int) -> bool:
    """Whether a word goes on at a place."""
    return place > 0 and _LETTERS.match(text, place - 1, place + 1) is not None


def word_around(text: str, start: int, end: int) -> tuple[int, int]:
    """A range with the letters beside it that belong to the same words."""
    first, last = start, end
    while is_in_word(text, first) and start - first < _LONGEST_WORD:
        first -= 1
    while is_in_word(text, last) and last - end < _LONGEST_WORD:
        last += 1
    return first, last
