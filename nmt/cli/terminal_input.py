"""Lines that a person types: through a line editor, with a history and arrow keys, where Python has one (readline).

In its usual mode a terminal edits lines itself, and cuts them at 4,096 bytes. So that mode is off as long as lines
are read, also while one is translated and the next is pasted already.
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
    """Serve lines from the terminal that is standard input, each before the next is asked for; Ctrl-D ends them.

    Prompts and what is typed appear on stderr. A line that is not UTF-8 is reported there, and another asked for.

    Args:
        prompt: shown before each line; without one there is no editor either, as stderr may be a file.
    """
    with _raw_mode() if prompt and _has_editor() else contextlib.nullcontext(False) as has_editor:
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
    # Bytes are text of UTF-8 whatever the locale, and each pasted line is answered like a typed one.
    cast(io.TextIOWrapper, sys.stdin).reconfigure(encoding="utf-8", errors="surrogateescape")
    for setting in ("input-meta on", "output-meta on", "convert-meta off", "enable-bracketed-paste off"):
        readline.parse_and_bind(f"set {setting}")
    return True


@contextlib.contextmanager
def _raw_mode() -> Iterator[bool]:
    """Let the terminal hand over bytes as they come: it neither edits nor shows them, but Ctrl-C interrupts."""
    import termios

    before = termios.tcgetattr(sys.stdin)
    _change_modes(off=termios.ICANON | termios.ECHO)
    try:
        yield True
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _change_modes(*, on: int = 0, off: int = 0) -> None:
    import termios

    modes = termios.tcgetattr(sys.stdin)
    modes[3] = (modes[3] | on) & ~off
    modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, modes)


def _edited(prompt: str) -> bytes | None:
    # The editor writes to standard output if that is a terminal, and works nowhere else. So for the time of a line
    # standard output leads where stderr does, and keeps nothing but translations.
    import termios

    sys.stdout.flush()
    kept = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    # The editor shows what is typed only where the terminal would do so.
    _change_modes(on=termios.ECHO)
    try:
        return input(prompt).encode("utf-8", "surrogateescape")
    except EOFError:
        return None
    finally:
        _change_modes(off=termios.ECHO)
        os.dup2(kept, _STDOUT)
        os.close(kept)


def _plain(prompt: str) -> bytes | None:
    if prompt:
        stderr().print(prompt, end="")
    return sys.stdin.buffer.readline() or None
