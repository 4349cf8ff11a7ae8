"""The sha256 of a file, by which this program recognises it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from nmt.io.regular import open_regular

# A hashing thread must acquire Python's global lock after each block, which may take milliseconds.
_BLOCK = 16 * 2**20


def sha256_of(path: Path) -> str:
    """The sha256 of a regular file, in hexadecimal.

    Raises:
        OSError: the file cannot be read, or is not a regular one.
    """
    digest = hashlib.sha256()
    with open_regular(path) as stream:
        left = os.fstat(stream.fileno()).st_size  # not to the end: a file of /proc may have none
        block = memoryview(bytearray(min(_BLOCK, left)))
        while count := stream.readinto(block[:left]):
            digest.update(block[:count])
            left -= count
    return digest.hexdigest()


def digest_of(path: Path) -> str | None:
    """The sha256 of a file; None if there is no file that can be read."""
    try:
        return sha256_of(path)
    except OSError:
        return None
