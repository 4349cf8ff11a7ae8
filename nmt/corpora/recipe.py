"""Corpora as data: a recipe says where parallel text comes from and what is done to it.

The built-in recipes are the YAML files beside this module; each also works with its languages reversed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import yaml
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from nmt.config import Section, load_yaml
from nmt.corpora.archive import safe_member
from nmt.corpora.download import RemoteFile
from nmt.errors import ConfigError

_LANGUAGE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{2,8})*")
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*")

Format = Literal["plain", "ted-tags", "ted-segments"]


class Download(Section):
    """A file to fetch."""

    url: str
    sha256: str | None = Field(None, pattern="^[0-9a-fA-F]{64}$", description="noted on first use if unset")
    md5: str | None = Field(None, pattern="^[0-9a-fA-F]{32}$", description="where no sha256 is published")
    size: int | None = Field(None, ge=0, description="bytes")

    @field_validator("url")
    @classmethod
    def _is_web_address(cls, url: str) -> str:
        if not url.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://; for files of your own use kind: local")
        return url

    def remote(self) -> RemoteFile:
        """The file as the downloader takes it."""
        return RemoteFile(self.url, sha256=self.sha256, md5=self.md5, size=self.size)


class ArchiveCorpus(Section):
    """Two members of an archive, one a language."""

    kind: Literal["archive"]
    name: str
    download: str = Field(description="a key of downloads")
    members: dict[str, str] = Field(description="by language; a member that ends in .gz or .xz is unpacked too")
    format: Format = "plain"
    lines: int | None = Field(None, ge=0, description="as published; a difference is told")

    @field_validator("members")
    @classmethod
    def _stay_below(cls, members: dict[str, str]) -> dict[str, str]:
        for member in members.values():
            if not safe_member(member):
                raise ValueError(f"the member {member!r} leads out of the folder that the archive is unpacked to")
        return members


class FilesCorpus(Section):
    """Two downloads, one a language."""

    kind: Literal["files"]
    name: str
    files: dict[str, str] = Field(description="keys of downloads, by language")
    format: Format = "plain"
    lines: int | None = Field(None, ge=0)


class TestSetCorpus(Section):
    """A test set as sacreBLEU knows it: same text, same checksum, same name in the score's signature."""

    kind: Literal["test-set"]
    name: str = Field(description="sacreBLEU's name, for example wmt14/full")
    download: str | None = Field(None, description="a key of downloads; where sacreBLEU says it is, if unset")
    lines: int | None = Field(None, ge=0)


class ToyCorpus(Section):
    """The embedded pair: this split of the toy grammar."""

    kind: Literal["toy"]
    name: str = "toy"
    seed: int = Field(1, ge=0)


class LocalCorpus(Section):
    """Files of the user's own: PREFIX.LANGUAGE, plain, ``.gz`` or ``.xz``."""

    kind: Literal["local"]
    prefix: str = Field(description="relative to the recipe's folder")

    @property
    def name(self) -> str:
        """The prefix's last part."""
        return Path(self.prefix).name


class HeldOut(Section):
    """Pairs taken out of the training text: those whose source has the smallest hashes, so that the choice is the
    same in every run and hardly changes as the corpus grows."""

    kind: Literal["held-out"]
    name: str = "held-out"
    pairs: int = Field(2_000, ge=1)
    max_share: float = Field(0.05, gt=0, le=0.5, description="of the training pairs, at most; rounded up")


TextCorpus = Annotated[
    ArchiveCorpus | FilesCorpus | TestSetCorpus | ToyCorpus | LocalCorpus, Field(discriminator="kind")
]
AnyCorpus = Annotated[
    ArchiveCorpus | FilesCorpus | TestSetCorpus | ToyCorpus | LocalCorpus | HeldOut, Field(discriminator="kind")
]


class Normalisation(Section):
    """Changes to training text, both sides, which translate does again to its input. Raw text needs none."""

    nfc: bool = Field(False, description="Unicode normal form C")
    punctuation: bool = Field(False, description="Moses: normalise punctuation, remove non-printing characters")


class Filters(Section):
    """Which training pairs are dropped. Pairs with an empty side always are. Valid and test are never filtered."""

    invalid_utf8: Literal["error", "drop"] = Field("error", description="what becomes of text that is not UTF-8")
    max_length: int | None = Field(250, ge=1, description="words (characters for zh, ja, th, km, lo, my) of a side")
    max_ratio: float | None = Field(4.0, ge=1, description="of the longer side to the shorter")
    dedup: bool = Field(True, description="drop exact repetitions of a pair")
    leakage: Literal["drop", "count"] = Field("drop", description="pairs of which a side stands in valid or test")


