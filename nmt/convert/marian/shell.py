"""The commands of a shell script, which is read and never run: enough of the shell for scripts that pipe text.

Whatever else a script holds (loops, functions, files that it reads or writes) becomes words of commands, so that a
reader of commands does not know them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

EXPANDED = "\0"
"""What stands in a word for ``$``, ``${``, ``*`` and others that the shell replaces: ``EXPANDED + "1"`` is ``$1``."""
_TOKEN = re.compile(
    r"""
    (?P<space> [ \t]+ | \\\n | (?<![^\s|&;()<>]) (?: \#[^\n]* | 2>[ ]?/dev/null(?![^\s|&;()<>]) ) )
    | (?P<operator> \n | \|& | \|\| | && | ;; | [|&;()<>] )
    | (?P<word> (?: '[^']*' | "(?:[^"\\]|\\.)*" | `[^`]*` | \$\((?:[^()]|\([^()]*\))*\) | \\. | [^\s|&;()<>'"`\\] )+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_PART = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^'"\\]+)""", re.DOTALL)
_IN_QUOTES = re.compile(r'\\([$`"\\])|\\\n|(\$(?:\{|(?=[\w(@*#?!$-]))|`)')
_UNQUOTED = re.compile(r"\$\{?|[`{*?]|^~")
_OTHERS = frozenset({"<", ">", "(", ")", "|&"})
"""Operators that are taken for words."""
_RESERVED = frozenset({"if", "then", "elif", "else", "fi"})
_BRANCHES = frozenset({"elif", "else"})


@dataclass
class Command:
    """A command of a pipeline."""

    line: int
    """Counted from 1."""
    written: list[str] = field(default_factory=list)
    """Its words as the script has them."""
    words: list[str] = field(default_factory=list)
    """What the shell makes of them; none if they cannot be read."""

    @property
    def text(self) -> str:
        """As the script has it."""
        return " ".join(self.written)


@dataclass
class Pipeline:
    """Commands, each of which reads what the one before it writes."""

    commands: list[Command] = field(default_factory=list)
    is_branch: bool = False
    """Whether it begins another branch of a condition than the pipeline before it."""
    before: str = ""
    """``&&`` or ``||`` before it, so that it may not run."""
    behind: str = ""

    @property
    def text(self) -> str:
        """As the script has it."""
        shown = " | ".join(command.text for command in self.commands)
        return " ".join(filter(None, (self.before, shown, self.behind)))


def pipelines(script: str) -> Iterator[Pipeline]:
    """The pipelines of a script, from first to last. The rest after a mistake is a single command without words."""
    script = script.replace("\r\n", "\n")
    place, line, pipeline, command = 0, 1, Pipeline(), None
    while place < len(script):
        token = _TOKEN.match(script, place)
        if token is None:
            pipeline.commands.append(Command(line, [script[place:].partition("\n")[0]]))
            break
        raw, place = token[0], token.end()
        if token["word"] and command is None and raw in _RESERVED:
            pipeline.is_branch |= raw in _BRANCHES
        elif token["word"] or raw in _OTHERS:
            command = command or Command(line)
            command.written.append(raw)
            command.words.append(_word(raw) if token["word"] else EXPANDED)
        elif raw == "|":
            pipeline.commands.append(command or Command(line))
            command = None
        elif token["operator"] and not (raw == "\n" and command is None):  # else the line goes on
            if command is not None:
                pipeline.commands.append(command)
                command = None
            joint = raw if raw in ("&&", "||") else ""
            if pipeline.commands:
                pipeline.behind = joint
                yield pipeline
                pipeline = Pipeline()
            pipeline.before = joint
        line += raw.count("\n")
    if command is not None:
        pipeline.commands.append(command)
    if pipeline.commands:
        yield pipeline


def _word(raw: str) -> str:
    """What the shell makes of a word, but for expansions."""
    parts = []
    for quoted, in_quotes, escaped, plain in _PART.findall(raw):
        in_quotes = _IN_QUOTES.sub(lambda found: found[1] or EXPANDED * bool(found[2]), in_quotes)
        parts += [quoted, in_quotes, escaped.strip("\n"), _UNQUOTED.sub(EXPANDED, plain)]
    return "".join(parts)
