"""The files that a recipe's corpora are read from, on this machine and with their checksums."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from nmt.corpora.archive import unpack
from nmt.corpora.download import Fetcher
from nmt.corpora.formats import CorpusFile, Pair, ParallelText, listed
from nmt.corpora.locations import Input
from nmt.corpora.schema import SPLITS, Recipe
from nmt.data.data_folder import DataFolder
from nmt.data.manifest import SourceRecord, read_manifest, record_of_text
from nmt.errors import DataError, DownloadError
from nmt.io.hashing import sha256_of
from nmt.io.input_files import InputFiles
from nmt.io.writing import open_to_write
from nmt.record import file_record
from nmt.text.languages import primary_language
from nmt.text.lines import STANDARD_INPUT, STDIN, open_bytes, read_lines

_BLOCK = 1 << 20


class Sources:
    """The files of a recipe. The user's own are taken first, so that a data set can be found up to date offline."""

    def __init__(self, recipe: Recipe, scratch: Path) -> None:
        """Find the files.

        Args:
            recipe: says which.
            scratch: a folder for copies of pipes and for members of archives; the caller removes it.

        Raises:
            DataError: one of the user's own files is missing, sacreBLEU has no such test set, or the training text
                cannot be kept apart from a folder.
        """
        self.recipe = recipe
        self._scratch = scratch
        self._parts = {
            (split, number): corpus.parts(recipe)
            for split in SPLITS
            for number, corpus in enumerate(getattr(recipe, split))
        }
        self._apart_from = [file for folder in recipe.apart_from for file in _evaluation_files(Path(folder), recipe)]
        parts = [part for parts in self._parts.values() for part, _ in parts]
        self._inputs = list(dict.fromkeys([*parts, *(Input(str(path), path) for _, path in self._apart_from)]))
        own = {part.name: part.path for part in self._inputs if part.remote is None and part.name != STDIN}
        self._before = InputFiles.of(own)
        self._paths: dict[Input, Path] = {}
        self.own_records: list[SourceRecord] = []
        """The user's own files; for a pipe or standard input, size and checksum of what was read."""
        self.fetched: list[SourceRecord] = []
        """The downloads that :meth:`fetch` has fetched so far."""

    @property
    def records(self) -> list[SourceRecord]:
        """Every file that the recipe's text is read from."""
        return [*self.fetched, *self.own_records]

    @property
    def depends_on_a_query(self) -> bool:
        """Whether a query alone says which file a download is."""
        return any(part.remote is not None and part.remote.query_digest != "" for part in self._inputs)

    def take_own(self) -> list[SourceRecord]:
        """Compute the checksums of the user's own files.

        A pipe, such as ``<(zcat corpus.gz)``, and standard input can be read only once, so their content is copied.

        Raises:
            DataError: a path is neither a file nor a pipe.
        """
        for number, part in enumerate(self._inputs):
            if part.remote is not None:
                continue
            self._paths[part] = copy = self._scratch / "pipes" / str(number)
            if part.name == STDIN:
                self.own_records.append(_copy_stream(sys.stdin.buffer, STDIN, copy))
            elif part.path.is_fifo():
                with open_bytes(part.path) as stream:
                    self.own_records.append(_copy_stream(stream, part.name, copy))
            elif part.path.is_file():
                self._paths[part] = part.path
                record = _record(part.name, part.path)
                made = record_of_text(part.path, record.sha256) or file_record("file", part.path, record.sha256)
                made_by = {"made_by": made.below(Path.cwd())} if made.command else {}
                self.own_records.append(record.model_copy(update=made_by))
            else:
                raise DataError(f"{part.path}: is neither a file nor a pipe, so it may have no end. Name a file.")
        return self.own_records

    def fetch(self, fetcher: Fetcher) -> None:
        """Fetch the downloads that are not in the cache. Those that were fetched before are left.

        Raises:
            DownloadError: names every missing file when offline, else the first file that fails.
        """
        missing: list[str] = []
        for part in self._inputs:
            if part.remote is None or part in self._paths:
                continue
            try:
                self._paths[part] = path = fetcher.fetch_input(part)
            except DownloadError as error:
                if not fetcher.offline:
                    raise
                missing.append(str(error))
            else:
                self.fetched.append(_record(path.name, path, url=part.remote.public_url, sha256=part.remote.sha256))
        if missing:
            raise DownloadError("\n".join(missing))

    def check_unchanged(self) -> None:
        """Check that no file of the user has changed since its checksum was computed.

        Raises:
            DataError: a file has changed, or is gone.
        """
        checksums = {record.file: record.sha256 for record in self.own_records}
        if changed := self._before.changed(checksums):
            raise self._before.error(changed, "Run the same command again once it is complete.")

    @contextmanager
    def opened(self, split: str, number: int) -> Iterator[ParallelText]:
        """The files of a corpus to read; members of archives are unpacked, and removed afterwards.

        Args:
            split: that it belongs to.
            number: its place in the split, from 0.

        Raises:
            DownloadError: an archive is damaged, or lacks a member.
        """
        filters, is_train = self.recipe.filters, split == "train"
        # Cleaning drops the pairs with replaced characters.
        replaces = is_train and filters.invalid_utf8 == "drop"
        members = self._scratch / "members"
        try:
            yield ParallelText(
                self._files(self._parts[split, number], members),
                self.recipe.source_lang,
                self.recipe.target_lang,
                split,
                invalid="replace" if replaces else "error",
                scored=is_train and filters.min_score is not None,
            )
        finally:
            shutil.rmtree(members, ignore_errors=True)

    def apart_from(self) -> Iterator[Pair]:
        """Each sentence of valid and test of the data sets that training text is kept apart from, as one side."""
        for is_source, path in self._apart_from:
            for line in read_lines(path):
                yield (line, "") if is_source else ("", line)

    def languages_found(self, split: str, number: int) -> str:
        """What languages a corpus has, as a sentence for an error; empty if its format does not say."""
        corpus = getattr(self.recipe, split)[number]
        with self.opened(split, number) as text:
            found = corpus.languages(text)
        if found is None:
            return ""
        return f" {corpus.name} has text in {listed(found)}." if found else f" {corpus.name} has no segments (<seg>)."

    def _files(self, parts: list[tuple[Input, str]], folder: Path) -> list[CorpusFile]:
        """The files of a corpus. Members of an archive are unpacked in one pass."""
        wanted: dict[Input, list[str]] = {}
        for part, member in parts:
            if member:
                wanted.setdefault(part, []).append(member)
        unpacked: dict[tuple[Input, str], Path] = {}
        for number, (part, members) in enumerate(wanted.items()):
            paths = unpack(self._paths[part], members, folder / str(number))
            unpacked |= {(part, member): path for member, path in zip(members, paths, strict=True)}
        files = []
        for part, member in parts:
            path = self._paths[part]
            name = STANDARD_INPUT if part.name == STDIN else str(path if part.remote else part.path)
            file = CorpusFile(path, name, is_fetched=part.remote is not None)
            files.append(CorpusFile(unpacked[part, member], f"{name}: {member}", is_fetched=True) if member else file)
        return files


