"""Files of folders that others may have written, where a link may lead to a device and a name may be a pipe's."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

LARGEST = 256 * 2**20
"""The maximum size of a file that is read at once, in bytes, unless another is named."""


def open_regular(path: Path | str) -> io.BufferedReader:
    """Open a regular file for reading. A device may be endless, and a pipe blocks until somebody writes to it.

    Raises:
        OSError: the file cannot be read, or is not a regular one.
    """
    return open(path, "rb", opener=_opened)


def read_regular(path: Path, most: int = LARGEST) -> bytes:
    """The bytes of a regular file.

    Raises:
        OSError: as :func:`open_regular`, or the file has more than ``most`` bytes.
    """
    with open_regular(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > most:
            raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes, the maximum", str(path))
        return stream.read(size)  # not to the end: a file of /proc may have none


def _opened(name: str, flags: int) -> int:
    descriptor = os.open(name, flags | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # which open() refuses itself
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", name)
    return descriptor
