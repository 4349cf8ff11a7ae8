"""The keys of a recipe: types, defaults, and checks that they fit together. Corpora are in :mod:`corpus_kinds`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from nmt.config import Section, Tag
from nmt.corpora.corpus_kinds import HeldOut, TestSet, Text, Toy, public_files
from nmt.corpora.filters import Filters
from nmt.corpora.transfer import RemoteFile
from nmt.text.addresses import check_address, folder_parts, is_address, public_address, without_secrets
from nmt.text.languages import primary_language, well_formed
from nmt.text.lines import STDIN
from nmt.text.steps import MosesPunctuation, Nfc, Steps

SPLITS = ("train", "valid", "test")
_NAME = re.compile(r"[A-Za-z0-9][\w.+@-]*")

AnyCorpus = Text | TestSet | Toy | HeldOut
_Read = Annotated[Text | TestSet | Toy, Field(discriminator="kind")]
_ReadOrHeldOut = Annotated[AnyCorpus, Field(discriminator="kind")]


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
            raise ValueError(f"{error}; for files of your own, name their paths in a corpus") from None
        return url

    def remote(self) -> RemoteFile:
        """The file in the downloader's form."""
        return RemoteFile(self.url, sha256=self.sha256, md5=self.md5, size=self.size)


class Normalisation(Section):
    """Changes to both sides of the training text. ``nmt translate`` repeats them on its input."""

    nfc: bool = Field(False, description="Unicode normal form C")
    punctuation: bool = Field(False, description="Moses: normalise punctuation, remove non-printing characters")

    def steps(self, language: str) -> Steps:
        """The changes to text of a language."""
        punctuation = MosesPunctuation(language=primary_language(language)) if self.punctuation else None
        return tuple(filter(None, (Nfc() if self.nfc else None, punctuation)))


class Recipe(Section):
    """A parallel corpus, from its sources to clean text."""

    name: str
    description: str = ""
    licence: str = ""
    source_lang: str
    target_lang: str
    tag: Tag = Field("", description="of all pairs, such as BT: build-vocab puts its piece <BT> before their sources")
    vocab_size: int | None = Field(None, ge=1, description="the vocabulary size of build-vocab without --size")
    downloads: dict[str, Download] = Field(default_factory=dict)
    train: list[_Read] = Field(min_length=1)
    valid: list[_ReadOrHeldOut] = Field(min_length=1)
    test: list[_ReadOrHeldOut] = Field(min_length=1)
    apart_from: list[str] = Field(
        [], description="folders of other data sets: the sentences of their valid and test leak like those of this one"
    )
    normalisation: Normalisation = Normalisation()
    filters: Filters = Filters()

    @field_validator("name")
    @classmethod
    def _is_folder_name(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError("must be a plain folder name: letters, digits, '.', '_', '+', '@' and '-'")
        return name

    @field_validator("downloads", mode="before")
    @classmethod
    def _have_plain_keys(cls, downloads: Any) -> Any:
        # Checked first, since further messages quote the keys, and an address may hold a password.
        for key in downloads if isinstance(downloads, dict) else ():
            if "://" in str(key):
                raise ValueError(f"the key {without_secrets(str(key))!r} is an address: choose a short name as the key")
        return downloads

    @field_validator("source_lang", "target_lang")
    @classmethod
    def _is_language(cls, code: str) -> str:
        return well_formed(code or "?")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        languages = {self.source_lang, self.target_lang}
        if len(languages) == 1:
            raise ValueError(f"source_lang and target_lang are both {self.source_lang!r}")
        for split, corpus in self.corpora():
            for problem in corpus.problems(self):
                raise ValueError(f"{split}, {corpus.name}: {problem}")
        locations = [location for _, corpus in self.corpora() for location in corpus.locations()]
        if locations.count(STDIN) > 1:
            raise ValueError("standard input (-) can be read only once, but several corpora name it")
        fetched = [(key, download.remote()) for key, download in self.downloads.items()]
        fetched += [(public_address(each), RemoteFile(each)) for each in locations if is_address(each)]
        places: dict[tuple[str, ...], tuple[str, RemoteFile]] = {}
        for key, remote in fetched:
            other, first = places.setdefault((*folder_parts(remote.url), remote.name), (key, remote))
            if first != remote:
                raise ValueError(f"the downloads {other} and {key} differ, but have the same path in the cache")
        if self.filters.min_score is not None and not any(corpus.may_have_scores() for corpus in self.train):
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
        for corpus in (corpus for split in SPLITS for corpus in values[split]):
            if "files" in corpus:
                corpus["files"] = public_files(corpus["files"])
        return values

    def corpora(self) -> Iterator[tuple[str, AnyCorpus]]:
        """Each corpus with the name of its split."""
        for split in SPLITS:
            for corpus in getattr(self, split):
                yield split, corpus

    def held_out(self) -> dict[str, HeldOut]:
        """The splits that are held out of the training text."""
        splits = (("valid", self.valid[0]), ("test", self.test[0]))
        return {split: corpus for split, corpus in splits if isinstance(corpus, HeldOut)}
