"""Puts what was taken out of a line into its translation: each run at the place that the alignment shows."""

from __future__ import annotations

import itertools
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nmt.spans.positions import needs_space
from nmt.text.sentences import FOOTNOTE
from nmt.translation.character_kinds import LETTER, UNSPACED, UNSPACED_SCRIPTS, is_spaced, is_text, kind_of, kinds_of
from nmt.translation.taking_out import Run, Taken

# No group is possessive: Python before 3.11.5 matches such groups wrongly (CPython issue 106052).
_TOKEN = re.compile(r"w++(?:cw++)*|u|[cp]++")
# Marks that stand for each other. A copied mark replaces the model's own beside it.
_MARKS = (".…。．｡!！?？؟।۔‽‼⁇⁈⁉", ",，、،", ":：", ";；؛")


def put_back(
    taken: Taken,
    translation: str,
    source_ends: Sequence[int] = (),
    target_ends: Sequence[int] = (),
    alignment: Sequence[int | None] | None = None,
) -> str:
    """Put the runs of a line into the translation of its known text.

    The first and last runs go to the beginning and the end. An inner run goes after the target word that is aligned to
    the source word before the run. A run that belongs only to the following word goes before the target word that is
    aligned to that word. If these source words have no alignment, the nearest earlier source word is used.

    Args:
        source_ends: the end of each source piece in ``taken.text``, in characters.
        target_ends: the end of each target piece in ``translation``.
        alignment: for each target piece, the index of a source piece or None; None if there is no alignment.
    """
    if taken.inner:
        source, target = _tokens(taken.text), _tokens(translation)
        links = _links(source, target, source_ends, target_ends, alignment or ())
        places = [_place(run, source, target, links, len(translation)) for run in taken.inner]
        # Insert from the end, so that earlier places stay valid. Runs at the same place keep their order. The white
        # space before a run may become shorter, so the next run at the same place goes before it.
        end = len(translation)
        for number in sorted(range(len(places)), key=lambda number: (places[number].index, number), reverse=True):
            place = replace(places[number], index=min(places[number].index, end))
            end = len(translation[: place.index].rstrip())
            translation = _inserted(translation, taken.inner[number], place, taken.text)
    if not taken.text:
        return taken.first
    first, last = taken.first.rstrip(), taken.last.lstrip()
    if first:
        is_opening = len(first) == 1 and unicodedata.category(first) in ("Ps", "Pi")
        is_apart = not (is_opening or _is_word(taken.text[0]))
        space = taken.first[len(first) :] or (" " if is_apart and _is_word(translation[:1]) else "")
        space = space or _needed(taken.text, first, translation)
        translation = first + _gap(first, space, translation) + translation
    if last and (marks := _marks_like(last[0])) and taken.text[-1] not in marks:
        translation = translation.rstrip(marks)
    space = taken.last[: len(taken.last) - len(last)] or _needed(taken.text[-1], last, translation[-1:])
    return translation + _gap(translation, space, last) + last


@dataclass(frozen=True)
class _Token:
    """A word, or adjacent punctuation marks."""

    begin: int
    end: int
    is_word: bool


def _tokens(text: str) -> list[_Token]:
    kinds = kinds_of(text, lambda cluster: False)
    return [_Token(*match.span(), is_word=match[0][0] in (LETTER, UNSPACED)) for match in _TOKEN.finditer(kinds)]


def _links(
    source: Sequence[_Token],
    target: Sequence[_Token],
    source_ends: Sequence[int],
    target_ends: Sequence[int],
    alignment: Sequence[int | None],
) -> dict[int, list[int]]:
    """Source token -> aligned target tokens, in order. Words align only to words, punctuation only to punctuation."""
    links: dict[int, set[int]] = defaultdict(set)
    source_spans, target_spans = ([*itertools.pairwise([0, *ends])] for ends in (source_ends, target_ends))
    for target_span, aligned in zip(target_spans, alignment, strict=False):
        if aligned is None:
            continue
        for left in _overlapped(source, *source_spans[aligned]):
            for right in _overlapped(target, *target_span):
                if source[left].is_word == target[right].is_word:
                    links[left].add(right)
    return {left: sorted(rights) for left, rights in links.items()}


def _overlapped(tokens: Sequence[_Token], begin: int, end: int) -> range:
    """The tokens that overlap with the span of a piece."""
    return range(
        bisect_right(tokens, begin, key=lambda token: token.end),
        bisect_left(tokens, end, key=lambda token: token.begin),
    )


@dataclass(frozen=True)
class _Place:
    """The place of a run in a translation."""

    index: int
    """The number of characters before the run."""
    attaches: bool
    """Whether the following text is attached to the run without white space."""


def _place(
    run: Run, source: Sequence[_Token], target: Sequence[_Token], links: dict[int, list[int]], length: int
) -> _Place:
    following = bisect_right(source, run.place - 1, key=lambda token: token.begin)
    linked = links.get(following, [])
    if run.attaches_right_only and linked:
        return _Place(target[linked[0]].begin, attaches=True)
    for index in range(following - 1, -1, -1):
        if index in links:
            last = links[index][-1]
            return _Place(target[last].end, run.attaches_right_only or (run.is_attached and last + 1 in linked))
    for index in range(following, len(source)):
        if index in links:
            return _Place(target[links[index][0]].begin, attaches=False)
    return _Place(length, attaches=False)


def _inserted(text: str, run: Run, place: _Place, source: str) -> str:
    """Insert a run into the text, with the white space of the run or, if it has none, of the text.

    Args:
        source: the known text of the source.
    """
    preceding, following = source[: run.place], source[run.place :]
    before, after = text[: place.index].rstrip(), text[place.index :].lstrip()
    gap = text[len(before) : len(text) - len(after)]
    if run.text.isspace():
        return before + run.text + after
    copied = run.text.strip()
    if (marks := _marks_like(copied[-1])) and following[:1] not in marks and after[:1] in marks:
        shorter = after.lstrip(marks)
        after = shorter.lstrip()
        gap = shorter[: len(shorter) - len(after)]
    lead = run.text[: len(run.text) - len(run.text.lstrip())]
    if not before and not gap and _is_word(after[:1]):
        gap = " "
    trail = "" if place.attaches or not gap else run.text[len(run.text.rstrip()) :] or gap
    lead = lead or _needed(preceding[-1:], copied, before[-1:])
    trail = trail or _needed(following, copied, after)
    return before + _gap(before, lead, copied) + copied + _gap(copied, trail, after) + after


def _needed(source: str, copied: str, target: str) -> str:
    """The space that letters of the target need beside what was copied, unless that is punctuation."""
    is_punctuation = all(unicodedata.category(character)[0] == "P" for character in copied)
    return " " * (needs_space(source, target) and not is_punctuation)


def _gap(before: str, space: str, after: str) -> str:
    """The white space between two texts: the given one, but a space between words, and none in unspaced text."""
    if not before or not after:
        return ""
    left, right = before[-1], after[0]
    if unicodedata.category(left) == "Ps" or (UNSPACED_SCRIPTS.match(left) and UNSPACED_SCRIPTS.match(right)):
        return ""
    is_footnote = FOOTNOTE.match(before[-3:] + after, len(before[-3:])) is not None
    return space or (" " if is_spaced(kind_of(left), kind_of(right)) and not is_footnote else "")


def _is_word(character: str) -> bool:
    """Whether a character belongs to a word; an empty text does not."""
    return bool(character) and is_text(kind_of(character))


def _marks_like(mark: str) -> str:
    """The marks that a mark stands for, itself among them; empty for other characters."""
    return next((marks for marks in _MARKS if mark in marks), "")
