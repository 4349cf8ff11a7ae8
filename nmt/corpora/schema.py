"""The keys of a recipe: types, defaults, and checks that they fit together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from nmt.addresses import check_address, folder_parts, public_address
from nmt.config import Section
from nmt.corpora.archive import safe_member
from nmt.corpora.filters import Filters
from nmt.corpora.transfer import RemoteFile
from nmt.printable import has_control_characters
from nmt.text import STANDARD_INPUT, STDIN

_LANGUAGE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{2,8})*")
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*")


def _one_line(text: str) -> str:
    if has_control_characters(text):
        raise ValueError("must be one line without control characters")
    return text


Label = Annotated[str, AfterValidator(_one_line)]
"""Text that is printed: one line without control characters."""
Format = Literal["plain", "ted-tags", "ted-segments"]
PairFormat = Literal["tsv", "opus-zip", "tmx"]
"""Formats of a file that holds both sides. Their readers are in :data:`nmt.corpora.sources.PAIR_READERS`."""
SOURCE, TARGET, SCORE = "source", "target", "score"
"""Names of columns; languages are names as well."""


class Download(Section):
    """A file to fetch."""

    url: str
    sha256: str | None = Field(None, pattern="^[0-9a-fA-F]{64}$", description="recorded at the first download if unset")
    md5: str | None = Field(None, pattern="^[0-9a-fA-F]{32}$", description="if no sha256 is published")
    size: int | None = Field(None, ge=0, description="bytes")

    @field_validator("url")
    @classmethod
    def _is_web_address(cls, url: str) -> str:
        try:
            check_address(url)
        except ValueError as error:
            raise ValueError(f"{error}; for files of your own use kind: local") from None
        return url

    def remote(self) -> RemoteFile:
        """The file in the downloader's form."""
        return RemoteFile(self.url, sha256=self.sha256, md5=self.md5, size=self.size)


class ArchiveCorpus(Section):
    """Two members of an archive, one per language."""

    kind: Literal["archive"]
    name: Label
    download: str = Field(description="a key of downloads")
    members: dict[str, str] = Field(description="by language; a compressed member is unpacked too")
    format: Format = "plain"
    lines: int | None = Field(None, ge=0, description="as published; a difference is reported")

    @field_validator("members")
    @classmethod
    def _are_inside_the_folder(cls, members: dict[str, str]) -> dict[str, str]:
        for member in members.values():
            if not safe_member(member):
                raise ValueError(
                    f"the member {member!r} would be unpacked outside its folder, or contains a control character"
                )
        return members


class FilesCorpus(Section):
    """Two downloads, one per language."""

    kind: Literal["files"]
    name: Label
    files: dict[str, str] = Field(description="keys of downloads, by language")
    format: Format = "plain"
    lines: int | None = Field(None, ge=0)


class TestSetCorpus(Section):
    """One of sacreBLEU's test sets: same text, same checksum, same name in the score's signature."""

    kind: Literal["test-set"]
    name: Label = Field(description="sacreBLEU's name, for example wmt14/full")
    download: str | None = Field(None, description="a key of downloads; sacreBLEU's address if unset")
    lines: int | None = Field(None, ge=0)


class ToyCorpus(Section):
    """The built-in toy pair: one split of the toy grammar."""

    kind: Literal["toy"]
    name: Label = "toy"
    seed: int = Field(1, ge=0)


class LocalCorpus(Section):
    """The user's own files: PREFIX.LANGUAGE, plain or compressed (``.gz``, ``.xz``, ``.bz2``, ``.zst``)."""

    kind: Literal["local"]
    prefix: str = Field(description="relative to the recipe's folder")

    @property
    def name(self) -> str:
        """The prefix's last part."""
        return Path(self.prefix).name


class LocalFilesCorpus(Section):
    """Two of the user's own files, which may be pipes."""

    kind: Literal["local-files"]
    files: dict[str, str] = Field(description="by language; relative to the recipe's folder")

    @property
    def name(self) -> str:
        """The names of the two files."""
        return "+".join(Path(file).name for file in self.files.values())


class PairFileCorpus(Section):
    """A file of the user's own that holds both sides."""

    kind: Literal["pair-file"]
    file: str = Field(description="relative to the recipe's folder; - is standard input, as tsv")
    format: PairFormat
    columns: list[str] | None = Field(
        None, description="of tsv, in order: the languages, score, any other name is ignored; source, target if unset"
    )
    header: bool = Field(False, description="of tsv: the first line holds the names of the columns")

    @property
    def name(self) -> str:
        """The file's name."""
        return STANDARD_INPUT if self.file == STDIN else Path(self.file).name

    @model_validator(mode="after")
    def _fits_its_format(self) -> Self:
        if self.format != "tsv" and (self.columns is not None or self.header):
            raise ValueError(f"columns and header are for tsv; {self.file} is {self.format}")
        if self.format != "tsv" and self.file == STDIN:
            raise ValueError(f"standard input is read as tsv, not as {self.format}")
        return self


MOST_EVALUATION_PAIRS = 1_000_000
"""Maximum number of pairs of valid, and of test, which are held in memory."""


class HeldOut(Section):
    """Pairs taken out of the training text: those with the smallest hashes of the source sentence.

    So the choice is the same in every run and hardly changes as the corpus grows.
    """

    kind: Literal["held-out"]
    name: Label = "held-out"
    pairs: int = Field(2_000, ge=1, le=MOST_EVALUATION_PAIRS)
    max_share: float = Field(0.05, gt=0, le=0.5, description="maximum share of the training pairs; rounded up")