def _evaluation_files(folder: Path, recipe: Recipe) -> Iterator[tuple[bool, Path]]:
    """The files of valid and test of a data set in the languages of a recipe, each with whether it is the source's.

    Raises:
        DataError: the folder is no data set, or has neither language.
    """
    manifest = read_manifest(folder, option="--apart-from")
    found = [
        (own == recipe.source_lang, DataFolder(folder).text(split, code))
        for code in (manifest.source_lang, manifest.target_lang)
        for own in (recipe.source_lang, recipe.target_lang)
        for split in ("valid", "test")
        if primary_language(code) == primary_language(own)
    ]
    if not found:
        raise DataError(
            f"{folder}: has {manifest.source_lang} and {manifest.target_lang}, but neither {recipe.source_lang} nor "
            f"{recipe.target_lang}, so nothing of it can be in this text. Leave out --apart-from {folder}."
        )
    yield from found


def _record(name: str, path: Path, *, url: str | None = None, sha256: str | None = None) -> SourceRecord:
    return SourceRecord(file=name, url=url, sha256=sha256 or sha256_of(path), bytes=path.stat().st_size)


def _copy_stream(stream: BinaryIO, name: str, copy: Path) -> SourceRecord:
    """Copy all that a stream delivers into a file."""
    digest, size = hashlib.sha256(), 0
    copy.parent.mkdir(parents=True, exist_ok=True)
    with open_to_write(copy, "xb", follow=False) as out:
        while block := stream.read(_BLOCK):
            digest.update(block)
            size += len(block)
            out.write(block)
    return SourceRecord(file=name, sha256=digest.hexdigest(), bytes=size)
