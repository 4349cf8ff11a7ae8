"""The substitutions of a command of sed, where they replace plain text or spaces.

Their patterns are basic regular expressions. What is not plain text in these, or another syntax, is refused.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from nmt.convert.marian.shell import EXPANDED
from nmt.text.steps import Replace, Replacement, Spaces

_SUBSTITUTION = re.compile(r"[\s;]*s/((?:[^/\\\n]|\\.)+)/((?:[^/\\\n]|\\.)*)/(g?)[ \t]*(?=[;\n]|$)", re.DOTALL)
_NOTHING = re.compile(r"[\s;]*\Z")
_TEXT = re.compile(r"(?:[^\\*.\[^$]|\\[^\w+?(){}|<>'`\n])+")
"""A pattern that matches itself alone, but for its backslashes."""
_BY = re.compile(r"(?:[^\\&]|\\[^\w\n])*")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_TAG = re.compile(rf"s/\^/>>{EXPANDED}?[\w-]+\}}?<< /g?;?")
_RUN, _FIRST, _LAST = "several spaces as one", "no spaces at the beginning", "no spaces at the end"
# A Makefile writes a dollar sign twice, and a copy of one's lines in the first scripts of OPUS-MT does too.
_SPACES = {("  *", " "): _RUN, ("^ *", ""): _FIRST, (" *$", ""): _LAST, (" *$$", ""): _LAST}
"""Pattern and replacement -> their effect. The three together are the step for spaces."""


def adds_tag(arguments: Sequence[str]) -> bool:
    """Whether sed adds the tag of a target language, such as ``>>deu<<``, before each line, and does nothing else."""
    script = _script(arguments)
    return script is not None and _TAG.fullmatch(script) is not None


def steps_of_sed(arguments: Sequence[str]) -> list[Replace | Spaces] | None:
    """What a command of sed does to each line; None if that is not known.

    Args:
        arguments: what the shell makes of the words behind ``sed``.
    """
    if (script := _script(arguments)) is None:
        return None
    steps: list[Replace | Spaces] = []
    for kind, found in itertools.groupby(_substitutions(script), type):
        if kind is Replacement:
            steps.append(Replace(table=tuple(found)))
        elif set(found) == {_RUN, _FIRST, _LAST}:
            steps.append(Spaces())
        else:
            return None
    return steps


def _script(arguments: Sequence[str]) -> str | None:
    """The script in the arguments of sed; None with other arguments."""
    if len(arguments) == 1 and not arguments[0].startswith("-"):
        return arguments[0]
    is_of_options = len(arguments) % 2 == 0 and set(arguments[::2]) == {"-e"}
    return "\n".join(arguments[1::2]) if is_of_options else None


def _substitutions(script: str) -> Iterator[Replacement | str | None]:
    """What each substitution does to a line, to a text or to spaces. None is the last if something else follows."""
    place = 0
    while not _NOTHING.match(script, place):
        found = None if EXPANDED in script else _SUBSTITUTION.match(script, place)
        yield None if found is None else _meaning(found[1], found[2], is_global=found[3] == "g")
        place = len(script) if found is None else found.end()


def _meaning(pattern: str, by: str, *, is_global: bool) -> Replacement | str | None:
    effect = _SPACES.get((pattern, by))
    if effect is not None:
        return effect if is_global or effect != _RUN else None
    text = pattern.removesuffix(" *")  # any number of spaces may follow
    with_spaces = text != pattern
    is_known = is_global and _TEXT.fullmatch(text) and _BY.fullmatch(by) and not (with_spaces and text[0] == " ")
    plain, other = _ESCAPED.sub(r"\1", text), _ESCAPED.sub(r"\1", by)
    return Replacement(text=plain, by=other, with_spaces=with_spaces) if is_known else None
