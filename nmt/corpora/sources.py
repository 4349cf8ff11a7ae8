"""The pairs of a recipe's corpora: how each kind of corpus is fetched and read."""

from __future__ import annotations

import functools
import html
import itertools
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.addresses import folder_parts
from nmt.cache_folder import default_cache
from nmt.corpora import opus_zip, tab_separated, tmx
from nmt.corpora.archive import Budget, unpack
from nmt.corpora.download import Notify, fetch
from nmt.corpora.local import LocalText
from nmt.corpora.pair_file import Pair, PairFile, ReadPair
from nmt.corpora.schema import (
    ArchiveCorpus,
    FilesCorpus,
    Format,
    LocalCorpus,
    LocalFilesCorpus,
    PairFileCorpus,
    PairFormat,
    Recipe,
    TestSetCorpus,
    TextCorpus,
    ToyCorpus,
)
from nmt.corpora.testsets import TestSet, fetch_test_set, listed_files
from nmt.corpora.transfer import Progress, RemoteFile
from nmt.data.manifest import SourceRecord
from nmt.errors import DataError, DownloadError
from nmt.hashing import sha256_of
from nmt.text import InvalidUtf8, count_lines, read_lines, read_parallel

if TYPE_CHECKING:
    from nmt.corpora.toy import ToyCorpus as ToyPairs

PAIR_READERS: dict[PairFormat, Callable[[PairFile], Iterator[ReadPair | None]]] = {
    "tsv": tab_separated.read,
    "opus-zip": opus_zip.read,
    "tmx": tmx.read,
}
"""The reader of each format of a file that holds both sides. It yields None for a unit without one of the languages."""
_SEGMENT = re.compile(r"<seg[^>]*+>(.*?)</seg>")
_TITLE = re.compile(r"<(title|description)>(.*?)</\1>")


@dataclass(frozen=True)
class Sources:
    """A recipe and the files that were fetched for it."""

    recipe: Recipe
    scratch: Path
    """A folder for members of archives while they are read; the caller removes it."""
    downloads: dict[str, Path]
    test_sets: dict[str, TestSet]
    records: list[SourceRecord]
    """Every file that the recipe's text is read from."""
    local: LocalText

    def pairs(self, corpus: TextCorpus, split: str) -> Iterator[ReadPair | None]:
        """Yield the pairs of a corpus, and None for a unit that has no text in one of the languages.

        Raises:
            DataError: a file is missing or damaged, or the two sides differ in their number of lines.
        """
        filters = self.recipe.filters
        invalid: InvalidUtf8 = "error"
        if split == "train" and filters.invalid_utf8 == "drop":
            invalid = "replace"  # Cleaning drops the pairs with replaced characters.
        if isinstance(corpus, PairFileCorpus):
            scored = split == "train" and filters.min_score is not None and corpus.format == "tsv"
            file = self.local.pair_file(corpus, self.recipe, invalid=invalid, scored=scored)
            yield from PAIR_READERS[corpus.format](file)
        else:
            yield from itertools.starmap(ReadPair, self._parallel(corpus, split, invalid))

    def header_hints(self) -> Iterator[str]:
        """Hints about tab-separated files whose first line looks like a header, but is read as a pair."""
        hints = (
            tab_separated.header_hint(self.local.pair_file(corpus, self.recipe))
            for _, corpus in self.recipe.corpora()
            if isinstance(corpus, PairFileCorpus) and corpus.format == "tsv"
        )
        yield from dict.fromkeys(filter(None, hints))

    def number_of_lines(self, corpus: TextCorpus) -> int | None:
        """The number of lines of a corpus: as published, or of a plain file of the user's; else None."""
        if isinstance(corpus, LocalCorpus | LocalFilesCorpus):
            return count_lines(self.local.path(corpus, self.recipe.source_lang))
        if isinstance(corpus, PairFileCorpus):
            return count_lines(self.local.pair_file(corpus, self.recipe).path) if corpus.format == "tsv" else None
        return getattr(corpus, "lines", None)

    def _parallel(self, corpus: TextCorpus, split: str, invalid: InvalidUtf8) -> Iterator[Pair]:
        """Yield the source and target lines of a corpus with a file for each side."""
        source, target = self.recipe.source_lang, self.recipe.target_lang
        match corpus:
            case ToyCorpus():
                yield from _toy_pairs(corpus, split, source, target)
            case TestSetCorpus():
                test_set = self.test_sets[corpus.name]
                yield from zip(test_set.source, test_set.references[0], strict=True)
            case LocalCorpus() | LocalFilesCorpus():
                paths = self.local.path(corpus, source), self.local.path(corpus, target)
                yield from read_parallel(*paths, invalid=invalid)
            case FilesCorpus():
                paths = self.downloads[corpus.files[source]], self.downloads[corpus.files[target]]
                yield from _read(*paths, corpus.format, invalid)
            case ArchiveCorpus():
                archive = self.downloads[corpus.download]
                members = unpack(archive, [corpus.members[source], corpus.members[target]], self.scratch)
                yield from _read(members[0], members[1], corpus.format, invalid)
                shutil.rmtree(self.scratch)


