"""What ``preprocess.sh`` of an OPUS-MT archive does to source text, as steps.

The scripts pipe text through sed, perl and Moses' programs to ``spm_encode``. OPUS-MT-train has packed three kinds:
with Moses' punctuation (until February 2020), with Moses' table of marks alone, and with that table in sed (since
September 2020). They are read, never run.
"""

from __future__ import annotations

import io
import itertools
import re
import shlex
from collections.abc import Iterator

from nmt.text.languages import primary_language
from nmt.text.steps import Control, MosesPunctuation, Replace, Replacement, Spaces, Step

_COMMENT = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)
_CONTINUED = re.compile(r"\\[ \t]*\n|(?<=\|)[ \t]*\n")
_SEGMENTS = re.compile(r"(?:^|\|)\s*[^\s=|]*spm_?encode[^\s=|]*(?:\s|$)", re.IGNORECASE)
_SUBSTITUTION = re.compile(r"s/((?:[^/\\]|\\.)+)/((?:[^/\\]|\\.)*)/g;?")
_LITERAL = re.compile(r"(?P<text>(?:[^\\.*\[\]^$]|\\[^\w\s])+?)(?P<spaces> \*|\\s\*)?")
_SPACES = {"  *": " ", "^ *": "", " *$": "", " *$$": ""}
"""Substitutions that leave single spaces. In a Makefile, a dollar sign is written twice."""
_MARKS = zip(
    "，、”“∶：？《》）！（；１」「０３２５６９７８４～’━〈〉【】％…",
    [*',,""::?"")!(;"""032569784~\'-<>[]%', "..."],
    strict=True,
)
_MOSES_MARKS = Replace(
    table=(
        *(Replacement(text=stop, by=". ", with_spaces=True) for stop in "。．"),
        *(Replacement(text=mark, by=by) for mark, by in _MARKS),
    )
)
"""What ``replace-unicode-punctuation.perl`` of Moses did until October 2019, as did OPUS-MT's table in sed later: a
full-width 1 becomes a quotation mark."""
_REMOVED = re.compile(r"s/\[((?:\\x\{[0-9A-Fa-f]{1,5}\})+)\]//g;?")
"""A substitution of perl that removes characters."""
_PIPE = re.compile(r"(?<!\|)\|(?!\|)")
_CONTROL = ("s/\\p{C}/ /g;", "s/(?!\\n)\\p{C}/ /g;")
_REPLACES, _REMOVES, _NORMALISES = (
    "replace-unicode-punctuation.perl",
    "remove-non-printing-char.perl",
    "normalize-punctuation.perl",
)


def steps_of_script(script: str, language: str) -> tuple[tuple[Step, ...], list[tuple[int, str]]]:
    """The steps of a script before it segments; and the lines, counted from 1, and commands that are not known.

    Where a script segments in several branches, they prepare text alike: the first counts.

    Args:
        language: the code of the source language, for Moses' rules.
    """
    steps: list[Step] = []
    unknown: list[tuple[int, str]] = []
    for line, command, words in _commands(script):
        name = next((word.rpartition("/")[2] for word in words if word != "perl" or word == words[-1]), "")
        if name == _REPLACES:
            steps.append(_MOSES_MARKS)
        elif name == _REMOVES or (words[:1] == ["perl"] and words[-1] in _CONTROL):
            steps.append(Control())
        elif name == _NORMALISES:
            steps.append(MosesPunctuation(language=primary_language(language), removes_control=False))
        elif words[:1] == ["perl"] and (removed := _REMOVED.fullmatch(words[-1])):
            characters = (chr(int(code, 16)) for code in re.findall(r"\{(\w+)\}", removed[1]))
            steps.append(Replace(table=tuple(Replacement(text=character, by="") for character in characters)))
        elif name == "sed" and (found := _substituted(words[1:])) is not None:
            steps += found
        elif name != "cat":
            unknown.append((line, command))
    return tuple(steps), unknown


def _commands(script: str) -> Iterator[tuple[int, str, list[str]]]:
    """The commands before ``spm_encode`` in the first pipeline that ends with it, each with its line and words.

    A script without such a pipeline is one command that is not known, and so is a pipeline before it.
    """
    script = _COMMENT.sub("", script.replace("\r\n", "\n"))
    pipelines = _CONTINUED.sub("\r", script).split("\n")
    index = next((index for index, line in enumerate(pipelines) if _SEGMENTS.search(line)), None)
    if index is None:
        yield 1, "preprocess.sh", []
        return
    for number, pipeline in enumerate(pipelines[:index]):
        if _PIPE.search(pipeline):
            yield _first_line(pipelines, number), " ".join(pipeline.split()), []
    first = _first_line(pipelines, index)
    stream = io.StringIO(pipelines[index])
    words = shlex.shlex(stream, punctuation_chars="|")
    words.whitespace_split, words.commenters = True, ""
    try:
        found = [(word, first + pipelines[index][: stream.tell()].rstrip().count("\r")) for word in words]
    except ValueError:  # a quotation that does not end
        yield first, pipelines[index].strip(), []
        return
    commands = [list(group) for is_pipe, group in itertools.groupby(found, lambda one: one[0] == "|") if not is_pipe]
    for command in commands:
        text = " ".join(word for word, _ in command)
        if _SEGMENTS.search(text):
            return
        yield command[0][1], text, [_unquoted(word) for word, _ in command]


def _first_line(pipelines: list[str], index: int) -> int:
    return 1 + index + "".join(pipelines[:index]).count("\r")


def _unquoted(word: str) -> str:
    return word[1:-1] if word[0] in "'\"" and word[-1] == word[0] else word


def _substituted(words: list[str]) -> list[Step] | None:
    """The steps of the arguments of sed; None if one is not known. A target language's tag is no step."""
    table, spaces = [], set()
    for word in words:
        if word == "-e" or word.startswith("s/^/>>"):
            continue
        if _SUBSTITUTION.sub("", word):
            return None
        for found in _SUBSTITUTION.finditer(word):
            if _SPACES.get(found[1]) == found[2]:
                spaces.add(found[1])
            elif (literal := _LITERAL.fullmatch(found[1])) is None:
                return None
            else:
                table.append(
                    Replacement(
                        text=_unescaped(literal["text"]),
                        by=_unescaped(found[2]),
                        with_spaces=literal["spaces"] is not None,
                    )
                )
    return [*([Replace(table=tuple(table))] if table else []), *([Spaces()] if spaces else [])]


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)
