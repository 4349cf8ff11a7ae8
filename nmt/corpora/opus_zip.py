"""Zip archives of OPUS in Moses form: two members with a line per sentence, ``NAME.de-en.de`` and ``NAME.de-en.en``.

Other members (README, LICENSE, identifiers, scores) are left alone. The members are not
unpacked to disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nmt.corpora.archive import opened_zip
from nmt.corpora.pair_file import PairFile, ReadPair
from nmt.errors import DataError
from nmt.languages import fitting
from nmt.text import iter_lines, parallel

_MOST_SHOWN = 20


def read(file: PairFile) -> Iterator[ReadPair]:
    """Yield the pairs of the two members that hold the languages.

    Raises:
        DataError: no pair of members fits the languages, or several do; or they differ in their number of lines.
        DownloadError: the archive is damaged or encrypted, holds a name that leads outside its folder, or unpacks to
            far more than its own size.
    """
    with opened_zip(file.path) as archive:
        members = _members(file, archive.names)
        names = [f"{file.name}: {member}" for member in members]
        sides = [
            iter_lines(archive.open(member), name=name, invalid=file.invalid)
            for member, name in zip(members, names, strict=True)
        ]
        for source, target in parallel(*sides, names=(names[0], names[1]), counted=True):
            yield ReadPair(source, target)


def _members(file: PairFile, names: Sequence[str]) -> tuple[str, str]:
    """The source's member and the target's."""
    codes: dict[str, list[str]] = {}
    for name in names:
        stem, dot, code = name.rpartition(".")
        codes.setdefault(stem + dot, []).append(code)
    found = [
        (stem + source, stem + target)
        for stem, endings in codes.items()
        for source in fitting(endings, file.source_lang)
        for target in fitting(endings, file.target_lang)
        if source != target
    ]
    if len(found) == 1:
        return found[0]
    languages = f"{file.source_lang} and {file.target_lang}"
    if found:
        raise DataError(
            f"{file.name}: several pairs of its members are for {languages}: "
            f"{_listed([' with '.join(pair) for pair in found])}. Unpack it, and name the two files of one pair."
        )
    raise DataError(
        f"{file.name}: no pair of its members is for {languages}; it holds {_listed(names) or 'no file'}. A zip from "
        f"OPUS in Moses form holds NAME.{file.source_lang} and NAME.{file.target_lang}."
    )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_SHOWN
    return ", ".join(names[:_MOST_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
