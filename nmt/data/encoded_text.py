"""The text that shards were encoded from: what its files held, and whether they still hold it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nmt.data.manifest import Manifest
from nmt.errors import DataError
from nmt.text import not_parallel, open_bytes

_BLOCK = 1 << 20


@dataclass(frozen=True)
class TextFile:
    """A file of text, as it was when it was encoded."""

    sha256: str
    bytes: int
    modified_ns: int
    """The time of its last change, in nanoseconds since 1970."""


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
                "this data set again, which restores both."
            )
    return found


def _read(path: Path) -> tuple[TextFile, int]:
    """The state of a file, and its number of lines."""
    digest, lines, last = hashlib.sha256(), 0, b"\n"
    with open_bytes(path) as stream:
        # Before the text is read: a change while it is read makes the state an old one.
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
        DataError: one has.
    """
    for name in touched_files(data, examined):
        raise DataError(f"{data / name}: was changed while it was encoded. Run the same command again.")


def touched_files(data: Path, encoded: Mapping[str, TextFile]) -> list[str]:
    """Names of the files whose size or time of change is another; missing files are left out."""
    return [
        name
        for name, file in encoded.items()
        if (data / name).exists() and _size_and_time(data / name) != (file.bytes, file.modified_ns)
    ]


def changed_files(data: Path, encoded: Mapping[str, TextFile]) -> list[str]:
    """Names of the files that hold other text than was encoded; missing files are left out.

    Only a file whose size or time of change is another is read, since a copy may have another time.
    """
    return [name for name in touched_files(data, encoded) if _read(data / name)[0].sha256 != encoded[name].sha256]


def is_same_text(encoded: Mapping[str, TextFile] | None, text: Mapping[str, TextFile]) -> bool:
    """Whether what was encoded is this text, by its checksums alone."""
    return encoded is not None and differing_files(encoded, text) == [] and encoded.keys() == text.keys()


def differing_files(encoded: Mapping[str, TextFile], text: Mapping[str, TextFile]) -> list[str]:
    """Names of the files of a text that hold something else than was encoded."""
    return [name for name, file in text.items() if name in encoded and encoded[name].sha256 != file.sha256]
