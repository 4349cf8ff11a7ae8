"""The sha256 of a file, by which this program recognises it."""

from __future__ import annotations

import hashlib
from pathlib import Path

# A hashing thread must acquire Python's global lock after each block, which may take milliseconds.
_BLOCK = 16 * 2**20


def sha256_of(path: Path) -> str:
    """The sha256 of a file, in hexadecimal.

    Raises:
        OSError: the file cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as stream:
        block = memoryview(bytearray(min(_BLOCK, max(1, path.stat().st_size))))
        while count := stream.readinto(block):
            digest.update(block[:count])
    return digest.hexdigest()