class Recipe(Section):
    """A parallel corpus, from its sources to clean text."""

    name: str
    description: str = ""
    licence: str = ""
    source_lang: str
    target_lang: str
    vocab_size: int | None = Field(None, ge=1, description="what build-vocab takes without --size")
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
                    f"needed are {' and '.join(sorted(languages))}"
                )
            for key in _downloads_of(corpus):
                if key not in self.downloads:
                    raise ValueError(f"{split}, {corpus.name}: {key!r} is not among the downloads")
        for split, corpora in (("valid", self.valid), ("test", self.test)):
            if len(corpora) > 1 and any(isinstance(corpus, HeldOut) for corpus in corpora):
                raise ValueError(f"{split}: held-out pairs cannot be mixed with other text")
        return self

    def corpora(self) -> Iterator[tuple[str, AnyCorpus]]:
        """Each corpus with the name of its split."""
        for split in ("train", "valid", "test"):
            for corpus in getattr(self, split):
                yield split, corpus

    def used_downloads(self) -> dict[str, RemoteFile]:
        """The files that corpora are read from, by their keys, in the order of use; test sets are not among them."""
        corpora = (corpus for _, corpus in self.corpora() if not isinstance(corpus, TestSetCorpus))
        keys = [key for corpus in corpora for key in _downloads_of(corpus)]
        return {key: self.downloads[key].remote() for key in dict.fromkeys(keys)}

    def test_sets(self) -> dict[str, RemoteFile | None]:
        """The names of sacreBLEU's test sets among the corpora, and the files to read them from if given."""
        return {
            corpus.name: self.downloads[corpus.download].remote() if corpus.download else None
            for _, corpus in self.corpora()
            if isinstance(corpus, TestSetCorpus)
        }


def _sides(corpus: AnyCorpus) -> Mapping[str, str] | None:
    """What a corpus names for each language; None if it finds both by itself."""
    if isinstance(corpus, ArchiveCorpus):
        return corpus.members
    return corpus.files if isinstance(corpus, FilesCorpus) else None


def _downloads_of(corpus: AnyCorpus) -> list[str]:
    if isinstance(corpus, ArchiveCorpus):
        return [corpus.download]
    if isinstance(corpus, TestSetCorpus):
        return [corpus.download] if corpus.download else []
    return list(corpus.files.values()) if isinstance(corpus, FilesCorpus) else []


_RECIPES = resources.files("nmt.corpora") / "recipes"


def builtin_names() -> list[str]:
    """The names of the built-in recipes."""
    return sorted(entry.name.removesuffix(".yaml") for entry in _RECIPES.iterdir() if entry.name.endswith(".yaml"))


def builtin_text(name: str) -> str:
    """The YAML of a built-in recipe, comments included."""
    return _RECIPES.joinpath(f"{name}.yaml").read_text("utf-8")


def load_recipe(dataset: str) -> Recipe:
    """A recipe by name, by reversed name (``multi30k-de-en``), or from a file (``my.yaml``).

    Raises:
        ConfigError: there is no such recipe, or the file's settings are wrong.
    """
    if dataset.endswith((".yaml", ".yml")):
        path = Path(dataset)
        return _with_absolute_prefixes(parse_recipe(load_yaml(path), name=dataset), path.resolve().parent)
    names = builtin_names()
    if dataset in names:
        return parse_recipe(yaml.safe_load(builtin_text(dataset)), name=dataset)
    for name in names:
        recipe = parse_recipe(yaml.safe_load(builtin_text(name)), name=name)
        if reverse(recipe).name == dataset:
            return reverse(recipe)
    nearest = difflib.get_close_matches(dataset, names, n=1)
    hint = f" (did you mean {nearest[0]!r}?)" if nearest else ""
    raise ConfigError(
        f"there is no built-in data set {dataset!r}{hint}; there are {', '.join(names)}, each also with its "
        "languages reversed. For text of your own name its files with --train PREFIX, or a recipe file NAME.yaml."
    )


def parse_recipe(values: Mapping[str, Any], *, name: str) -> Recipe:
    """Check the settings of a recipe.

    Raises:
        ConfigError: names each key that is unknown or has a value that does not fit.
    """
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        raise ConfigError("\n".join(_describe(problem, name) for problem in error.errors())) from None


