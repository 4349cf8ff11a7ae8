"""Copies characters that the model does not know from the source into the translation.

A vocabulary encodes characters that its training text lacked as bytes or as unk. A model that has never seen these
pieces invents words for them. So the characters are taken out of the line before the search and put back into the
translation; a text without words is copied. Pure functions over text; the caller says which characters are unknown, and
gives the alignment.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from nmt.config.data import LineStatistics
from nmt.data.vocab import Vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import ConfigError
from nmt.text import verbatim
from nmt.text.sentences import FOOTNOTE, LABEL_FIRST, copied_ends, has_words
from nmt.translation.long_lines import belong_together
from nmt.translation.results import TranslatedText, one_line

IsUnknown = Callable[[str], bool]
"""Whether a character, with its combining marks, lacks a piece in the vocabulary."""

# A model has hardly learnt to copy bytes if a smaller share of its source pieces were bytes. With a character coverage
# of 0.9995, the share is about 50 times as large.
_MIN_BYTE_SHARE = 1e-4

# One symbol per character, so that regular expressions over these kinds find spans of text.
_SPACE, _LETTER, _UNSPACED, _INNER, _OTHER, _UNKNOWN_LETTER, _UNKNOWN = " wucpWX"
# No group is possessive: Python before 3.11.5 matches such groups wrongly (CPython issue 106052).
_WORD = re.compile(r"[wW]++(?:c[wW]++)*")
_RUN = re.compile(r"(?<! ) *+X[X ]*+")
_TOKEN = re.compile(r"w++(?:cw++)*|u|[cp]++")
_INNER_CHARACTERS = "-'’.@_"
# Scripts whose words are not separated by spaces: Thai, Lao, Burmese, Khmer, kana and Han.
_UNSPACED_SCRIPTS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_SPACES = re.compile("  +")
# A number with the sign, currency or unit that is attached to it, such as -5 °C.
_SIGN = r"[^\w\s.,:;!?…'\"“”„«»‘’‹›()\[\]{}¿¡*/。、，]"
_NUMBER = re.compile(
    rf"(?<!\w)(?:{_SIGN}|[€£¥₹] )?\d+(?:[^\w ]\d+)*(?:(?:[ \u00a0\u202f]?[°€£¥₹]|{_SIGN})[A-Za-z]{{0,2}}(?!\w))?"
)
# Invisible characters beside a letter or digit: control characters, soft hyphens, joiners and direction marks. Behind
# it also variation selectors, but for keycaps; and no-break spaces before a mark.
_INVISIBLE = (
    r"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
)
_INVISIBLE_IN_WORD = re.compile(
    rf"(?<=[^\W_])(?!\ufe0f?\u20e3)[{_INVISIBLE}\ufe00-\ufe0f\U000e0100-\U000e01ef]+|[{_INVISIBLE}]+(?=[^\W_])"
    r"|[\u00a0\u202f](?=[,.;:!?…])"
)
_BRACKETS = frozenset(
    {"()", "[]", "{}", '""', "''", "«»", "»«", "“”", "„“", "‘’", "‚‘", "（）", "「」", "『』", "《》"}
)
# Marks that stand for each other. A copied mark replaces the model's own beside it.
_MARKS = (".…。．｡!！?？؟।۔‽‼⁇⁈⁉", ",，、،", ":：", ";；؛")


@dataclass(frozen=True)
class Run:
    """A run of adjacent unknown characters inside a line."""

    text: str
    """The characters, with the white space around them."""
    place: int
    """The number of characters of the known text before the run."""
    is_attached: bool
    """Whether a word follows without white space."""

    @property
    def attaches_right_only(self) -> bool:
        """Whether the run belongs only to the following word, as an opening quotation mark does."""
        return self.is_attached and self.text[0].isspace()


@dataclass(frozen=True)
class Taken:
    """A line without its runs of unknown characters, and these runs."""

    text: str
    """The known text; empty if the line is to be copied unchanged."""
    first: str
    """The run at the beginning of the line, if any. The whole line if it is to be copied unchanged."""
    inner: tuple[Run, ...]
    last: str
    """The run at the end of the line, if any."""
    tag: str = ""
    """The language tag of the line, which belongs to no run."""

    @property
    def source(self) -> str:
        """The text for the model: the known text after the language tag."""
        return f"{self.tag} {self.text}" if self.tag and self.text else self.text


def take_out(line: str, is_unknown: IsUnknown, language: str = "") -> Taken | None:
    """Take out of a line its unknown characters, references to footnotes, and what is copied at its ends.

    A run is unknown characters and the white space around them. A word with an unknown letter is unknown as a whole; so
    are a number with an unknown sign, an address or placeholder with an unknown character, and the brackets or
    quotation marks around unknown words. Invisible characters in words are left out. If no letter would be left, the
    whole line is taken.

    Args:
        language: the language code of the line.

    Returns:
        None if the line has words and nothing is taken.
    """
    whole = line
    line = _INVISIBLE_IN_WORD.sub(lambda found: "".join(itertools.filterfalse(is_unknown, found[0])), line)
    kinds = _taken(_kinds(line, is_unknown), [found.span() for found in FOOTNOTE.finditer(line)])
    wholes = [*(found.span() for found in _NUMBER.finditer(line)), *verbatim.spans(line)]
    kinds = _taken(kinds, [span for span in wholes if {_UNKNOWN, _UNKNOWN_LETTER} & {*kinds[slice(*span)]}])
    kinds = _with_brackets(line, _WORD.sub(_whole_word, kinds))
    label = LABEL_FIRST.match(line)
    begin, end = copied_ends(line, language)
    if label and _UNKNOWN in kinds[: label.end()]:  # the model would read the rest of the label
        begin = max(begin, label.end())
    kinds = _taken(kinds, [(0, begin), (end, len(line))])
    if not has_words("".join(itertools.compress(line, map(_UNKNOWN.__ne__, kinds)))):
        return Taken("", whole, (), "")
    spans = [match.span() for match in _RUN.finditer(kinds)]
    if not spans:
        return Taken(line, "", (), "") if line != whole else None
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


def _taken(kinds: str, spans: Iterable[tuple[int, int]]) -> str:
    marked = list(kinds)
    for begin, end in spans:
        marked[begin:end] = _UNKNOWN * (end - begin)
    return "".join(marked)


def _whole_word(kinds: re.Match[str]) -> str:
    # A name is copied whole or not at all.
    return _UNKNOWN * len(kinds[0]) if _UNKNOWN_LETTER in kinds[0] else kinds[0]


def _with_brackets(line: str, kinds: str) -> str:
    """The kinds, where brackets and quotation marks around unknown characters are unknown, too."""
    marked = list(kinds)
    for match in _RUN.finditer(kinds):
        begin, end = match.span()
        if begin > 0 and end < len(line) and line[begin - 1] + line[end] in _BRACKETS:
            marked[begin - 1] = marked[end] = _UNKNOWN
    return "".join(marked)


def _is_text(kinds: str) -> bool:
    """Whether there is a known letter or digit."""
    return _LETTER in kinds or _UNSPACED in kinds


def _is_spaced(*kinds: str) -> bool:
    return all(kind == _LETTER for kind in kinds)


def _kinds(line: str, is_unknown: IsUnknown) -> str:
    """The kind of each character."""
    clusters = list(_clusters(line))
    kinds = {cluster: _kind(cluster, is_unknown(cluster)) * len(cluster) for cluster in set(clusters)}
    return "".join(kinds[cluster] for cluster in clusters)


def _clusters(line: str) -> Iterator[str]:
    """Characters with their combining marks. Emoji sequences and flags are one cluster each."""
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
    """The text that replaces a run: a space, or nothing beside punctuation and in unspaced text.

    Args:
        before, after: the characters around the run.
        of_words: whether both belong to words that spaces separate.
    """
    if run[0].isspace() and run[-1].isspace():
        return " "
    if run[0].isspace():
        return "" if unicodedata.category(after) in ("Pe", "Pf", "Po") else " "
    if run[-1].isspace():
        return "" if unicodedata.category(before) in ("Ps", "Pi") else " "
    return " " if of_words else ""


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
            following = taken.text[taken.inner[number].place :]
            translation = _inserted(translation, taken.inner[number], place, following)
    if not taken.text:
        return taken.first
    first, last = taken.first.rstrip(), taken.last.lstrip()
    if first:
        is_opening = len(first) == 1 and unicodedata.category(first) in ("Ps", "Pi")
        is_apart = not (is_opening or _is_word(taken.text[0]))
        space = taken.first[len(first) :] or (" " if is_apart and _is_word(translation[:1]) else "")
        translation = first + _gap(first, space, translation) + translation
    if last and (marks := _marks_like(last[0])) and taken.text[-1] not in marks:
        translation = translation.rstrip(marks)
    return translation + _gap(translation, taken.last[: len(taken.last) - len(last)], last) + last


@dataclass(frozen=True)
class _Token:
    """A word, or adjacent punctuation marks."""

    begin: int
    end: int
    is_word: bool


def _tokens(text: str) -> list[_Token]:
    kinds = _kinds(text, lambda cluster: False)
    return [_Token(*match.span(), is_word=match[0][0] in (_LETTER, _UNSPACED)) for match in _TOKEN.finditer(kinds)]


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


def _inserted(text: str, run: Run, place: _Place, following: str) -> str:
    """Insert a run into the text, with the white space of the run or, if it has none, of the text.

    Args:
        following: the known text after the run in the source.
    """
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
    return before + _gap(before, lead, copied) + copied + _gap(copied, trail, after) + after


def _gap(before: str, space: str, after: str) -> str:
    """The white space between two texts: the given one, but a space between words, and none in unspaced text."""
    if not before or not after:
        return ""
    left, right = before[-1], after[0]
    if unicodedata.category(left) == "Ps" or (_UNSPACED_SCRIPTS.match(left) and _UNSPACED_SCRIPTS.match(right)):
        return ""
    is_footnote = FOOTNOTE.match(before[-3:] + after, len(before[-3:])) is not None
    return space or (" " if _is_spaced(_kind(left, False), _kind(right, False)) and not is_footnote else "")


def _is_word(character: str) -> bool:
    """Whether a character belongs to a word; an empty text does not."""
    return bool(character) and _is_text(_kind(character, False))


def _marks_like(mark: str) -> str:
    """The marks that a mark stands for, itself among them; empty for other characters."""
    return next((marks for marks in _MARKS if mark in marks), "")


class UnknownCharacters:
    """Takes out and puts back the characters that a model does not know."""

    def __init__(
        self, vocab: VocabularyPair, lines: LineStatistics | None, copy: bool | None, language: str = ""
    ) -> None:
        """Choose which characters count as unknown.

        Args:
            lines: statistics of the model's training lines.
            copy: copy all characters without a piece, and texts without words (True), or none (False). None copies byte
                pieces only if the model has rarely seen them. A model that reads segmented text copies none: few
                characters are pieces of it.
            language: the language code of the lines.

        Raises:
            ConfigError: ``copy`` is True, and the model reads segmented text.
        """
        if vocab.source.is_segmented and copy is True:
            raise ConfigError(
                "copy_unknown: this model reads pieces separated by spaces, so characters cannot be copied. Leave it "
                "out."
            )
        self._vocab = vocab
        self._language = language
        seen = lines.source.byte_pieces if lines is not None else None
        knows_bytes = copy is None and seen is not None and seen > _MIN_BYTE_SHARE
        self._ids: frozenset[int] = frozenset()
        self._copies = copy is not False and not vocab.source.is_segmented
        if self._copies:
            self._ids = frozenset([Vocabulary.UNK]) | (frozenset() if knows_bytes else vocab.source.byte_ids)

    def are_in(self, ids: Sequence[int]) -> bool:
        """Whether pieces stand for unknown characters."""
        return not self._ids.isdisjoint(ids)

    def is_copied(self, text: str) -> bool:
        """Whether a text is copied because it has no words, apart from a language tag."""
        return self._copies and bool(text.strip()) and not has_words(self._vocab.source.split_tag(text)[1])

    def concern(self, text: str, ids: Sequence[int]) -> bool:
        """Whether something may be taken out of a text with these pieces."""
        if self.are_in(ids) or not self._copies:
            return self._copies
        rest = self._vocab.source.split_tag(text)[1].strip()
        is_whole = copied_ends(rest, self._language) == (0, len(rest))
        return self.is_copied(text) or not is_whole or FOOTNOTE.search(rest) is not None

    def take_out(self, texts: Sequence[str]) -> list[Taken | None]:
        """Take the unknown characters out of texts. None for a text with words and without any."""
        divided = [self._vocab.source.split_tag(text) for text in texts]
        lines = [rest.lstrip() if tag else rest for tag, rest in divided]
        # A call of SentencePiece takes a quarter of a millisecond, and there may be thousands of texts.
        clusters = list(dict.fromkeys(itertools.chain.from_iterable((*_clusters(line), *line) for line in lines)))
        encoded = self._vocab.source.encode(clusters)
        unknown = {cluster for cluster, ids in zip(clusters, encoded, strict=True) if self.are_in(ids)}
        taken = [take_out(line, unknown.__contains__, self._language) for line in lines]
        return [
            replace(one, tag=tag) if one is not None else None for one, (tag, _) in zip(taken, divided, strict=True)
        ]

    def put_back(self, taken: Taken, source_ids: Sequence[int], candidate: TranslatedText) -> TranslatedText:
        """Put the unknown characters into the text of a translation. Its pieces do not change.

        Args:
            source_ids: the pieces of ``taken.source``.
            candidate: the translation, with its alignment if there are inner runs.
        """
        before = 1 if taken.tag else 0  # the piece of the tag, to which no run belongs
        source_ends = _ends(self._vocab.source, source_ids[before:])
        target_ends = _ends(self._vocab.target, self._vocab.target.ids(candidate.pieces))
        alignment = [None if i is None or i < before else i - before for i in candidate.alignment or ()]
        text = put_back(taken, candidate.text, source_ends, target_ends, alignment)
        return replace(candidate, text=one_line(text))


def _ends(vocab: Vocabulary, ids: Sequence[int]) -> list[int]:
    """The end of each piece in the decoded text, in characters."""
    return [len(text) for text in vocab.decode([ids[: count + 1] for count in range(len(ids))])]
