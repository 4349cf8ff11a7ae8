"""The sha256 of a file, by which this program recognises it."""

from __future__ import annotations

import hashlib
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
        block = memoryview(bytearray(min(_BLOCK, max(1, path.stat().st_size))))
        while count := stream.readinto(block):
            digest.update(block[:count])
    return digest.hexdigest()
