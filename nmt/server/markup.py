"""HTML and XML: the texts between their tags, and what is not translated."""

from __future__ import annotations

import html
import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from nmt.server.errors import RequestError
from nmt.text.sentences import LABEL_FIRST, has_words, sentences

# Tags between which a text is complete. Text on both sides of any other tag belongs together.
_BLOCK_NAMES = """
address article aside base blockquote body br caption center col colgroup dd details dialog div dl dt fieldset
figcaption figure footer form h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li link main menu meta nav noscript ol
optgroup option p pre search section summary table tbody td tfoot th thead title tr ul
"""
_BLOCKS = frozenset(_BLOCK_NAMES.split())
_UNSEEN = frozenset(["script", "style", "template"])
# The texts in these elements are apart from the text around them.
_OBJECT_NAMES = "audio button canvas iframe map object picture select svg textarea video"
_OBJECTS = _UNSEEN.union(_OBJECT_NAMES.split())
_VOID_NAMES = "area base br col embed hr img input link meta param source track wbr"
_VOID = frozenset(_VOID_NAMES.split())
_KEPT_NAMES = "audio canvas code iframe kbd math object pre samp svg textarea var video"
_KEPT = _UNSEEN.union(_KEPT_NAMES.split())
"""Elements whose content is not translated."""
_RAW = frozenset(["iframe", "script", "style", "textarea"])
"""Elements whose content has no tags."""
_ENDED_BY = {
    "p": _BLOCKS - {"br", "link", "meta"},
    "li": {"li"},
    "dt": {"dt", "dd"},
    "dd": {"dt", "dd"},
    "td": {"td", "th", "tr", "tbody", "tfoot"},
    "th": {"td", "th", "tr", "tbody", "tfoot"},
    "tr": {"tr", "tbody", "tfoot"},
    "option": {"option", "optgroup"},
}
"""Elements that need no end tag, each with those that end it by their beginning."""
# Possessive: a tag without an end is found out in one pass. A ">" in quotes ends a tag only if a quote is missing.
_TAG = re.compile(r"""</?([A-Za-z][\w:-]*+)(?:(?:[^<>"']++|"[^<"]*+"|'[^<']*+')*>|[^<>]*+>)""")
_ATTRIBUTE = re.compile(r"""([^\s"'=<>/]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++))""")
_CDATA = "<![CDATA["
_DECLARATION = re.compile(r"<[!?][^<>]*+>")
# A reference by a number that no character has. Python refuses to read numbers of thousands of digits.
_NO_CHARACTER = re.compile(r"&#[0-9]{1000,}+;?")
_WORD = re.compile(r"[\w<]")
_ENDS = ".!?…。！？"
_MARKS_FIRST = re.compile(r"[^\w\s&<]++(?=\s+\S)")
_LOOKED_AT = 500
"""Characters on either side of a tag that say whether a sentence ends there."""


def texts_and_tags(
    text: str, language: str, one_line: Callable[[str], str], kept: Collection[str] = ()
) -> list[tuple[str, str]]:
    """Divide HTML or XML into texts to translate, each with what follows it. Texts may be empty.

    A comment within a text comes after it.

    Args:
        language: the language code of the text.
        one_line: joins the lines of a text.
        kept: names of further elements whose content is not translated.

    Raises:
        RequestError: a tag is inside a sentence, or a text is in a CDATA section.
    """
    reader = _Reader(language, one_line, kept)
    for is_text, part in _tokens(text):
        if is_text:
            reader.read_text(part)
        else:
            reader.read_tag(part)
    return reader.ended()


def without_tags(text: str) -> str:
    """The text of HTML, roughly: what its language is identified by."""
    return _unescaped(re.sub("<[^<>]*>", " ", text))


@dataclass
class _Run:
    """Texts and tags from one block to the next."""

    place: int = -1
    """Of the text, among the parts; negative if there is none."""
    pieces: list[str] = field(default_factory=list)
    """The text, without the comments in it; empty if it is not translated."""
    seen: str = ""
    """The end of the text, and of what is not translated."""
    tag: str = ""
    """The last tag behind the text."""
    between: str = ""
    """The white space and the marks behind the text."""


@dataclass
class _Element:
    name: str = ""
    is_kept: bool = False
    around: _Run | None = None
    """What goes on behind this element."""


