"""Markdown (CommonMark, with tables, and marks of its dialects): paragraphs, headings, items and cells, with the markup
inside them.

markdown-it finds the blocks, and the markup inside them. It says in which lines a block is; where inline markup is, its
rules note in the tokens that they make.
"""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import (
    StateInline,
    autolink,
    backtick,
    emphasis,
    escape,
    html_inline,
    image,
    link,
    newline,
    strikethrough,
)
from markdown_it.token import Token as ParsedToken

from nmt.documents.document import Document, Place, Reading
from nmt.documents.inline import Token, place_of
from nmt.spans.span import Unit
from nmt.text.lines import one_line

_FRONT_MATTER = re.compile(r"\ufeff?---[ \t]*\r?\n.*?\n(?:---|\.\.\.)[ \t]*\r?\n", re.DOTALL)
_CHARACTER = re.compile(r"\\([!-/:-@\[-`{-~])|&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
# What may be markup anywhere in a line: a _ within a word and an & before a space are not.
_MARKUP = re.compile(r"[\\`*\[\]<~|]|(?<![^\W_])_|_(?![^\W_])|&(?=[#A-Za-z])")
# What would be markup where a line begins.
_AT_BEGIN = re.compile(r">|#{1,6}(?=\s|$)|[+-](?=\s|$)|[-=:](?=[-=:|\s]*$)|\d{1,9}(?=[.)](?:\s|$))")
# Marks of GitHub, Pandoc and others: a task and an alert, where a text begins; a footnote, attributes, a formula.
_BEGINNING = re.compile(r"\[[ xX]\](?=\s)|\[![A-Z]+\][ \t]*(?=\n|$)|\[\^[^\s\[\]]+\]:")
_DIALECT = re.compile(r"\[\^[^\s\[\]]+\]|\{:?[ \t]*[#.][^{}\n]*\}")
_FORMULA = re.compile(r"\$\$.+?\$\$|\$(?=[^\s$])[^$\n]*?(?<![\s\\])\$(?!\d)", re.DOTALL)  # not "$5 and $10"
_WHERE = "where"
"""The field of a token's ``meta`` with its place in the block's content."""


def read(text: str, reading: Reading) -> Document:
    """Find the sentences of blocks. Code, blocks of HTML, and YAML at the beginning stay."""
    matter = _FRONT_MATTER.match(text)
    begin = matter.end() if matter else int(text.startswith("\ufeff"))
    lines = [begin, *(begin + found.end() for found in re.finditer(r"\r\n|\n|\r", text[begin:])), len(text)]
    places: list[Place] = []
    done = cell = 0
    for block in _parser().parse(text[begin:]):
        cell += block.type in ("th_open", "td_open")
        cell -= block.type in ("th_close", "td_close")
        if block.type == "inline" and block.map is not None:
            # Cells follow each other in a line; all else is at the end of its lines, behind marks of quotes and items.
            where = _where(text, block.content, lines[block.map[0] :], done if cell else None)
            if where:
                done = where[-1]
                places += _places(text, block, where, reading.source_lang)
    return Document(text, places, _escape)


def _escape(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", one_line(text))


def _written(unit: Unit, translation: str) -> str:
    translation = translation.strip()
    if "![" in translation:  # a ! of the text before a link would make an image of it
        parts = (part.strip() for span in unit.spans for part in (span.before, span.after))
        markup = sorted(filter(None, parts), key=len)
        pattern = "|".join([*map(re.escape, reversed(markup)), r"(!)(?=\[)"])
        translation = re.sub(pattern, lambda found: "\\!" if found[1] else found[0], translation)
    if codes := "|".join(re.escape(span.before) for span in unit.spans if span.before.startswith("`")):
        translation = re.sub(f"({codes})(?=`)", r"\1 ", translation)  # two in a row would be one
    found = _AT_BEGIN.match(translation)
    if found is None:
        return translation
    at = found.end() if found[0].isdigit() else 0
    return f"{translation[:at]}\\{translation[at:]}"


def _where(text: str, content: str, lines: list[int], done: int | None) -> list[int]:
    """Where each character of a content stands in the document, and its end; empty if it does not stand there.

    Args:
        lines: where its lines begin, and those after them.
        done: in a line of cells, the end of the cell before.
    """
    places: list[int] = []
    at = 0
    for number, line in enumerate(content.split("\n")):
        if number:
            places.append(at)
        if number + 1 >= len(lines):
            return []
        begin, end = lines[number], lines[number + 1]
        # In a cell, a | of the content has a backslash that belongs to it.
        stands = line if done is None else line.replace("|", "\\|")
        at = text.rfind(stands, begin, end) if done is None else text.find(stands, max(done, begin), end)
        if at < 0:
            return []  # a tab that is partly indentation
        for character in line:
            places.append(at)
            at += 1 + (done is not None and character == "|")
    return [*places, at]


def _places(text: str, block: ParsedToken, where: list[int], language: str) -> Iterator[Place]:
    """The places of a block: a line break ends one."""
    sentence: list[Token] = []
    for token in [*_tokens(text, block, where), None]:
        if token is not None and token.name != "hardbreak":
            sentence.append(token)
            continue
        if (found := place_of(sentence, language)) is not None and found.unit is not None:
            yield replace(found, write=functools.partial(_written, found.unit))
        sentence = []


def _tokens(text: str, block: ParsedToken, where: list[int]) -> Iterator[Token]:
    def token_of(kind: str, start: int, end: int, characters: str = "", name: str = "") -> Token:
        return Token(kind, where[start], text[where[start] : where[end]], characters, name)  # type: ignore[arg-type]

    content, done = block.content, 0
    marked = [token for token in block.children or () if token.type != "text" and _WHERE in token.meta]
    for token in marked:
        start, end = token.meta[_WHERE]
        if token.type == "strong_open":  # made of two marks, of which it is the second
            start -= 1
        elif token.type == "strong_close":
            end += 1
        if start < done:  # within a link that stays
            continue
        if start > done:
            yield token_of("text", done, start, _characters(content[done:start]))
        done = end
        if token.info == "label":
            yield token_of("kept", start, end, content[start:end].strip("[]"))
        elif token.type in ("code_inline", "formula") or token.info == "auto":
            yield token_of("kept", start, end, token.content or content[start + 1 : end - 1])
        elif token.type == "softbreak":
            yield token_of("text", start, end, "\n")
        elif token.type == "html_inline":
            name = re.match(r"</?([\w-]*)", token.content)
            kind = "close" if token.content.startswith("</") else "open"
            yield token_of(kind, start, end, name=name[1].lower() if name else "")
        elif token.nesting:
            yield token_of("open" if token.nesting > 0 else "close", start, end, name=token.tag + ".md")
        else:
            yield token_of("void", start, end, name=token.type)
    if done < len(content):
        yield token_of("text", done, len(content), _characters(content[done:]))


def _characters(text: str) -> str:
    return _CHARACTER.sub(lambda found: found[1] or html.unescape(found[0]), text)


@functools.cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    rules = {
        "autolink": (autolink, _note_autolink),
        "backticks": (backtick, _note_whole),
        "emphasis": (emphasis.tokenize, _note_marks),
        "escape": (escape, _note_whole),
        "html_inline": (html_inline, _note_whole),
        "image": (image, _note_whole),
        "link": (link, _note_link),
        "newline": (newline, _note_break),
        "strikethrough": (strikethrough.tokenize, _note_marks),
    }
    for name, (rule, note) in rules.items():
        parser.inline.ruler.at(name, functools.partial(_noting, rule, note))
    parser.inline.ruler.before("link", "dialect", functools.partial(_noting, _dialect, _note_whole))
    parser.block.ruler.before("reference", "marked_line", _marked_line, {"alt": ["paragraph", "reference"]})
    return parser


def _dialect(state: StateInline, silent: bool) -> bool:
    """Marks that CommonMark takes for text."""
    at_begin = _BEGINNING.match(state.src) if state.pos == 0 else None
    formula = _FORMULA.match(state.src, state.pos)
    if not (found := at_begin or formula or _DIALECT.match(state.src, state.pos)):
        return False
    if not silent:
        state.push("formula" if found is formula else "mark", "", 0).content = found[0]
    state.pos = found.end()
    return True


def _marked_line(state: StateBlock, begin: int, _end: int, silent: bool) -> bool:
    """The line that begins or ends a block of Pandoc, MyST or Docusaurus (``:::note``), or begins one of MkDocs.

    The indented text of the latter is code to CommonMark, and stays.
    """
    if not state.src.startswith((":::", "!!! ", "??? ", "???+ "), state.bMarks[begin] + state.tShift[begin]):
        return False
    if not silent:
        state.line = begin + 1
    return True


def _noting(
    rule: Callable[[StateInline, bool], bool],
    note: Callable[[StateInline, list[ParsedToken], int], None],
    state: StateInline,
    silent: bool,
) -> bool:
    """A rule of the parser that notes where the tokens are that it makes."""
    begin, before, has_text = state.pos, len(state.tokens), bool(state.pending)
    found = rule(state, silent)
    # The text before the markup becomes a token only now.
    if found and not silent and (new := state.tokens[before:]):
        note(state, new[1:] if has_text and new[0].type == "text" and len(new) > 1 else new, begin)
    return found


def _note_whole(state: StateInline, new: list[ParsedToken], begin: int) -> None:
    new[-1].meta[_WHERE] = begin, state.pos


def _note_break(state: StateInline, new: list[ParsedToken], begin: int) -> None:
    # The parser takes the spaces before it out of the text.
    new[-1].meta[_WHERE] = len(state.src[:begin].rstrip(" ")), state.pos


def _note_marks(state: StateInline, new: list[ParsedToken], begin: int) -> None:
    for token in new:
        token.meta[_WHERE] = begin, begin + len(token.content)
        begin += len(token.content)


def _note_link(state: StateInline, new: list[ParsedToken], begin: int) -> None:
    end = state.pos
    state.pos = begin
    label_end = state.md.helpers.parseLinkLabel(state, begin, True)
    state.pos = end
    new[0].meta[_WHERE] = begin, begin + 1
    new[-1].meta[_WHERE] = label_end, end
    if state.src[label_end:end] in ("]", "][]"):  # another text would name no link
        new[0].info, new[0].meta[_WHERE] = "label", (begin, end)


def _note_autolink(state: StateInline, new: list[ParsedToken], begin: int) -> None:
    new[0].meta[_WHERE] = begin, state.pos
