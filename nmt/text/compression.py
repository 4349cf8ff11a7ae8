"""Compressed files, decompressed as they are read. They are recognised by their first bytes, not by their names."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

SUFFIXES = (".gz", ".xz", ".bz2", ".zst")
"""Suffixes of compressed files."""

_BEGINNINGS = {
    ".gz": (b"\x1f\x8b",),
    ".xz": (b"\xfd7zXZ\x00",),
    ".zst": (b"\x28\xb5\x2f\xfd",),
    # Text may begin with "BZh9", but hardly with the bytes that follow in a bzip2 file, empty or not.
    ".bz2": tuple(
        b"BZh%d" % level + block for level in range(1, 10) for block in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")
    ),
}
_LONGEST = max(len(beginning) for beginnings in _BEGINNINGS.values() for beginning in beginnings)


def compression_of(path: Path) -> str | None:
    """The suffix of a regular file's compression format; None for a plain file.

    The first bytes decide. If they are unknown, the name decides, so that a damaged archive is not taken for text.
    """
    with path.open("rb") as stream:
        found = _recognised(stream.read(_LONGEST))
    return found or (path.suffix if path.suffix in SUFFIXES else None)


def open_unpacked(path: Path) -> BinaryIO:
    """Open a file or a pipe for reading, decompressed if needed.

    Raises:
        OSError: the file does not exist or cannot be read.
    """
    if not path.is_file():
        return unpacked(cast(BinaryIO, path.open("rb")))
    suffix = compression_of(path)
    return cast(BinaryIO, path.open("rb") if suffix is None else _opener(suffix)(path, "rb"))


def unpacked(stream: BinaryIO) -> BinaryIO:
    """A stream, decompressed if needed. Only as many bytes are read ahead as are needed to decide."""
    head = b""
    while not head or (_recognised(head) is None and _may_become_compressed(head)):
        # read1 returns what has arrived: in a dialogue, the other side waits for an answer to a single line.
        chunk = cast(io.BufferedReader, stream).read1(_LONGEST - len(head))
        if not chunk:
            break
        head += chunk
    whole = cast(BinaryIO, io.BufferedReader(_Rejoined(head, stream)))
    suffix = _recognised(head)
    return whole if suffix is None else cast(BinaryIO, _opener(suffix)(whole, "rb"))


def is_damage(error: Exception) -> bool:
    """Whether a read error means that a compressed file is damaged or incomplete."""
    if isinstance(error, EOFError | gzip.BadGzipFile | zlib.error | lzma.LZMAError):
        return True
    # bz2 raises OSError without errno. ZstdError is compared by name, since zstd is imported only if needed.
    return (isinstance(error, OSError) and error.errno is None) or type(error).__name__ == "ZstdError"


class _Rejoined(io.RawIOBase):
    """A stream whose first bytes have already been read."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = head
        self._rest = cast(io.BufferedReader, rest)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = len(buffer)
        chunk = self._head[:size] or self._rest.read1(size)
        self._head = self._head[size:]
        buffer[: len(chunk)] = chunk
        return len(chunk)


def _recognised(head: bytes) -> str | None:
    return next((suffix for suffix, beginnings in _BEGINNINGS.items() if head.startswith(beginnings)), None)


def _may_become_compressed(head: bytes) -> bool:
    return any(beginning.startswith(head) for beginnings in _BEGINNINGS.values() for beginning in beginnings)


def _opener(suffix: str) -> Callable[..., IO[bytes]]:
    openers: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
    return openers.get(suffix) or _zstd_open()


def _zstd_open() -> Callable[..., Any]:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return cast(Callable[..., Any], zstd.open)