class _Reader:
    def __init__(self, language: str, one_line: Callable[[str], str], kept: Collection[str]) -> None:
        self._language, self._one_line, self._kept = language, one_line, kept
        self._parts: list[tuple[str, str]] = []
        self._run = _Run()
        self._open = [_Element()]
        self._names: Counter[str] = Counter()

    def read_text(self, part: str) -> None:
        is_kept = self._open[-1].is_kept
        characters = part if is_kept else _unescaped(part)
        if not characters.strip():
            self._pass_by(characters, part)
        elif is_kept:
            self._add(characters, is_kept=True)
            self._parts.append(("", part))
        elif self._run.tag and (marks := _MARKS_FIRST.match(part)):
            self.read_text(marks[0])
            self.read_text(part[marks.end() :])
        elif self._are_marks(characters):
            self._pass_by(characters, part)
        else:
            self._add(characters)

    def _pass_by(self, characters: str, part: str) -> None:
        """Leave white space or marks where they are."""
        self._run.between = (self._run.between + characters)[-_LOOKED_AT:]
        self._parts.append(("", part))

    def _are_marks(self, characters: str) -> bool:
        """Whether a text is no part of a sentence: marks beside a tag, the label of an item, or a number behind it."""
        if self._run.place < 0:
            label = LABEL_FIRST.match(characters)
            return not _WORD.search(characters, label.end() if label else 0)
        is_behind = self._run.seen.rstrip()[-1:] in _ENDS and not has_words(characters)
        return self._run.tag != "" and (is_behind or not _WORD.search(characters))

    def _add(self, characters: str, *, is_kept: bool = False) -> None:
        """Add to the run what is translated, or what stays and may be part of a sentence."""
        run = self._run
        if run.tag and (run.pieces or not is_kept):
            if not (characters and run.seen and self._is_end(run, characters)):
                raise RequestError(
                    400,
                    f"<{run.tag}> stands inside a sentence, and tags inside sentences are not supported yet; supported "
                    "are tags around sentences, paragraphs, lists, headings, tables and line breaks. Send the text "
                    "without it, or as plain text.",
                )
            between = run.between
            self._end_run()
            run = self._run
            run.between = between
        if run.place < 0:
            run.place = len(self._parts)
            self._parts += [("", ""), ("", "")]
        if characters and not is_kept:
            run.pieces.append(characters)
        run.seen = (run.seen + run.between + characters)[-_LOOKED_AT:]
        run.tag, run.between = "", characters[len(characters.rstrip()) :]

    def _is_end(self, run: _Run, after: str) -> bool:
        """Whether a sentence ends between a text and another."""
        after, before = after[:_LOOKED_AT], " ".join(run.seen.split())
        space = after[: len(after) - len(after.lstrip())]
        between = " ".join(f".{run.between}{space}.".split())[1:-1]
        line = before + between + " ".join(after.split())
        ends = itertools.accumulate(map(len, sentences(line, self._language)))
        return any(len(before) <= end <= len(before + between) for end in ends)

    def _end_run(self) -> None:
        run, self._run = self._run, _Run()
        if run.pieces:
            characters = "".join(run.pieces)
            begin, _, end = characters.partition(core := characters.strip())
            self._parts[run.place : run.place + 2] = [("", begin), (self._one_line(core), end)]

    def read_tag(self, part: str) -> None:
        tag = _TAG.match(part)
        if tag is None:  # a comment or a declaration
            if part.startswith(_CDATA) and not self._open[-1].is_kept:
                message = f"{_CDATA} is not supported yet. Write the text with &lt; and &amp; in place of CDATA."
                raise RequestError(400, message)
        elif part.startswith("</"):
            self._end(tag[1].lower())
        else:
            self._begin(tag[1].lower(), part)
        self._parts.append(("", part))

    def _begin(self, name: str, tag: str) -> None:
        while name in _ENDED_BY.get(self._open[-1].name, ()):
            self._close()
        self._pass(name)
        if name in self._kept and name not in _BLOCKS:
            self._add("", is_kept=True)
            self._pass(name)
        if name in _VOID or tag.endswith("/>"):
            return
        element = _Element(name, self._is_kept(name, tag))
        if name in _OBJECTS:
            element.around, self._run = self._run, _Run()
        self._open.append(element)
        self._names[name] += 1

    def _end(self, name: str) -> None:
        # The innermost element of that name ends, and all within it.
        if others := self._names[name]:
            while self._names[name] == others:
                self._close()
        self._pass(name)

    def _close(self) -> None:
        element = self._open.pop()
        self._names[element.name] -= 1
        if element.around is not None:
            self._end_run()
            self._run = element.around

    def _pass(self, name: str) -> None:
        """Note that a tag stands here."""
        if name in _BLOCKS:
            self._end_run()
        elif self._run.place >= 0 and name not in _UNSEEN:
            self._run.tag = name

    def _is_kept(self, name: str, tag: str) -> bool:
        if "translate" in tag.lower() and name not in _RAW:
            given = {key.lower(): "".join(values).lower() for key, *values in _ATTRIBUTE.findall(tag)}
            if given.get("translate") == "no" or "notranslate" in given.get("class", "").split():
                return True
            if given.get("translate") == "yes":
                return False
        return self._open[-1].is_kept or name in _KEPT or name in self._kept

    def ended(self) -> list[tuple[str, str]]:
        while len(self._open) > 1:
            self._close()
        self._end_run()
        return self._parts


def _unescaped(text: str) -> str:
    return html.unescape(_NO_CHARACTER.sub("\ufffd", text))


def _tokens(text: str) -> Iterator[tuple[bool, str]]:
    """Texts and tags in turn: whether it is a text, and its characters."""
    place = begin = 0
    while (place := text.find("<", place)) >= 0:
        end = _end_of_tag(text, place)
        if end is None:  # a sign, not a tag
            place += 1
            continue
        yield True, text[begin:place]
        yield False, text[place:end]
        tag = _TAG.fullmatch(text, place, end)
        begin = end
        if tag is not None and (name := tag[1].lower()) in _RAW and text[place + 1] != "/" and text[end - 2] != "/":
            close = re.compile(f"</{name}", re.IGNORECASE).search(text, end)
            end = close.start() if close else len(text)
        place = end
    yield True, text[begin:]


def _end_of_tag(text: str, place: int) -> int | None:
    """The end of the tag or comment that begins at ``place``; None if there is none."""
    for begin, end in (("<!--", "-->"), (_CDATA, "]]>")):
        if text.startswith(begin, place):
            found = text.find(end, place)
            return len(text) if found < 0 else found + len(end)
    tag = _DECLARATION.match(text, place) or _TAG.match(text, place)
    return tag and tag.end()
