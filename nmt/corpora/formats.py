"""Parallel text to read, and the formats with lines: two plain files, tagged files of IWSLT, zip archives of OPUS."""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from nmt.corpora.archive import open_limited, opened_zip
from nmt.errors import DataError
from nmt.text import printable
from nmt.text.languages import fitting
from nmt.text.lines import InvalidUtf8, iter_lines, open_bytes, parallel, read_lines

Pair = tuple[str, str]
"""Source and target."""
_MOST_SHOWN = 20
_SEGMENT = re.compile(r"<seg[^>]*+>(.*?)</seg>")
_TITLE = re.compile(r"<(title|description)>(.*?)</\1>")


class ReadPair(NamedTuple):
    """A pair as it was read."""

    source: str
    target: str
    score: float | None = None


@dataclass(frozen=True)
class CorpusFile:
    """A file that holds text of a corpus."""

    path: Path
    """Where it is read from."""
    name: str
    """What errors call it, for example ``standard input``."""
    is_fetched: bool = False
    """Whether it comes from others: then it may unpack only to a limit."""

    def open(self) -> BinaryIO:
        """The bytes of the file, decompressed."""
        return open_limited(self.path) if self.is_fetched else open_bytes(self.path)

    def lines(self, invalid: InvalidUtf8) -> Iterator[str]:
        """The lines of the file; see :func:`nmt.text.lines.read_lines`."""
        return read_lines(self.path, name=self.name, invalid=invalid, opener=lambda _: self.open())


@dataclass(frozen=True)
class ParallelText:
    """The files of a corpus, and how they are read."""

    files: Sequence[CorpusFile]
    """The source's and the target's, or one file that holds both sides."""
    source_lang: str
    target_lang: str
    split: str = "train"
    invalid: InvalidUtf8 = "error"
    columns: Sequence[str] | None = None
    """What the columns of a tab-separated file hold, in order; the source and the target if unset."""
    header: bool = False
    """Whether the first line of a tab-separated file holds the names of the columns."""
    scored: bool = False
    """Whether scores are read. A file that can have scores must then have them."""

    @property
    def file(self) -> CorpusFile:
        """The file that holds both sides."""
        return self.files[0]

    @property
    def name(self) -> str:
        """What errors call the file that holds both sides."""
        return self.file.name


def plain(text: ParallelText) -> Iterator[ReadPair]:
    """The pairs of two files with a sentence per line.

    Raises:
        DataError: a file cannot be read, or they differ in their number of lines.
    """
    return _side_by_side(text, [file.lines(text.invalid) for file in text.files])


def ted_tags(text: ParallelText) -> Iterator[ReadPair]:
    """The pairs of two training files of IWSLT; see :func:`tagged_sentences`."""
    return _side_by_side(text, [tagged_sentences(file.lines(text.invalid)) for file in text.files])


def ted_segments(text: ParallelText) -> Iterator[ReadPair]:
    """The pairs of two development or test files of IWSLT; see :func:`segment_sentences`."""
    return _side_by_side(text, [segment_sentences(file.lines(text.invalid)) for file in text.files])


def _side_by_side(text: ParallelText, sides: Sequence[Iterator[str]]) -> Iterator[ReadPair]:
    source, target = text.files
    return itertools.starmap(ReadPair, parallel(*sides, names=(source.name, target.name), counted=True))


def tagged_sentences(lines: Iterable[str]) -> Iterator[str]:
    """Sentences of an IWSLT training file: titles and descriptions lose their tags, other tagged lines are left out."""
    for line in lines:
        tagged = _TITLE.fullmatch(line.strip())
        if tagged:
            yield tagged[2].strip()
        elif not line.lstrip().startswith("<"):
            yield line.strip()


def segment_sentences(lines: Iterable[str]) -> Iterator[str]:
    """Sentences of an IWSLT development or test file, which is XML."""
    for line in lines:
        # If the first tag is not closed, no later tag is.
        segment = _SEGMENT.match(line, max(0, line.find("<seg")))
        if segment:
            yield html.unescape(segment[1]).strip()


def opus_zip(text: ParallelText) -> Iterator[ReadPair]:
    """The pairs of a zip archive of OPUS in Moses form, which is not unpacked to disk.

    Two members hold a line per sentence: ``NAME.de-en.de`` and ``NAME.de-en.en``. Other members (README, LICENSE,
    identifiers, scores) are left alone.

    Raises:
        DataError: no pair of members fits the languages, or several do; or they differ in their number of lines.
        DownloadError: the archive is damaged or encrypted, holds a name that leads outside its folder, or unpacks to
            far more than its own size.
    """
    with opened_zip(text.file.path) as archive:
        members = _members(text, archive.names)
        names = [f"{text.name}: {member}" for member in members]
        sides = [
            iter_lines(archive.open(member), name=name, invalid=text.invalid)
            for member, name in zip(members, names, strict=True)
        ]
        yield from itertools.starmap(ReadPair, parallel(*sides, names=(names[0], names[1]), counted=True))


def _members(text: ParallelText, names: Sequence[str]) -> tuple[str, str]:
    """The source's member and the target's."""
    codes: dict[str, list[str]] = {}
    for name in names:
        stem, dot, code = name.rpartition(".")
        codes.setdefault(stem + dot, []).append(code)
    found = [
        (stem + source, stem + target)
        for stem, endings in codes.items()
        for source in fitting(endings, text.source_lang)
        for target in fitting(endings, text.target_lang)
        if source != target
    ]
    if len(found) == 1:
        return found[0]
    languages = f"{text.source_lang} and {text.target_lang}"
    if found:
        raise DataError(
            f"{text.name}: several pairs of its members are for {languages}: "
            f"{listed([' with '.join(pair) for pair in found])}. Unpack it, and name the two files of one pair."
        )
    raise DataError(
        f"{text.name}: no pair of its members is for {languages}; it holds {listed(names) or 'no file'}. A zip from "
        f"OPUS in Moses form holds NAME.{text.source_lang} and NAME.{text.target_lang}."
    )


def listed(names: Sequence[str]) -> str:
    """Names for a message; of many, the first."""
    return printable.listed(names, _MOST_SHOWN)
