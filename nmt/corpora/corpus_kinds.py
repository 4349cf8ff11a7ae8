"""The kinds of corpora in a recipe: their keys, the files that each is read from, and how it is read."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from nmt.config import Section
from nmt.corpora import bilingual, formats, tab_separated, tmx
from nmt.corpora.archive import safe_member
from nmt.corpora.formats import ParallelText, ReadPair
from nmt.corpora.locations import Input, is_path, is_unknown_download, key_and_member, locate
from nmt.errors import DataError
from nmt.text.addresses import check_address, file_name, is_address, public_address, without_secrets
from nmt.text.lines import STANDARD_INPUT, STDIN, count_lines
from nmt.text.printable import has_control_characters

if TYPE_CHECKING:
    from nmt.corpora.schema import Recipe
    from nmt.corpora.toy import ToySplits


def _one_line(text: str) -> str:
    if has_control_characters(text):
        raise ValueError("must be one line without control characters")
    return text


Label = Annotated[str, AfterValidator(_one_line)]
"""Text that is printed: one line without control characters."""
Format = Literal["plain", "ted-tags", "ted-segments", "tsv", "tmx", "po", "xliff", "opus-zip"]
_READERS: dict[Format, Callable[[ParallelText], Iterator[ReadPair | None]]] = {
    "plain": formats.plain,
    "ted-tags": formats.ted_tags,
    "ted-segments": formats.ted_segments,
    "tsv": tab_separated.read,
    "tmx": tmx.read,
    "po": functools.partial(bilingual.read, document_format="po"),
    "xliff": functools.partial(bilingual.read, document_format="xliff"),
    "opus-zip": formats.opus_zip,
}
"""The reader of each format. It yields None for a unit without one of the languages."""
_NAMED_LANGUAGES: dict[Format, Callable[[ParallelText], list[str] | None]] = {
    "tmx": tmx.languages,
    "po": functools.partial(bilingual.languages, document_format="po"),
    "xliff": functools.partial(bilingual.languages, document_format="xliff"),
}
"""The codes of the languages in a file, where a format names them."""
_FILE_PER_SIDE = ("plain", "ted-tags", "ted-segments")
"""Formats of two files; a file of another format holds both sides."""


class Corpus(Section):
    """Text of a split: which files it is read from, and how. These are the defaults of its kinds."""

    is_generated: ClassVar[bool] = False
    """Whether its text needs no check of a sample."""

    def locations(self) -> list[str]:
        """Where its files are, as the recipe says it."""
        return []

    def parts(self, recipe: Recipe) -> list[tuple[Input, str]]:
        """The files that it is read from, each with the member of it that is read; empty for the whole file.

        Raises:
            DataError: a file is missing.
        """
        return []

    def read(self, text: ParallelText) -> Iterator[ReadPair | None]:
        """Yield its pairs, and None for a unit that has no text in one of the languages.

        Raises:
            DataError: a file is damaged, or the two sides differ in their number of lines.
        """
        raise NotImplementedError

    def number_of_lines(self, text: ParallelText) -> int | None:
        """The number of pairs, if it is known before they are read."""
        return getattr(self, "lines", None)

    def may_have_scores(self) -> bool:
        """Whether its pairs can have scores."""
        return False

    def hint(self, text: ParallelText) -> str | None:
        """What may be wrong with the way in which it is read."""
        return None

    def languages(self, text: ParallelText) -> list[str] | None:
        """The languages that its file names; None if the format names none."""
        return None

    def side_names(self, recipe: Recipe) -> list[str]:
        """The names of the files of source and target, if the recipe names both; else none."""
        return []

    def problems(self, recipe: Recipe) -> Iterator[str]:
        """Why it does not fit its recipe, as sentences."""
        yield from ()

    def beside(self, folder: Path, recipe: Recipe) -> Self:
        """The corpus with absolute paths; relative ones lie in a folder."""
        return self


class Text(Corpus):
    """Files of the user, or downloads: one per language, or one that holds both sides.

    A location is a path, ``-`` (standard input), a web address, a key of ``downloads``, or ``KEY!MEMBER`` for a member
    of a downloaded archive.
    """

    kind: Literal["text"]
    files: dict[str, str] | str = Field(
        description="a location per language; or one: of a file with both sides, or PREFIX for PREFIX.LANGUAGE"
    )
    format: Format = "plain"
    columns: list[str] | None = Field(
        None, description="of tsv, in order: the languages, score, any other name is ignored; source, target if unset"
    )
    header: bool = Field(False, description="of tsv: the first line holds the names of the columns")
    lines: int | None = Field(None, ge=0, description="as published; a difference is reported")
    name: Label = Field("", validate_default=True, description="the names of its files if unset")

    @field_validator("files")
    @classmethod
    def _can_be_located(cls, files: dict[str, str] | str) -> dict[str, str] | str:
        if not files or "" in _locations(files):
            raise ValueError("names no file")
        for location in _locations(files):
            if "://" in location:
                check_address(location)
            member = key_and_member(location)[1]
            if member and not safe_member(member):
                raise ValueError(
                    f"the member {member!r} would be unpacked outside its folder, or contains a control character"
                )
        return files

    @field_validator("name")
    @classmethod
    def _is_named(cls, name: str, info: ValidationInfo) -> str:
        locations = _locations(info.data.get("files", {}))
        return name or "+".join(
            STANDARD_INPUT if each == STDIN else file_name(each) if is_address(each) else _last_part(each)
            for each in locations
        )

    @model_validator(mode="after")
    def _fits_its_format(self) -> Self:
        if self.format != "tsv" and (self.columns is not None or self.header):
            raise ValueError(f"columns and header are for tsv; {self.name} is {self.format}")
        if isinstance(self.files, dict):
            if self.format not in _FILE_PER_SIDE:
                raise ValueError(f"a file of the format {self.format} holds both sides: name one file")
        elif self.format in _FILE_PER_SIDE and (self.files == STDIN or is_address(self.files)):
            raise ValueError(f"the format {self.format} has a file per language: name both, by language")
        return self

    def locations(self) -> list[str]:
        return _locations(self.files)

    def parts(self, recipe: Recipe) -> list[tuple[Input, str]]:
        downloads = {key: download.remote() for key, download in recipe.downloads.items()}
        languages = recipe.source_lang, recipe.target_lang
        if isinstance(self.files, dict):
            is_plain = self.format == "plain"
            return [locate(self.files[language], downloads, is_plain=is_plain) for language in languages]
        if self.format in _FILE_PER_SIDE:
            parts = [locate(self.files, downloads, language) for language in languages]
            if parts[0] == parts[1]:
                raise DataError(f"{parts[0][0].path}: is the only file of {self.files} for both languages.")
            return parts
        return [locate(self.files, downloads, is_plain=False)]

    def read(self, text: ParallelText) -> Iterator[ReadPair | None]:
        return _READERS[self.format](self._with_columns(text))

    def number_of_lines(self, text: ParallelText) -> int | None:
        if self.lines is None and self.format in ("plain", "tsv"):
            return count_lines(text.files[0].path)
        return self.lines

    def may_have_scores(self) -> bool:
        return self.format == "tsv"

    def hint(self, text: ParallelText) -> str | None:
        return tab_separated.layout_hint(self._with_columns(text)) if self.format == "tsv" else None

    def languages(self, text: ParallelText) -> list[str] | None:
        named = _NAMED_LANGUAGES.get(self.format)
        return None if named is None else named(text)

    def _with_columns(self, text: ParallelText) -> ParallelText:
        return replace(text, columns=self.columns, header=self.header)

    def side_names(self, recipe: Recipe) -> list[str]:
        if isinstance(self.files, str):
            return []
        return [_public(self.files[language]) for language in (recipe.source_lang, recipe.target_lang)]

    def problems(self, recipe: Recipe) -> Iterator[str]:
        languages = {recipe.source_lang, recipe.target_lang}
        if isinstance(self.files, dict) and set(self.files) != languages:
            yield f"has text for {', '.join(sorted(self.files))}; expected {' and '.join(sorted(languages))}"
        for location in self.locations():
            if is_unknown_download(location, recipe.downloads):
                yield f"{key_and_member(location)[0]!r} is not among the downloads; a file of your own is ./{location}"
        if isinstance(self.files, str) and self.format in _FILE_PER_SIDE and self.files in recipe.downloads:
            yield f"the format {self.format} has a file per language, but {self.files!r} is one download"

    def beside(self, folder: Path, recipe: Recipe) -> Self:
        def absolute(location: str) -> str:
            return str(folder / location) if is_path(location, recipe.downloads) else location

        return self.model_copy(update={"files": _changed(self.files, absolute)})


class TestSet(Corpus):
    """One of sacreBLEU's test sets: same text, same checksum, same name in the score's signature."""

    __test__ = False  # Not a test, whatever pytest makes of the name.

    kind: Literal["test-set"]
    name: Label = Field(description="sacreBLEU's name, for example wmt14/full")
    download: str | None = Field(None, description="a key of downloads; sacreBLEU's address if unset")
    lines: int | None = Field(None, ge=0, description="as published; a difference is reported")

    def parts(self, recipe: Recipe) -> list[tuple[Input, str]]:
        from nmt.corpora.testsets import files_of_test_set, langpair_of

        given = recipe.downloads[self.download].remote() if self.download else None
        langpair = langpair_of(self.name, recipe.source_lang, recipe.target_lang)
        found = files_of_test_set(self.name, langpair, given, Path("sacrebleu"))
        return [(part, "") for part in found]

    def read(self, text: ParallelText) -> Iterator[ReadPair]:
        from nmt.corpora.testsets import langpair_of, read_test_set

        files = [file.path for file in text.files]
        lines = read_test_set(self.name, langpair_of(self.name, text.source_lang, text.target_lang), files)
        return map(ReadPair, lines.source, lines.references[0])

    def problems(self, recipe: Recipe) -> Iterator[str]:
        if self.download is not None and self.download not in recipe.downloads:
            yield f"{without_secrets(self.download)!r} is not among the downloads"


class Toy(Corpus):
    """The built-in toy pair: one split of the toy grammar."""

    kind: Literal["toy"]
    name: Label = "toy"
    seed: int = Field(1, ge=0)
    is_generated: ClassVar[bool] = True

    def parts(self, recipe: Recipe) -> list[tuple[Input, str]]:
        from nmt.corpora.toy import source_files

        return [(Input(f"nmt/corpora/toy/{path.name}", path), "") for path in source_files()]

    def read(self, text: ParallelText) -> Iterator[ReadPair]:
        pairs = getattr(_toy_splits(self.seed), text.split)
        return (ReadPair(*(pair if text.source_lang == "en" else pair[::-1])) for pair in pairs)

    def problems(self, recipe: Recipe) -> Iterator[str]:
        if {recipe.source_lang, recipe.target_lang} != {"en", "de"}:
            yield f"the toy grammar has en and de, not {recipe.source_lang} and {recipe.target_lang}"


@functools.lru_cache(maxsize=1)
def _toy_splits(seed: int) -> ToySplits:
    """The toy text; cached, since its three splits are read one after another."""
    from nmt.corpora.toy import generate

    return generate(seed)


MOST_EVALUATION_PAIRS = 1_000_000
"""Maximum number of pairs of valid, and of test, which are held in memory."""


class HeldOut(Corpus):
    """Pairs taken out of the training text: those with the smallest hashes of the source sentence.

    So the choice is the same in every run and hardly changes as the corpus grows.
    """

    kind: Literal["held-out"]
    name: Label = "held-out"
    pairs: int = Field(2_000, ge=1, le=MOST_EVALUATION_PAIRS)
    max_share: float = Field(0.05, gt=0, le=0.5, description="maximum share of the training pairs; rounded up")


def _locations(files: Mapping[str, str] | str) -> list[str]:
    return [files] if isinstance(files, str) else list(files.values())


def _changed(files: dict[str, str] | str, change: Callable[[str], str]) -> dict[str, str] | str:
    """The same locations, each changed."""
    return change(files) if isinstance(files, str) else {language: change(each) for language, each in files.items()}


def public_files(files: dict[str, str] | str) -> dict[str, str] | str:
    """The locations of a corpus for the manifest: addresses without user information and query."""
    return _changed(files, _public)


def _last_part(location: str) -> str:
    key, member = key_and_member(location)
    return PurePath(member or key).name


def _public(location: str) -> str:
    return public_address(location) if is_address(location) else location
