"""Lines that a person types: with readline's history and arrow keys, if Python has it.

By itself a terminal cuts lines at 4,096 bytes. So its own line editing is off as long as lines are read, also while one
is translated and the next one is already pasted.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import cast

from nmt.cli.console import stderr, warn
from nmt.text.lines import InvalidUtf8, InvalidUtf8Error, decode_line

_STDOUT, _STDERR = 1, 2


def typed_lines(prompt: str, *, invalid: InvalidUtf8 = "error") -> Iterator[str]:
    """Yield lines from the terminal that is standard input, each before the next one is asked for; Ctrl-D ends them.

    Prompts and what is typed appear on stderr. A line that is not UTF-8 is reported there, and another one asked for.

    Args:
        prompt: shown before each line; without one there is no editor either, because stderr may be a file.
    """
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
