"""The standard streams in place of files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nmt.errors import ConfigError
from nmt.text.lines import STDIN

STANDARD_OUTPUT = "standard output"


@contextmanager
def naming_stream(name: str) -> Iterator[None]:
    """Give system errors without a file name the name of a stream."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        error.filename = error.filename or name
        raise


def refuse_second_stdin(*paths: Path | None) -> None:
    """Refuse standard input in place of several files: each line can be read once only.

    Raises:
        ConfigError: it was given more than once.
    """
    if sum(str(path) in (STDIN, "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0") for path in paths) > 1:
        raise ConfigError("standard input (-) can be read only once: name a file for each of the others.")
