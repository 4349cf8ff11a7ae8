"""What ``preprocess.sh`` of an OPUS-MT archive does to source text, as steps.

The scripts pipe text through sed, perl and Moses' programs to ``spm_encode``. OPUS-MT-train has packed three kinds:
with Moses' punctuation (until February 2020), with spaces alone, and with a table of marks in sed (since September
2020). They are read, never run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from nmt.text.languages import primary_language
from nmt.text.steps import Control, MosesPunctuation, Replace, Replacement, Spaces, Step

_COMMENT = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)
_CONTINUED = re.compile(r"\\[ \t]*\n|(?<=\|)[ \t]*\n")
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

    Args:
        language: the code of the source language, for Moses' rules.
    """
    for pipeline in _pipelines(script):
        steps: list[Step] = []
        unknown = []
        replaces_unicode = False
        for command in pipeline:
            words = shlex.split(command)
            words = words[1:] if words[0] == "perl" and words[1:2] != ["-C"] else words
            name = words[0].rpartition("/")[2]
            if name == _REPLACES:
                replaces_unicode = True
            elif name == _REMOVES or (name == "perl" and words[-1] in _CONTROL):
                steps.append(Control())
            elif name == _NORMALISES:
                steps.append(
                    MosesPunctuation(
                        language=primary_language(language), replaces_unicode=replaces_unicode, removes_control=False
                    )
                )
                replaces_unicode = False
            elif name == "sed" and (found := _substituted(words[1:])) is not None:
                steps += found
            elif name != "cat":
                unknown.append(command)
        if replaces_unicode:
            unknown.append(_REPLACES)
        return tuple(steps), unknown
    return (), []


def _pipelines(script: str) -> Iterator[list[str]]:
    """The commands before ``spm_encode`` of each pipeline that ends with it."""
    for line in _CONTINUED.sub(" ", _COMMENT.sub("", script)).splitlines():
        commands = [command.strip() for command in re.split(r"\|(?=(?:[^'\"]|'[^']*'|\"[^\"]*\")*$)", line)]
        if len(commands) > 1 and re.search("spm_?encode", commands[-1], re.IGNORECASE):
            yield list(filter(None, commands[:-1]))


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
