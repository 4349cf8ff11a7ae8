"""Copies characters that a model cannot know from the source into the translation.

A vocabulary spells characters that its training text never had in bytes, or as unk. A model that has never seen these
bytes makes up words for them. So they are taken out of the line before the search, and put back into what it finds.
Pure functions over text: what is unknown, and which pieces belong together, they are told.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from nmt.config.sections import LineStatistics
from nmt.data.vocab import Vocabulary
from nmt.translation.long_lines import belong_together
from nmt.translation.results import TranslatedText, one_line

IsUnknown = Callable[[Sequence[str]], Sequence[bool]]
"""Tells of each text whether the vocabulary lacks a piece for a character in it."""

# With fewer byte pieces than that among its source pieces, a model has hardly learnt to copy them. A character coverage
# of 0.9995 makes it some 50 times as many.
_SELDOM = 1e-4

# A kind per character, so that patterns of kinds find stretches of text.
_SPACE, _LETTER, _UNSPACED, _INNER, _OTHER, _UNKNOWN_LETTER, _UNKNOWN = " wucpWX"
_WORD = re.compile(r"[wW]++(?:c[wW]++)*+")
_RUN = re.compile(r"(?<! ) *+X[X ]*+")
_TOKEN = re.compile(r"w++(?:cw++)*+|u|[cp]++")
_INNER_CHARACTERS = "-'’.@_"
# Scripts whose words are not separated by spaces: Thai, Lao, Burmese, Khmer, kana and Han.
_UNSPACED_SCRIPTS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_SPACES = re.compile("  +")


@dataclass(frozen=True)
class Run:
    """Unknown characters that stand together inside a line."""

    text: str
    """With the white space around it."""
    place: int
    """Where it stood: the number of characters of the known text before it."""
    is_attached: bool
    """Whether a word followed without white space."""

    @property
    def leans_right(self) -> bool:
        """Whether it belongs to the word behind it alone, as an opening quotation mark does."""
        return self.is_attached and self.text[0].isspace()


@dataclass(frozen=True)
class Taken:
    """A line from which all runs of unknown characters were taken out."""

    text: str
    """What is left, for the model to read; empty if the line is to be copied as it is."""
    first: str
    """The run at the beginning of the line, or nothing; all of a line that is to be copied."""
    inner: tuple[Run, ...]
    last: str
    """The run at the end of the line, or nothing."""


def take_out(line: str, is_unknown: IsUnknown) -> Taken | None:
    """Take the unknown characters out of a line.

    A run is unknown characters and the white space around them. An unknown letter counts with all of its word. Of a
    line in which no letter and no digit is left, everything is taken.

    Returns:
        None where the line has no unknown characters.
    """
    kinds = _WORD.sub(_whole_word, _kinds(line, is_unknown))
    spans = [match.span() for match in _RUN.finditer(kinds)]
    if not spans:
        return None
    if not _is_text(kinds):
        return Taken("", line, (), "")
    text, first, last = "", "", ""
    inner = []
    end = 0
    for begin, run_end in spans:
        text += _SPACES.sub(" ", line[end:begin])
        run, end = line[begin:run_end], run_end
        if begin == 0:
            first = run
        elif end == len(line):
            last = run
        else:
            text = text.lstrip(" ")
            inner.append(Run(run, len(text), not run[-1].isspace() and _is_text(kinds[end])))
            text += _between(run, line[begin - 1], line[end], of_words=_is_spaced(kinds[begin - 1], kinds[end]))
    text += _SPACES.sub(" ", line[end:])
    return Taken(text.strip(" "), first, tuple(inner), last)


def _whole_word(kinds: re.Match[str]) -> str:
    # Half of a name is no name.
    return _UNKNOWN * len(kinds[0]) if _UNKNOWN_LETTER in kinds[0] else kinds[0]


def _is_text(kinds: str) -> bool:
    """Whether there is a known letter or digit."""
    return _LETTER in kinds or _UNSPACED in kinds


def _is_spaced(*kinds: str) -> bool:
    return all(kind == _LETTER for kind in kinds)


def _kinds(line: str, is_unknown: IsUnknown) -> str:
    """The kind of each character."""
    clusters = list(_clusters(line))
    distinct = list(dict.fromkeys(clusters))
    kinds = {
        cluster: _kind(cluster, unknown) * len(cluster)
        for cluster, unknown in zip(distinct, is_unknown(distinct), strict=True)
    }
    return "".join(kinds[cluster] for cluster in clusters)


def _clusters(line: str) -> Iterator[str]:
    """Characters with their marks; sequences of emoji and flags as one."""
    begin = 0
    for end in range(1, len(line) + 1):
        if end == len(line) or not belong_together(line[end - 1], line[end]):
            yield line[begin:end]
            begin = end


def _kind(cluster: str, unknown: bool) -> str:
    character = cluster[0]
    is_letter = character.isalnum() or unicodedata.category(character)[0] == "M"
    if unknown:
        return _UNKNOWN_LETTER if is_letter and not _UNSPACED_SCRIPTS.match(character) else _UNKNOWN
    if character.isspace():
        return _SPACE
    if is_letter:
        return _UNSPACED if _UNSPACED_SCRIPTS.match(character) else _LETTER
    return _INNER if character in _INNER_CHARACTERS else _OTHER


def _between(run: str, before: str, after: str, *, of_words: bool) -> str:
    """What stands in a run's place: a space, unless marks go with the word beside them.

    Args:
        before, after: the characters around it.
        of_words: whether both belong to words that spaces separate.
    """
    if run[0].isspace() and run[-1].isspace():
        return " "
    if run[0].isspace():
        return "" if unicodedata.category(after) in ("Pe", "Pf", "Po") else " "
    if run[-1].isspace():
        return "" if unicodedata.category(before) in ("Ps", "Pi") else " "
    return " " if of_words and not _is_invisible(run) else ""


def _is_invisible(run: str) -> bool:
    return all(unicodedata.category(character) in ("Cf", "Cc") for character in run)


def put_back(
    taken: Taken,
    translation: str,
    source_ends: Sequence[int] = (),
    target_ends: Sequence[int] = (),
    alignment: Sequence[int | None] | None = None,
) -> str:
    """Put the runs of a line into a translation of what was left of it.

    The runs at the beginning and the end go to the beginning and the end. Any other goes behind the target word that
    is aligned to the source word before it; or, if it is attached to the word behind it alone, before the target word
    that is aligned to that one. Where no such word is aligned, a word further ahead in the source serves.

    Args:
        source_ends: the end of each source piece in ``taken.text``, in characters.
        target_ends: the end of each target piece in ``translation``.
        alignment: for each target piece the index of a source piece, or None; None if nothing is known.
    """
    if taken.inner:
        source, target = _tokens(taken.text), _tokens(translation)
        links = _links(source, target, source_ends, target_ends, alignment or ())
        places = [_place(run, source, target, links, len(translation)) for run in taken.inner]
        # From the last place, so that those before it stay right; runs of one place keep their order.
        for number in sorted(range(len(places)), key=lambda number: (places[number].index, number), reverse=True):
            translation = _inserted(translation, taken.inner[number], places[number])
    return taken.first + translation + taken.last


@dataclass(frozen=True)
class _Token:
    """A word, or marks that stand together."""

    begin: int
    end: int
    is_word: bool


def _tokens(text: str) -> list[_Token]:
    kinds = _kinds(text, lambda clusters: [False] * len(clusters))
    return [_Token(*match.span(), is_word=match[0][0] in (_LETTER, _UNSPACED)) for match in _TOKEN.finditer(kinds)]


def _links(
    source: Sequence[_Token],
    target: Sequence[_Token],
    source_ends: Sequence[int],
    target_ends: Sequence[int],
    alignment: Sequence[int | None],
) -> dict[int, list[int]]:
    """For each source token the target tokens that are aligned to it, in order: words to words, marks to marks."""
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
    """The tokens that a piece with this beginning and end has characters of."""
    return range(
        bisect_right(tokens, begin, key=lambda token: token.end),
        bisect_left(tokens, end, key=lambda token: token.begin),
    )


@dataclass(frozen=True)
class _Place:
    """Where in a translation a run goes."""

    index: int
    """The number of characters before it."""
    attaches: bool
    """Whether the run stays without white space before what follows."""


def _place(
    run: Run, source: Sequence[_Token], target: Sequence[_Token], links: dict[int, list[int]], length: int
) -> _Place:
    following = bisect_right(source, run.place - 1, key=lambda token: token.begin)
    linked = links.get(following, [])
    if run.leans_right and linked:
        return _Place(target[linked[0]].begin, attaches=True)
    for index in range(following - 1, -1, -1):
        if index in links:
            last = links[index][-1]
            return _Place(target[last].end, run.leans_right or (run.is_attached and last + 1 in linked))
    for index in range(following, len(source)):
        if index in links:
            return _Place(target[links[index][0]].begin, attaches=False)
    return _Place(length, attaches=False)


def _inserted(text: str, run: Run, place: _Place) -> str:
    """The text with a run in it, and between run and text the white space of either."""
    before, after = text[: place.index].rstrip(), text[place.index :].lstrip()
    gap = text[len(before) : len(text) - len(after)]
    if run.text.isspace():
        return before + run.text + after
    lead = run.text[: len(run.text) - len(run.text.lstrip())] if before else ""
    trail = run.text[len(run.text.rstrip()) :] or gap
    is_apart = gap and after and not place.attaches
    return before + lead + run.text.strip() + (trail if is_apart else "") + after


class UnknownCharacters:
    """The characters that a model does not know, and what becomes of them."""

    def __init__(self, vocab: Vocabulary, lines: LineStatistics | None, copy: bool | None) -> None:
        """Make ready to copy.

        Args:
            lines: the training lines of the model.
            copy: copy characters without a piece; None: not those that the model has seen spelt in bytes.
        """
        self._vocab = vocab
        seen = lines.source.byte_pieces if lines is not None else None
        knows_bytes = copy is None and seen is not None and seen > _SELDOM
        self._ids: frozenset[int] = frozenset()
        if copy is not False:
            self._ids = frozenset([vocab.UNK]) | (frozenset() if knows_bytes else vocab.byte_ids)

    def take_out(self, text: str, ids: Sequence[int]) -> Taken | None:
        """Take the unknown characters out of a text, if it has any.

        Args:
            ids: of the text's pieces.
        """
        return None if self._ids.isdisjoint(ids) else take_out(text, self._are_unknown)

    def put_back(self, taken: Taken, source_ids: Sequence[int], candidate: TranslatedText) -> TranslatedText:
        """Put what was taken out into a translation. Its pieces stay those that the model wrote.

        Args:
            source_ids: of the pieces of ``taken.text``.
            candidate: with its alignment, unless no run stood inside the text.
        """
        source_ends, target_ends = map(self._ends, (source_ids, self._vocab.ids(candidate.pieces)))
        text = put_back(taken, candidate.text, source_ends, target_ends, candidate.alignment)
        return replace(candidate, text=one_line(text))

    def _are_unknown(self, texts: Sequence[str]) -> list[bool]:
        return [not self._ids.isdisjoint(ids) for ids in self._vocab.encode(texts)]

    def _ends(self, ids: Sequence[int]) -> list[int]:
        """Where each piece ends in the text of all, in characters."""
        return [len(text) for text in self._vocab.decode([ids[: count + 1] for count in range(len(ids))])]