def fetch_sources(
    recipe: Recipe,
    scratch: Path,
    local: LocalText,
    *,
    cache: Path | None,
    mirrors: Sequence[str],
    offline: bool,
    progress: Progress | None,
    notify: Notify | None,
) -> Sources:
    """Fetch every file of a recipe; the arguments are those of :func:`nmt.corpora.prepare.prepare`.

    Args:
        local: the user's own files.

    Raises:
        DownloadError: names every missing file when offline, else the first file that fails.
    """
    root = cache or default_cache()
    downloads: dict[str, Path] = {}
    test_sets: dict[str, TestSet] = {}
    fetched: list[tuple[RemoteFile, Path]] = []
    missing: list[str] = []

    for key, file in recipe.used_downloads().items():
        folder = root.joinpath(*folder_parts(file.url))
        try:
            downloads[key] = fetch(file, folder, mirrors=mirrors, offline=offline, progress=progress, notify=notify)
        except DownloadError as error:
            if not offline:
                raise
            missing.append(str(error))
        else:
            fetched.append((file, downloads[key]))
    for name, given in recipe.test_sets().items():
        # Only files that sacreBLEU itself would download may be put into its cache.
        foreign = given is not None and given.md5 not in [listed.md5 for listed in listed_files(name)]
        try:
            test_sets[name] = fetch_test_set(
                name,
                f"{recipe.source_lang}-{recipe.target_lang}",
                file=given,
                cache=root / "sacrebleu" if cache or foreign else None,
                mirrors=mirrors,
                offline=offline,
                progress=progress,
                notify=notify,
            )
        except DownloadError as error:
            if not offline:
                raise
            missing.append(str(error))
        else:
            fetched += test_sets[name].files
    if missing:
        raise DownloadError("\n".join(missing))
    records = [
        SourceRecord(
            file=path.name, url=file.public_url, sha256=file.sha256 or sha256_of(path), bytes=path.stat().st_size
        )
        for file, path in fetched
    ]
    records += unfetched_records(recipe, local)
    return Sources(recipe, scratch, downloads, test_sets, records, local)


def unfetched_records(recipe: Recipe, local: LocalText) -> list[SourceRecord]:
    """The files of a recipe that are not downloaded: the user's files, and the source code of the toy grammar."""
    records = list(local.records)
    if any(isinstance(corpus, ToyCorpus) for _, corpus in recipe.corpora()):
        from nmt.corpora import toy

        records += [
            SourceRecord(file=f"nmt/corpora/toy/{path.name}", sha256=sha256_of(path), bytes=path.stat().st_size)
            for path in sorted(Path(toy.__file__).parent.glob("*.py"))
        ]
    return records


@functools.lru_cache(maxsize=1)
def _toy(seed: int) -> ToyPairs:
    """The toy corpus; cached, since its three splits are read one after another."""
    from nmt.corpora.toy import generate

    return generate(seed)


def _toy_pairs(corpus: ToyCorpus, split: str, source: str, target: str) -> Iterator[Pair]:
    if {source, target} != {"en", "de"}:
        raise DataError(f"the toy grammar has en and de, not {source} and {target}.")
    pairs = getattr(_toy(corpus.seed), split)
    return iter(pairs) if source == "en" else ((german, english) for english, german in pairs)


def _read(source: Path, target: Path, form: Format, invalid: InvalidUtf8) -> Iterator[Pair]:
    if form == "plain":
        budgets = Budget(source), Budget(target)
        for pair in read_parallel(source, target, invalid=invalid):
            for budget, line in zip(budgets, pair, strict=True):
                budget.spend(len(line) + 1)
            yield pair
        return
    strip = _ted_tags if form == "ted-tags" else _ted_segments
    sides = [list(strip(_bounded(read_lines(path, invalid=invalid), path))) for path in (source, target)]
    if len(sides[0]) != len(sides[1]):
        raise DataError(
            f"{source} has {len(sides[0]):,} sentences, but {target} has {len(sides[1]):,}: both need the same number."
        )
    yield from zip(*sides, strict=True)


def _bounded(lines: Iterable[str], path: Path) -> Iterator[str]:
    """The lines of a file; an error if it unpacks to far more than its size."""
    budget = Budget(path)
    for line in lines:
        budget.spend(len(line) + 1)
        yield line


def _ted_tags(lines: Iterable[str]) -> Iterator[str]:
    """Sentences of an IWSLT training file: titles and descriptions lose their tags, other tagged lines are left out."""
    for line in lines:
        tagged = _TITLE.fullmatch(line.strip())
        if tagged:
            yield tagged[2].strip()
        elif not line.lstrip().startswith("<"):
            yield line.strip()


def _ted_segments(lines: Iterable[str]) -> Iterator[str]:
    """Sentences of an IWSLT development or test file, which is XML."""
    for line in lines:
        # If the first tag is not closed, no later tag is.
        segment = _SEGMENT.match(line, max(0, line.find("<seg")))
        if segment:
            yield html.unescape(segment[1]).strip()
