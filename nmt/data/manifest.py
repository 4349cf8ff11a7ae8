"""``manifest.json``: the record of a prepared data set, beside its text."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, PlainSerializer, ValidationError

from nmt.config import LanguageCode, Tag, mistakes
from nmt.config.documents import parse_json
from nmt.data.data_folder import DataFolder
from nmt.data.made import Made
from nmt.errors import DataError
from nmt.io.files import replacing
from nmt.io.hashing import digest_of
from nmt.io.regular import read_regular
from nmt.record import SETTINGS, Fact, Record, text_record
from nmt.text.addresses import public_address
from nmt.text.languages import well_formed
from nmt.text.printable import listed
from nmt.text.steps import Choice, Steps

SYNTHETIC = "synthetic text"
"""The kind of the record of pairs that ``nmt synthesize`` made."""
_DATA_SETS = Path("data")
"""The folder of data sets, unless another is named."""
_MOST_SHOWN = 5


class _Part(BaseModel):
    """A part of the manifest."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SourceRecord(_Part):
    """A file that the data set was made from."""

    file: str
    url: Annotated[str, AfterValidator(public_address)] | None = None
    """Without user information and query."""
    sha256: str
    bytes: int
    made_by: Annotated[Record | None, PlainSerializer(lambda record: record and record.stored())] = None
    """The record of a file that this program wrote, or of the data set that it belongs to; its paths are absolute."""

    def record(self) -> Record:
        """The record of the file: an archive, or a file of the user or of this program."""
        if self.made_by is not None:
            return self.made_by
        address = {} if self.url is None else {"url": self.url}
        kind = "file" if self.url is None else "archive"
        return text_record(kind, self.file, self.sha256, **address, bytes=self.bytes)


class FilterRecord(_Part):
    """The pairs of a corpus that a filter dropped, or only counted."""

    pairs: int
    samples: list[tuple[str, str]] = []
    """The first of these pairs: source and target as read, each cut to 200 characters."""


class CorpusRecord(_Part):
    """A corpus that a split was read from, with its number of pairs before any filter."""

    split: str
    name: str
    pairs: int
    skipped: int = 0
    """Units that have no text in one of the languages."""
    source_words: int
    """Words of the pairs, or characters for languages without spaces."""
    target_words: int
    """As for the source."""
    filters: dict[str, FilterRecord] = {}
    """What each filter found in the corpus."""


class FileRecord(_Part):
    """A file of the data set."""

    lines: int
    sha256: str


class Manifest(_Part):
    """The sources of a prepared data set, the pairs that were dropped, and the files that it holds."""

    version: Literal[1] = 1
    name: str
    source_lang: LanguageCode
    target_lang: LanguageCode
    tag: Tag = ""
    licence: str = ""
    recipe: dict[str, Any]
    """The full recipe, which makes the same data set again. Addresses are without user information and query."""
    sources: list[SourceRecord]
    corpora: list[CorpusRecord] = []
    filters: dict[str, int]
    """Pairs that each filter dropped (or only counted, if the name ends in ``_kept``), in the order of the filters."""
    files: dict[str, FileRecord]
    """The text files by name: ``train.en`` and so on."""
    source_text: Steps
    """What the recipe does to source text; ``nmt translate`` repeats it."""
    target_text: Steps
    """The same for target text."""
    fingerprint: str
    """Identifies the text: data sets with the same lines have the same fingerprint."""

    @property
    def choices(self) -> dict[Choice, str]:
        """What chooses the pieces that a vocabulary adds to the lines."""
        return {"source": self.source_lang, "target": self.target_lang, "tag": self.tag}

    @property
    def synthetic(self) -> Record | None:
        """The record of the pairs that ``nmt synthesize`` made this data set of; None if another command made it.

        The file of the pairs was removed at the end: the command makes it again.
        """
        made = (part for part in self._made_from if part.kind == SYNTHETIC)
        return next((part for part in made if part.command[:2] == ("synthesize", self.name)), None)

    @property
    def _made_from(self) -> tuple[Record, ...]:
        """The records of the sources; those of both sides of another data set are one."""
        parts: list[Record] = []
        for record in (source.record() for source in self.sources):
            parts += [record] if record not in parts else []
        return tuple(parts)

    def changed_sources(self, without: Collection[str] = ()) -> list[str]:
        """The files, other than downloads, that the data set was made from, and that are gone or have changed."""
        own = (each for each in self.sources if each.url is None and each.file not in without)
        return [each.file for each in own if digest_of(Path(each.file)) != each.sha256]

    @property
    def made(self) -> Made:
        """The inputs and outputs of the data set."""
        unfetched = [source for source in self.sources if source.url is None]
        outputs = {name: record.sha256 for name, record in self.files.items()}
        return Made(data_set_inputs(self.recipe, unfetched), outputs)

    def record(self, folder: Path) -> Record:
        """The record of the data set, without the samples of dropped pairs, whose text may be private.

        Args:
            folder: of the data set.
        """
        lines = {name: self.files[f"{name}.{self.source_lang}"].lines for name in ("train", "valid", "test")}
        command: tuple[str, ...] = ("prepare-data", SETTINGS, f"--out={folder}")
        facts, settings, made_from = dict[str, Fact](), self.recipe, self._made_from
        if (pairs := self.synthetic) is not None:
            command = tuple(f"--out={folder}" if word.startswith("--out=") else word for word in pairs.command)
            others = (part for part in made_from if part is not pairs)
            facts, settings, made_from = pairs.facts, {}, (*pairs.made_from, *others)
        dropped = {name: count for name, count in self.filters.items() if count and not name.endswith("_kept")}
        return Record(
            kind="data set",
            path=str(folder),
            command=command,
            files={name: file.sha256 for name, file in self.files.items()},
            facts={
                "name": self.name,
                "languages": f"{self.source_lang} to {self.target_lang}",
                **({"tag": self.tag} if self.tag else {}),
                "licence": self.licence or "unknown",
                "fingerprint": self.fingerprint,
                **{f"{name} pairs": count for name, count in lines.items()},
                **{f"dropped by {name}": count for name, count in dropped.items()},
                **facts,
            },
            settings=settings,
            made_from=made_from,
        )