TextCorpus = Annotated[
    ArchiveCorpus | FilesCorpus | TestSetCorpus | ToyCorpus | LocalCorpus | LocalFilesCorpus | PairFileCorpus,
    Field(discriminator="kind"),
]
AnyCorpus = Annotated[TextCorpus | HeldOut, Field(discriminator="kind")]


class Normalisation(Section):
    """Changes to both sides of the training text. ``nmt translate`` repeats them on its input."""

    nfc: bool = Field(False, description="Unicode normal form C")
    punctuation: bool = Field(False, description="Moses: normalise punctuation, remove non-printing characters")


class Recipe(Section):
    """A parallel corpus, from its sources to clean text."""

    name: str
    description: str = ""
    licence: str = ""
    source_lang: str
    target_lang: str
    vocab_size: int | None = Field(None, ge=1, description="the vocabulary size of build-vocab without --size")
    downloads: dict[str, Download] = Field(default_factory=dict)
    train: list[TextCorpus] = Field(min_length=1)
    valid: list[AnyCorpus] = Field(min_length=1)
    test: list[AnyCorpus] = Field(min_length=1)
    normalisation: Normalisation = Normalisation()
    filters: Filters = Filters()

    @field_validator("name")
    @classmethod
    def _is_folder_name(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError("must be a plain folder name: letters, digits, '.', '_', '+' and '-'")
        return name

    @field_validator("source_lang", "target_lang")
    @classmethod
    def _is_language(cls, code: str) -> str:
        if not _LANGUAGE.fullmatch(code):
            raise ValueError("must be a language code such as en or pt-BR")
        return code

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        languages = {self.source_lang, self.target_lang}
        if len(languages) == 1:
            raise ValueError(f"source_lang and target_lang are both {self.source_lang!r}")
        for split, corpus in self.corpora():
            sides = _sides(corpus)
            if sides is not None and set(sides) != languages:
                raise ValueError(
                    f"{split}, {corpus.name}: has text for {', '.join(sorted(sides))}; "
                    f"expected {' and '.join(sorted(languages))}"
                )
            for key in _downloads_of(corpus):
                if key not in self.downloads:
                    raise ValueError(f"{split}, {corpus.name}: {key!r} is not among the downloads")
        places: dict[tuple[str, ...], str] = {}
        for key, download in self.downloads.items():
            place = (*folder_parts(download.url), download.remote().name)
            other = places.setdefault(place, key)
            if self.downloads[other] != download:
                raise ValueError(f"the downloads {other} and {key} differ, but have the same path in the cache")
        pair_files = [corpus for _, corpus in self.corpora() if isinstance(corpus, PairFileCorpus)]
        if sum(corpus.file == STDIN for corpus in pair_files) > 1:
            raise ValueError("standard input (-) can be read only once, but several corpora name it")
        may_have_scores = [isinstance(corpus, PairFileCorpus) and corpus.format == "tsv" for corpus in self.train]
        if self.filters.min_score is not None and not any(may_have_scores):
            raise ValueError("filters.min_score needs scores, which only tab-separated files have; train has none")
        for split, corpora in (("valid", self.valid), ("test", self.test)):
            if len(corpora) > 1 and any(isinstance(corpus, HeldOut) for corpus in corpora):
                raise ValueError(f"{split}: held-out pairs cannot be mixed with other text")
        return self

    def record(self) -> dict[str, Any]:
        """The recipe for the manifest: every default resolved, addresses without user information and query."""
        values = self.model_dump(mode="json")
        for download in values["downloads"].values():
            download["url"] = public_address(download["url"])
        return values

    def corpora(self) -> Iterator[tuple[str, AnyCorpus]]:
        """Each corpus with the name of its split."""
        for split in ("train", "valid", "test"):
            for corpus in getattr(self, split):
                yield split, corpus

    def used_downloads(self) -> dict[str, RemoteFile]:
        """The files that corpora are read from, by key, in the order of use; without those of test sets."""
        corpora = (corpus for _, corpus in self.corpora() if not isinstance(corpus, TestSetCorpus))
        keys = [key for corpus in corpora for key in _downloads_of(corpus)]
        return {key: self.downloads[key].remote() for key in dict.fromkeys(keys)}

    def test_sets(self) -> dict[str, RemoteFile | None]:
        """sacreBLEU's test sets among the corpora, by name, each with the file to read it from if one is given."""
        return {
            corpus.name: self.downloads[corpus.download].remote() if corpus.download else None
            for _, corpus in self.corpora()
            if isinstance(corpus, TestSetCorpus)
        }


def _sides(corpus: AnyCorpus) -> Mapping[str, str] | None:
    """A corpus's member or file per language; None if it finds both by itself."""
    if isinstance(corpus, ArchiveCorpus):
        return corpus.members
    return corpus.files if isinstance(corpus, FilesCorpus | LocalFilesCorpus) else None


def _downloads_of(corpus: AnyCorpus) -> list[str]:
    if isinstance(corpus, ArchiveCorpus):
        return [corpus.download]
    if isinstance(corpus, TestSetCorpus):
        return [corpus.download] if corpus.download else []
    return list(corpus.files.values()) if isinstance(corpus, FilesCorpus) else []
