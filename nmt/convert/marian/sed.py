"""The substitutions of a command of sed, where they replace plain text or spaces.

GNU sed has two syntaxes: in basic regular expressions, ``+``, ``?``, ``|``, parentheses and braces are operators behind
a backslash alone; in extended ones (``-E``, ``-r``) they are plain behind it. What is none of the two forms is refused.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from nmt.convert.marian.shell import EXPANDED
from nmt.text.steps import Replace, Replacement, Spaces

_SUBSTITUTION = re.compile(
    r"[\s;]*s(?P<end>[^\w\s\\&])(?P<pattern>(?:(?!(?P=end))[^\\\n]|\\.)+)(?P=end)(?P<by>(?:(?!(?P=end))[^\\\n]|\\.)*)"
    r"(?P=end)(?P<flag>g?)[ \t]*(?=[;\n]|$)",
    re.DOTALL,
)
_NOTHING = re.compile(r"[\s;]*\Z")
_ATOM = re.compile(r"\\(.)|(.)", re.DOTALL)
_OPERATORS, _OF_EXTENDED, _BEHIND_BACKSLASH = "*.[^$", "+?(){}|", "<>'`\n"
"""Characters that are operators in both syntaxes, in one, and behind a backslash. So are letters and digits there."""
_TAG = re.compile(rf"s/\^/>>{EXPANDED}?[\w-]+\}}?<< /g?;?")
_RUN, _FIRST, _LAST = "several spaces as one", "no spaces at the beginning", "no spaces at the end"
_SPACES = {"": {(True, False): _FIRST, (False, True): _LAST}, " ": {(False, False): _RUN}}
"""What spaces become, and whether they are at the beginning or the end -> their effect. The three together are the step
for spaces."""


def adds_tag(arguments: Sequence[str]) -> bool:
    """Whether sed adds the tag of a target language, such as ``>>deu<<``, before each line, and does nothing else."""
    script = _script(arguments)
    return script is not None and _TAG.fullmatch(script[0]) is not None


def steps_of_sed(arguments: Sequence[str]) -> list[Replace | Spaces] | None:
    """What a command of sed does to each line; None if that is not known.

    Args:
        arguments: what the shell makes of the words behind ``sed``.
    """
    if (script := _script(arguments)) is None:
        return None
    steps: list[Replace | Spaces] = []
    for kind, found in itertools.groupby(_substitutions(*script), type):
        if kind is Replacement:
            steps.append(Replace(table=tuple(found)))
        elif set(found) == {_RUN, _FIRST, _LAST}:
            steps.append(Spaces())
        else:
            return None
    return steps


def _script(arguments: Sequence[str]) -> tuple[str, bool] | None:
    """The script in the arguments of sed, and whether it is in the extended syntax; None with other arguments."""
    is_extended, expressions, others = False, list[str](), list[str]()
    words = iter(arguments)
    for word in words:
        if word in ("-E", "-r", "--regexp-extended"):
            is_extended = True
        elif word in ("-e", "--expression"):
            expressions.append(next(words, EXPANDED))
        elif word.startswith("-"):
            return None
        else:
            others.append(word)
    if not expressions:
        expressions, others = others[:1], others[1:]
    return ("\n".join(expressions), is_extended) if expressions and not others else None


def _substitutions(script: str, is_extended: bool) -> Iterator[Replacement | str | None]:
    """What each substitution does to a line: one of a text, or to spaces. None is the last if something else follows.

    Args:
        is_extended: whether regular expressions are.
    """
    place = 0
    while not _NOTHING.match(script, place):
        found = None if EXPANDED in script else _SUBSTITUTION.match(script, place)
        yield None if found is None else _meaning(found, is_extended)
        place = len(script) if found is None else found.end()


def _meaning(found: re.Match[str], is_extended: bool) -> Replacement | str | None:
    """What a substitution does; None if that is neither of the two."""
    # A Makefile writes a dollar sign twice, and a copy of one's lines in the first scripts of OPUS-MT does too.
    pattern = " *$" if found["pattern"] == " *$$" else found["pattern"]
    atoms = _atoms(pattern, found["end"], is_extended)
    places = atoms[:1] == [("^", True)], atoms[-1:] == [("$", True)]
    atoms = atoms[places[0] : len(atoms) - places[1]]
    repeat = atoms.pop()[0] if atoms and atoms[-1][1] else ""
    text = "".join(character for character, _ in atoms)
    if any(is_operator for _, is_operator in atoms) or repeat not in ("", "*", "+"):
        return None
    if repeat:
        if not text.endswith(" "):
            return None
        text = text[: len(text) - (repeat == "*")]  # any number of spaces may follow
        if not text.strip(" "):
            is_known = len(text) in ((1, 2) if not any(places) else (0, 1))
            is_whole = any(places) or bool(found["flag"])
            return _SPACES.get(found["by"], {}).get(places) if is_known and is_whole else None
    by = _replaced_by(found["by"], None if repeat else text)
    if by is None or not text or any(places) or not found["flag"] or (repeat and text[0] == " "):
        return None
    return Replacement(text=text, by=by, with_spaces=bool(repeat))


def _atoms(pattern: str, end: str, is_extended: bool) -> list[tuple[str, bool]]:
    """The characters of a regular expression, each with whether it is an operator.

    Args:
        end: the character that ends the expression. What it means behind a backslash depends on the version of sed.
    """
    atoms: list[tuple[str, bool]] = []
    operators = _OPERATORS + _OF_EXTENDED * is_extended
    escaped_operators = _BEHIND_BACKSLASH + _OF_EXTENDED * (not is_extended) + end.strip("/")
    for found in _ATOM.finditer(pattern):
        escaped, plain = found.groups()
        if escaped == "t":
            atoms.append(("\t", False))
        elif escaped is not None:
            atoms.append((escaped, escaped.isalnum() or escaped in escaped_operators))
        else:
            # In basic syntax, these are plain where they could not have an effect.
            is_idle = not is_extended and (
                (plain == "*" and atoms in ([], [("^", True)]))
                or (plain == "^" and atoms)
                or (plain == "$" and found.end() < len(pattern))
            )
            atoms.append((plain, plain in operators and not is_idle))
    return atoms


def _replaced_by(by: str, matched: str | None) -> str | None:
    """The text of a replacement; None if it is not the same for all lines.

    Args:
        matched: the text that is replaced, which ``&`` stands for; None if there are several.
    """
    parts: list[str | None] = []
    for escaped, plain in _ATOM.findall(by):
        if plain:
            parts.append(matched if plain == "&" else plain)
        elif escaped == "t":
            parts.append("\t")
        else:
            parts.append(None if escaped.isalnum() or escaped == "\n" else escaped)
    return None if None in parts else "".join(filter(None, parts))