def data_set_inputs(recipe: Mapping[str, Any], unfetched: Sequence[SourceRecord]) -> dict[str, Any]:
    """The inputs of a data set, as JSON: equal inputs give the same text.

    Args:
        unfetched: the files that were not downloaded: what downloads hold is laid down by the recipe.
    """
    return {"recipe": recipe, "sources": [record.model_dump(exclude={"made_by"}) for record in unfetched]}


def fingerprint(files: dict[str, FileRecord]) -> str:
    """sha256 over the names and checksums of the files, in the order of their names."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name} {files[name].sha256}\n".encode())
    return digest.hexdigest()


def write_manifest(manifest: Manifest, folder: Path) -> None:
    """Write ``manifest.json`` into a data set's folder, atomically."""
    with replacing(DataFolder(folder).manifest) as stream:
        stream.write((manifest.model_dump_json(indent=2) + "\n").encode())


def read_manifest(folder: Path, option: str = "--data") -> Manifest:
    """Read a data set's manifest.

    Args:
        option: that names the folder, for errors.

    Raises:
        DataError: the folder holds no manifest, or one that this version cannot read.
    """
    path = DataFolder(folder).manifest
    try:
        return Manifest.model_validate_json(read_regular(path))
    except (FileNotFoundError, NotADirectoryError):
        problem = f"is not a prepared data set (no {path.name})" if os.path.lexists(folder) else "does not exist"
        raise DataError(f"{folder}: {problem}. {_what_to_name(folder, option)}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}). Name another data set with {option}.") from None
    except ValidationError as error:
        problem = next(mistakes(error.errors(), Manifest, lambda _: str(path), noun="key"))
        command = "the `nmt prepare-data` command that made it"
        # A folder is never replaced if it is not known to be a data set of this program.
        advice = (
            f"Run {command} again, with --force."
            if recorded(folder) is not None
            else f"Move {folder} away, then run {command} again."
        )
        raise DataError(f"{problem} {advice}") from None


def known_manifest(folder: Path) -> Manifest | None:
    """The manifest of a data set; None if there is none that this version can read."""
    try:
        return read_manifest(folder)
    except DataError:
        return None


def record_of_text(path: Path, sha256: str) -> Record | None:
    """The record of the data set that a file is a text of; None if it is no such file, or was changed since."""
    manifest = known_manifest(path.parent)
    text = None if manifest is None else manifest.files.get(path.name)
    return manifest.record(path.parent) if manifest and text and text.sha256 == sha256 else None


def _what_to_name(folder: Path, option: str) -> str:
    """What to name instead of a folder that is no data set."""
    if DataFolder(_DATA_SETS / folder).manifest.is_file():
        return f"Did you mean {option} {_DATA_SETS / folder}?"
    if within := data_sets_below(folder):
        return f"Name one that it holds with {option}: {listed(within, _MOST_SHOWN)}."
    known = data_sets_below(_DATA_SETS)
    return (
        f"Name the folder of a data set with {option}{f' ({listed(known, _MOST_SHOWN)})' if known else ''}, or make "
        "one: `nmt prepare-data toy-en-de` makes data/toy-en-de."
    )


class Recorded(NamedTuple):
    """What a manifest says that may be of another version."""

    name: str
    source_lang: str
    target_lang: str
    text: dict[str, str]
    """The sha256 of each text file by its name."""


def recorded(folder: Path) -> Recorded | None:
    """Read what a manifest of any version says; None if the folder holds no manifest of this program."""
    try:
        manifest = parse_json(read_regular(DataFolder(folder).manifest))
        if not {"recipe", "fingerprint"} <= manifest.keys():
            return None
        text = {str(name): str(record["sha256"]) for name, record in manifest["files"].items()}
        source, target = (well_formed(manifest[side]) for side in ("source_lang", "target_lang"))
        return Recorded(str(manifest["name"]), source, target, text)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def newest_data_set(root: Path = _DATA_SETS) -> Path:
    """The data set below ``root`` that was prepared last.

    Raises:
        DataError: there is no data set.
    """
    found = data_sets_below(root)
    if not found:
        raise DataError(
            f"no prepared data set below {root}/. Run `nmt prepare-data toy-en-de`, or name one with --data."
        )
    return found[0]


def data_sets_below(root: Path = _DATA_SETS) -> list[Path]:
    """The data sets below ``root``, the most recently prepared first."""
    # A name that begins with a dot belongs to an unfinished data set.
    folders = [folder for folder in root.glob("[!.]*") if DataFolder(folder).manifest.is_file()]
    return sorted(folders, key=lambda folder: DataFolder(folder).manifest.stat().st_mtime, reverse=True)
