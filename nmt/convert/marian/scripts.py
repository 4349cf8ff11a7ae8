"""What ``preprocess.sh`` of an OPUS-MT archive does to source text, as steps.

The scripts pipe text through sed, perl and Moses' programs to ``spm_encode``. OPUS-MT-train has packed three kinds:
with Moses' punctuation (until February 2020), with spaces alone, and with a table of marks in sed (since September
2020). They are read, never run.
"""

from __future__ import annotations

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
_CONTROL = ("s/\\p{C}/ /g;", "s/(?!\\n)\\p{C}/ /g;")
_REPLACES, _REMOVES, _NORMALISES = (
    "replace-unicode-punctuation.perl",
    "remove-non-printing-char.perl",
    "normalize-punctuation.perl",
)


def steps_of_script(script: str, language: str) -> tuple[tuple[Step, ...], list[str]]:
    """The steps of a script before it segments, and the commands of it that are not known.

    Where a script segments in several branches, they prepare text alike: the first counts.

    Args:
        language: the code of the source language, for Moses' rules.
    """
    steps: list[Step] = []
    unknown: list[str] = []
    replaces_unicode = False
    for command, words in _commands(script):
        name = next((word.rpartition("/")[2] for word in words if word != "perl" or word == words[-1]), "")
        if name == _REPLACES:
            replaces_unicode = True
        elif name == _REMOVES or (words[:1] == ["perl"] and words[-1] in _CONTROL):
            steps.append(Control())
        elif name == _NORMALISES:
            code = primary_language(language)
            steps.append(MosesPunctuation(language=code, replaces_unicode=replaces_unicode, removes_control=False))
            replaces_unicode = False
        elif name == "sed" and (found := _substituted(words[1:])) is not None:
            steps += found
        elif name != "cat":
            unknown.append(command)
    return tuple(steps), [*unknown, *([_REPLACES] if replaces_unicode else [])]


def _commands(script: str) -> Iterator[tuple[str, list[str]]]:
    """The commands before ``spm_encode`` in the first pipeline that ends with it, each with its words.

    A script without such a pipeline is one command that is not known.
    """
    lines = _CONTINUED.sub(" ", _COMMENT.sub("", script)).splitlines()
    if (line := next(filter(_SEGMENTS.search, lines), None)) is None:
        yield "preprocess.sh", []
        return
    words = shlex.shlex(line, punctuation_chars="|")
    words.whitespace_split, words.commenters = True, ""
    try:
        commands = [list(group) for is_pipe, group in itertools.groupby(words, "|".__eq__) if not is_pipe]
    except ValueError:  # a quotation that does not end
        yield line.strip(), []
        return
    for command in itertools.takewhile(lambda words: not _SEGMENTS.search(" ".join(words)), commands):
        yield " ".join(command), [word[1:-1] if word[0] in "'\"" and word[-1] == word[0] else word for word in command]


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
