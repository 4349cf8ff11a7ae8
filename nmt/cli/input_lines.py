"""The input and output of commands that read lines; and lines that a person types: with readline's history and arrow
keys, if Python has it.

By itself a terminal cuts lines at 4,096 bytes. So its own line editing is off as long as lines are read, also while one
is translated and the next one is already pasted.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from nmt.cli.console import is_terminal, notice, stderr, warn
from nmt.errors import ConfigError
from nmt.option_fields import STREAMS, Argument
from nmt.text.lines import STDIN, InvalidUtf8, InvalidUtf8Error, decode_line

INPUT = Argument("The same as --input.", STREAMS, metavar="INPUT")

_STDOUT, _STDERR = 1, 2


def input_to_use(text: Path | None, named: Path) -> Path:
    """The input of a command, which may be given as an argument or as an option.

    Raises:
        ConfigError: it was given twice, or a sentence was given in place of a file.
    """
    if text is None:
        return named
    if named != Path(STDIN):
        raise ConfigError(f"the input was given twice, as {text} and as --input {named}: give one.")
    if " " in str(text) and not os.path.lexists(text):
        raise ConfigError(f'{text}: there is no such file. To translate a sentence: echo "{text}" | nmt translate')
    return text


def typed_lines(invalid: InvalidUtf8) -> Iterator[str]:
    """Yield lines from the terminal that is standard input, each before the next one is asked for; Ctrl-D ends them.

    Prompts and what is typed appear on stderr. A line that is not UTF-8 is reported there, and another one asked for.
    """
    shows = is_terminal()
    # Without a prompt there is no editor either, because stderr may be a file.
    prompt = "> " if shows else ""
    if shows:
        notice("one line at a time; Ctrl-D ends")
    try:
        yield from _typed(prompt, invalid)
    finally:
        if shows:
            stderr().print()  # start the next message on a new line


def _typed(prompt: str, invalid: InvalidUtf8) -> Iterator[str]:
    with _without_line_mode() if prompt and _has_editor() else contextlib.nullcontext(False) as has_editor:
        number = 0
        while (raw := _edited(prompt) if has_editor else _plain(prompt)) is not None:
            number += 1
            try:
                line = decode_line(raw, name="standard input", number=number, invalid=invalid)
            except InvalidUtf8Error as error:
                warn(f"{error.found} Type it again.")
                number -= 1
            else:
                yield line


def _has_editor() -> bool:
    try:
        import readline
        import termios  # noqa: F401
    except ImportError:
        return False
    # Bytes are UTF-8 text in any locale, and each pasted line is answered like a typed one.
    cast(io.TextIOWrapper, sys.stdin).reconfigure(encoding="utf-8", errors="surrogateescape")
    for setting in ("input-meta on", "output-meta on", "convert-meta off", "enable-bracketed-paste off"):
        readline.parse_and_bind(f"set {setting}")
    return True


@contextlib.contextmanager
def _without_line_mode() -> Iterator[bool]:
    """Let the terminal pass on bytes as they come. Ctrl-C still interrupts."""
    import termios

    before, modes = termios.tcgetattr(sys.stdin), termios.tcgetattr(sys.stdin)
    modes[3] &= ~termios.ICANON
    modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, modes)
    try:
        yield True
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _edited(prompt: str) -> bytes | None:
    # readline works only if standard output is a terminal, and writes there. So for one line standard output is
    # redirected to stderr, and gets nothing but translations.
    sys.stdout.flush()
    kept = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    try:
        return input(prompt).encode("utf-8", "surrogateescape")
    except EOFError:
        return None
    finally:
        os.dup2(kept, _STDOUT)
        os.close(kept)


def _plain(prompt: str) -> bytes | None:
    if prompt:
        stderr().print(prompt, end="")
    return sys.stdin.buffer.readline() or None
