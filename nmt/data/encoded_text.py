"""The text files that shards were encoded from, and whether they have changed since."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nmt.data.manifest import Manifest
from nmt.errors import DataError
from nmt.io.regular import open_regular
from nmt.text.compression import unpacked
from nmt.text.lines import not_parallel, reading

_BLOCK = 1 << 20


@dataclass(frozen=True)
class TextFile:
    """The state of a text file when it was encoded."""

    sha256: str
    bytes: int
    modified_ns: int
    """The modification time, in nanoseconds since 1970."""


def examine_text(data: Path, manifest: Manifest, splits: Iterable[str]) -> dict[str, TextFile]:
    """Read the text of some splits of a data set, and check that its two sides are parallel.

    Returns:
        The state of each file, by its name.

    Raises:
        DataError: a file cannot be read, or the two sides of a split differ in their number of lines.
    """
    found = {}
    for split in splits:
        counts = []
        for language in (manifest.source_lang, manifest.target_lang):
            name = f"{split}.{language}"
            found[name], lines = _read(data / name)
            counts.append((str(data / name), lines))
        if counts[0][1] != counts[1][1]:
            raise DataError(
                f"{not_parallel(*counts)} Correct the file that was edited, or run the `nmt prepare-data` command of "
                "this data set again with --force, which restores both."
            )
    return found


def _read(path: Path) -> tuple[TextFile, int]:
    """The state of a file, and its number of lines."""
    digest, lines, last = hashlib.sha256(), 0, b"\n"
    with reading(str(path)), open_regular(path) as packed, unpacked(packed) as stream:
        # Recorded before the text is read, so that a change during reading is noticed later.
        size, modified = _size_and_time(path)
        while block := stream.read(_BLOCK):
            digest.update(block)
            lines += block.count(b"\n")
            last = block[-1:]
    return TextFile(digest.hexdigest(), size, modified), lines + (last != b"\n")


def _size_and_time(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def check_unchanged(data: Path, examined: Mapping[str, TextFile]) -> None:
    """Check that no file has changed since :func:`examine_text`.

    Raises:
        DataError: a file has changed.
    """
    for name in touched_files(data, examined):
        raise DataError(f"{data / name}: was changed while it was encoded. Run the same command again.")


def touched_files(data: Path, encoded: Mapping[str, TextFile]) -> list[str]:
    """Names of the files whose size or modification time has changed; missing files are left out."""
    return [
        name
        for name, file in encoded.items()
        if (data / name).exists() and _size_and_time(data / name) != (file.bytes, file.modified_ns)
    ]


def changed_files(data: Path, encoded: Mapping[str, TextFile]) -> list[str]:
    """Names of the files whose text has changed since it was encoded; missing files are left out.

    A file is read only if its size or modification time has changed. A copy may differ in its time alone.
    """
    return [name for name in touched_files(data, encoded) if _read(data / name)[0].sha256 != encoded[name].sha256]
