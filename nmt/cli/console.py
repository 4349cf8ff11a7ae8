"""All output of the commands: messages go to stderr, and stdout holds data alone.

Messages and data quote file names, recipes and answers of servers. Nothing in them may control the terminal, so all
text passes through :func:`nmt.text.printable.printable`: here, and in :mod:`nmt.translation.writing_lines`.
"""

from __future__ import annotations

import os
import stat
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.io.streams import STANDARD_OUTPUT, naming_stream
from nmt.text.addresses import without_passwords
from nmt.text.printable import printable, writable

if TYPE_CHECKING:
    from rich.console import Console

_quiet = False


@cache
def stderr() -> Console:
    """The console that all commands share. Lines are never wrapped, so that a log has one line per message."""
    from rich.console import Console

    return Console(stderr=True, soft_wrap=True, highlight=False, markup=False, emoji=False)


def be_quiet() -> None:
    """Print no notices and no progress from now on, but warnings and errors."""
    global _quiet
    _quiet = True


def is_quiet() -> bool:
    """Whether notices and progress are left out."""
    return _quiet


def notice(message: str) -> None:
    """Print a notice, unless the command is quiet."""
    if not _quiet:
        stderr().print(printable(message))


def warn(message: str) -> None:
    """Print a warning."""
    from rich.text import Text

    stderr().print(Text.assemble(("warning: ", "bold yellow"), printable(message)))


def print_error(message: str) -> None:
    """Print an error. It may quote what was typed, such as an address with a password, which no log may keep."""
    from rich.text import Text

    shown = printable(without_passwords(message))
    stderr().print(Text.assemble(("error: ", "bold red"), (shown, "red")))


def write_stdout(text: str) -> None:
    """Write text to standard output: harmless for a terminal, and without characters that its encoding lacks."""
    with naming_stream(STANDARD_OUTPUT):
        shown = printable(text) if sys.stdout.isatty() else text
        sys.stdout.write(writable(shown, sys.stdout.encoding or "utf-8"))


def file_of_stdout() -> Path | None:
    """The file below the current folder that standard output is redirected to; None for anything else."""
    import fcntl  # not on Windows, where `main` says so

    try:
        descriptor = sys.stdout.fileno()
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        if (get_path := getattr(fcntl, "F_GETPATH", None)) is not None:  # macOS
            name = os.fsdecode(fcntl.fcntl(descriptor, get_path, bytes(1024)).rstrip(b"\0"))
        else:
            name = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        return Path(name).relative_to(Path.cwd())
    except (OSError, ValueError):  # such as a file elsewhere
        return None


def is_terminal() -> bool:
    """Whether stderr is a terminal and the command is not quiet: only then is there a live display."""
    return sys.stderr.isatty() and not _quiet
