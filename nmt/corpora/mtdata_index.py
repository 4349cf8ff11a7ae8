"""Data sets of the index of mtdata (Gowda et al. 2021), by their identifiers: ``Statmt-news_commentary-14-deu-eng``.

mtdata says where the text is, how it is stored and how its authors ask to cite it, and its parsers read the text. The
files are fetched by our own downloader: it verifies and resumes, and knows mirrors and ``--offline``. Archives are
unpacked by us too: mtdata would follow links in them, and leave what it unpacks in the cache.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from nmt.addresses import file_name
from nmt.config import did_you_mean
from nmt.corpora.archive import Budget, member_names, unpack
from nmt.corpora.pair_file import ReadPair
from nmt.corpora.transfer import RemoteFile
from nmt.errors import DataError
from nmt.packages import require_package, silence

PREFIX = "mtdata:"
"""What stands before an identifier among a user's words."""
_INSTALL = "Install it: `pip install mtdata`."
# What mtdata reads through other packages, or from files that name further files.
_NOT_READ = frozenset({"hfds", "xlsx", "opus_xces"})
_SPACE = re.compile(r"[\t\r\n]+")


@dataclass(frozen=True)
class IndexedText:
    """A data set of the index."""

    identifier: str
    files: list[RemoteFile]
    """What it is read from."""
    citation: str
    """BibTeX; empty if the index has none."""
    is_swapped: bool
    """Whether the first side is the target."""
    entry: Any
    """mtdata's own description."""

    def pairs(self, paths: list[Path], scratch: Path) -> Iterator[ReadPair | None]:
        """Yield the pairs, and None for a unit without text in one of the languages.

        Args:
            paths: the fetched files.
            scratch: a folder for members of an archive; the caller removes it.

        Raises:
            DataError: mtdata cannot read them.
            DownloadError: an archive is damaged.
        """
        budget = Budget(paths[0])
        rows = self._rows(self._members(paths[0], scratch) if self.entry.is_archive else paths)
        while True:
            # A parser of mtdata raises whatever its libraries do.
            try:
                row = next(rows, None)
            except Exception as error:
                raise DataError(
                    f"{PREFIX}{self.identifier}: mtdata cannot read {', '.join(map(str, paths))}: {error}"
                ) from error
            if row is None:
                return
            sides = [_SPACE.sub(" ", (side or "").strip()) for side in row[:2]]
            budget.spend(sum(len(side) + 1 for side in sides))
            if len(sides) < 2 or not all(sides):
                yield None
            else:
                yield ReadPair(*(reversed(sides) if self.is_swapped else sides))

    def _members(self, archive: Path, scratch: Path) -> list[Path]:
        """Unpack the members that the index names by patterns."""
        names = member_names(archive)
        return unpack(archive, [self._member(archive, names, pattern) for pattern in self.entry.in_paths], scratch)

    def _member(self, archive: Path, names: Sequence[str], pattern: str) -> str:
        pattern = str(PurePosixPath(pattern))
        found = [name for name in names if fnmatchcase(name, pattern)]
        # In a zip archive mtdata's star matches a slash, in a tar archive it does not.
        if len(found) > 1:
            found = [name for name in found if name.count("/") == pattern.count("/")]
        if len(found) != 1:
            raise DataError(
                f"{PREFIX}{self.identifier}: the index of mtdata names {pattern} in {archive}, which matches "
                f"{', '.join(found) or 'no member'}; expected one. Unpack it yourself, then name its files with "
                "--train-source and --train-target."
            )
        return found[0]

    def _rows(self, paths: list[Path]) -> Iterator[Any]:
        with silence():
            from mtdata.parser import Parser

            parser = Parser(paths, ext=self.entry.in_ext or self.entry.ext, ent=self.entry)
        yield from parser.read_segs(show_pbar=False)


def find_in_index(identifier: str, source_lang: str, target_lang: str) -> IndexedText:
    """Look a data set up.

    Raises:
        NmtError: mtdata is not installed.
        DataError: there is no such data set, it has other languages, or its format is not read.
    """
    what = f"{PREFIX}{identifier}"
    with silence():
        index = require_package("mtdata.index", "mtdata", what=what, advice=_INSTALL).INDEX
        from mtdata.entry import DatasetId
        from mtdata.iso.bcp47 import BCP47Tag, bcp47

        try:
            wanted = DatasetId.parse(identifier)
        except Exception as error:  # mtdata asserts, and raises Exception itself
            raise DataError(
                f"{what}: is not an identifier of mtdata, such as Statmt-news_commentary-14-deu-eng: {error}"
            ) from None
        if wanted not in index:
            similar = (
                str(each.did)
                for each in index.get_entries()
                if each.did.name == wanted.name or each.did.langs == wanted.langs
            )
            raise DataError(
                f"{what}: is not in the index of mtdata{did_you_mean(identifier, similar)}. `mtdata list -l "
                f"{source_lang}-{target_lang} -id` prints all identifiers of these languages."
            )
        entry = index[wanted]
        fits, is_swapped = False, False
        if len(entry.did.langs) == 2:
            try:
                wanted_langs = bcp47(source_lang), bcp47(target_lang)
                fits, is_swapped = BCP47Tag.check_compat_swap(wanted_langs, entry.did.langs)
            except Exception as error:  # ValueError, and AssertionError if a code is too general
                raise DataError(
                    f"{what}: mtdata does not know the languages {source_lang} and {target_lang}: "
                    f"{str(error).rstrip('.')}. Use codes such as deu or pt_BR."
                ) from None
        citation = "\n".join(index.ref_db.get_bibtex(key).strip() for key in entry.cite or ())
    if not fits:
        raise DataError(
            f"{what}: has text for {' and '.join(map(str, entry.did.langs))}, not for {source_lang} and {target_lang}."
        )
    if {entry.ext, entry.in_ext} & _NOT_READ:
        raise DataError(
            f"{what}: is stored in a format that is read by mtdata alone ({entry.in_ext or entry.ext}). Fetch it with "
            "`mtdata get`, then name its files with --train-source and --train-target."
        )
    urls = [entry.url] if isinstance(entry.url, str) else list(entry.url)
    files = [_remote_file(url, f"{identifier}.{entry.ext}") for url in urls]
    return IndexedText(identifier, files, citation, bool(is_swapped), entry)


def _remote_file(url: str, otherwise: str) -> RemoteFile:
    """A file by its address, and a name for it if the address ends in none."""
    try:
        file_name(url)
    except ValueError:
        return RemoteFile(url, named=otherwise)
    return RemoteFile(url)
