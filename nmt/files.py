"""Files and folders that are written whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes its name only once it is complete and on disk.

    When the body raises, or the process dies, what stood under the name before still stands.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def partial_name(path: Path) -> Path:
    """The name of a file that is not complete yet."""
    return path.with_name(path.name + ".partial")


@contextmanager
def completing(path: Path, *, keep: int = 0) -> Iterator[BinaryIO]:
    """Open a file that takes its name once it is complete; until then, and after an error, it is ``PATH.partial``.

    For work that took long: what there is of it is kept whatever happens.

    Args:
        keep: bytes of an earlier try, to append to.
    """
    partial = partial_name(path)
    with partial.open("r+b" if keep else "wb") as stream:
        stream.truncate(keep)
        stream.seek(keep)
        yield stream
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(path)


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Fill a folder that takes its name only once it is complete and on disk."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    outgoing = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        for path in [*temporary.iterdir(), temporary]:
            _flush(path)
        if folder.exists():
            folder.rename(outgoing)
        temporary.rename(folder)
        _flush(folder.parent)
    finally:
        if outgoing.exists() and not folder.exists():
            outgoing.rename(folder)
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(outgoing, ignore_errors=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
