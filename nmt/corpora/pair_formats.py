"""Files that hold both sides of a corpus, and the reader of each format. A new format gets a line in both tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nmt.compression import SUFFIXES
from nmt.corpora import opus_zip, tab_separated, tmx
from nmt.corpora.pair_file import PairFile, ReadPair
from nmt.corpora.schema import PairFormat

_READERS: dict[PairFormat, Callable[[PairFile], Iterator[ReadPair | None]]] = {
    "tsv": tab_separated.read,
    "opus-zip": opus_zip.read,
    "tmx": tmx.read,
}
_ENDINGS: dict[str, PairFormat] = {".tsv": "tsv", ".zip": "opus-zip", ".tmx": "tmx"}


def read_pair_file(file: PairFile, form: PairFormat) -> Iterator[ReadPair | None]:
    """Yield the pairs of a file, and None for a unit that has no text in one of the languages.

    Raises:
        DataError: the file cannot be read, or is not of this format.
    """
    return _READERS[form](file)


def format_by_name(name: str) -> PairFormat | None:
    """The format of a file by its name, compressed or not; None if the name tells nothing."""
    plain = without_compression(name).lower()
    return next((form for ending, form in _ENDINGS.items() if plain.endswith(ending)), None)


def without_compression(name: str) -> str:
    """The name of a file without the ending of its compression."""
    return next((name[: -len(suffix)] for suffix in SUFFIXES if name.lower().endswith(suffix)), name)