def reverse(recipe: Recipe) -> Recipe:
    """The same text with source and target exchanged, under the reversed name."""
    pair, reversed_pair = f"{recipe.source_lang}-{recipe.target_lang}", f"{recipe.target_lang}-{recipe.source_lang}"
    name = recipe.name.removesuffix(pair) + reversed_pair if recipe.name.endswith(pair) else f"{recipe.name}-reversed"
    return recipe.model_copy(
        update={"name": name, "source_lang": recipe.target_lang, "target_lang": recipe.source_lang}
    )


def own_recipe(
    name: str,
    *,
    source_lang: str | None,
    target_lang: str | None,
    train: Sequence[str],
    valid: Sequence[str] = (),
    test: Sequence[str] = (),
) -> Recipe:
    """A recipe for files of the user's own; what is not given of valid and test is held out of train.

    Args:
        name: of the data set. Languages that are not given are read from its end (``mine-en-de``).
        source_lang: code of the source language.
        target_lang: code of the target language.
        train: prefixes of the files, relative to the current folder.
        valid: as for train.
        test: as for train.

    Raises:
        ConfigError: the name belongs to a built-in pair, or the languages are unknown.
    """
    if name in builtin_names():
        raise ConfigError(f"{name!r} is a built-in data set: give your own text another name, for example my-{name}.")
    if source_lang is None or target_lang is None:
        from_name = re.fullmatch(r".+-([a-z]{2,3})-([a-z]{2,3})", name)
        if from_name is None:
            raise ConfigError(
                f"the languages of {name!r} are unknown: give --source-lang and --target-lang, "
                f"or name the data set {name}-en-de or the like."
            )
        source_lang, target_lang = source_lang or from_name[1], target_lang or from_name[2]

    def corpora(prefixes: Iterable[str]) -> list[dict[str, str]]:
        return [{"kind": "local", "prefix": str(Path(prefix).resolve())} for prefix in prefixes]

    held_out = [{"kind": "held-out"}]
    values = {
        "name": name,
        "source_lang": source_lang,
        "target_lang": target_lang,
        "train": corpora(train),
        "valid": corpora(valid) or held_out,
        "test": corpora(test) or held_out,
    }
    return parse_recipe(values, name=name)


def with_filters(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """The recipe with some of its filters changed.

    Raises:
        ConfigError: a value does not fit.
    """
    values = recipe.model_dump(mode="json")
    values["filters"] |= changes
    return parse_recipe(values, name=recipe.name)


def dump_recipe(recipe: Recipe) -> str:
    """The recipe as YAML, every default resolved."""
    return yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=110)


def _with_absolute_prefixes(recipe: Recipe, folder: Path) -> Recipe:
    values = recipe.model_dump(mode="json")
    for split in ("train", "valid", "test"):
        for corpus in values[split]:
            if corpus["kind"] == "local":
                corpus["prefix"] = str(folder / corpus["prefix"])
    return parse_recipe(values, name=recipe.name)


def _describe(problem: Any, name: str) -> str:
    """One of pydantic's errors as a sentence that names the key, and for an unknown one the nearest that exists."""
    location = list(problem["loc"])
    key = ".".join(str(part) for part in location)
    if problem["type"] == "extra_forbidden":
        known = _known_keys(Recipe, location[:-1])
        nearest = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"known here are {', '.join(known)}."
        return f"{name}: unknown key {key!r}; {hint}"
    if problem["type"] == "missing":
        return f"{name}: the key {key!r} is missing."
    message = problem["msg"].removeprefix("Value error, ")
    given = problem["input"]
    shown = f" (given: {given!r})" if isinstance(given, str | int | float | bool) else ""
    # YAML reads an unquoted `no` as false.
    quote = " Quote language codes." if given is False and location[-1] in ("source_lang", "target_lang") else ""
    return f"{name}: {key or 'recipe'}: {message}{shown}.{quote}"


def _known_keys(kind: type[BaseModel], location: list[Any]) -> list[str]:
    """The keys of the section that a location leads to, through lists, dictionaries and tagged unions."""
    options: list[type[BaseModel]] = []
    for step in location:
        if step in kind.model_fields:
            options = list(_sections(kind.model_fields[step].annotation))
            kind = options[0] if len(options) == 1 else kind
        elif isinstance(step, str):
            tagged = (option for option in options if "kind" in option.model_fields)
            kinds = {get_args(option.model_fields["kind"].annotation)[0]: option for option in tagged}
            kind = kinds.get(step, kind)
    return list(kind.model_fields)


def _sections(annotation: Any) -> Iterator[type[BaseModel]]:
    """The sections that a type is built of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _sections(argument)
