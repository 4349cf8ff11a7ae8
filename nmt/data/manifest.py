"""What a prepared data set says of itself: ``manifest.json`` beside its text."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from nmt.addresses import public_address
from nmt.config import mistakes
from nmt.config.documents import parse_json
from nmt.data.data_folder import DataFolder
from nmt.errors import DataError
from nmt.files import replacing
from nmt.ownership import Kind


class Record(BaseModel):
    """A part of the manifest."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SourceRecord(Record):
    """A file that the data set was made from."""

    file: str
    url: Annotated[str, AfterValidator(public_address)] | None = None
    """Without user information and query."""
    sha256: str
    bytes: int


class CorpusRecord(Record):
    """A corpus that a split was read from, before any filter."""

    split: str
    name: str
    pairs: int


class FileRecord(Record):
    """A file of the data set."""

    lines: int
    sha256: str


class Manifest(Record):
    """Where a prepared data set comes from, what was dropped on the way, and what it holds."""

    version: int = 1
    name: str
    source_lang: str
    target_lang: str
    licence: str = ""
    recipe: dict[str, Any]
    """The recipe, whole: run again, it gives the same data set. Addresses are without user information and queries."""
    sources: list[SourceRecord]
    corpora: list[CorpusRecord] = []
    filters: dict[str, int]
    """Pairs that each filter dropped (or only counted, if the name ends in ``_kept``), in the order of the filters."""
    files: dict[str, FileRecord]
    """``train.en`` and so on."""
    nfc: bool
    punctuation: bool
    """Normalisation of source text, which translate does again."""
    fingerprint: str
    """Of the text alone: two data sets with the same lines have the same."""


def fingerprint(files: dict[str, FileRecord]) -> str:
    """sha256 over the names and checksums of the files, in the order of their names."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name} {files[name].sha256}\n".encode())
    return digest.hexdigest()


def write_manifest(manifest: Manifest, folder: Path) -> None:
    """Write ``manifest.json`` into a data set's folder, whole or not at all."""
    with replacing(DataFolder(folder).manifest) as stream:
        stream.write((manifest.model_dump_json(indent=2) + "\n").encode())


def read_manifest(folder: Path) -> Manifest:
    """Read a data set's manifest.

    Raises:
        DataError: the folder holds none, or one that this version cannot read.
    """
    path = DataFolder(folder).manifest
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(
            f"{folder}: is not a prepared data set (no {path.name}). Name the folder of one with --data, "
            "or make one: `nmt prepare-data toy-en-de` makes data/toy-en-de."
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}). Name another data set with --data.") from None
    except ValidationError as error:
        problem = next(mistakes(error.errors(), Manifest, lambda _: str(path), noun="key"))
        command = "the `nmt prepare-data` command that made it"
        # A folder that is not known as a data set of ours is never replaced.
        advice = (
            f"Run {command} again, with --force."
            if DATA_SET.is_ours(folder)
            else f"Move {folder} away, then run {command} again."
        )
        raise DataError(f"{problem} {advice}") from None


def recorded_text(folder: Path) -> dict[str, str] | None:
    """The sha256 of each file of a data set's text, as its manifest tells it, even if of another version.

    Returns:
        None where the folder holds no manifest of ours.
    """
    try:
        manifest = parse_json(DataFolder(folder).manifest.read_bytes())
        if not {"recipe", "source_lang", "target_lang", "fingerprint"} <= manifest.keys():
            return None
        return {str(name): str(record["sha256"]) for name, record in manifest["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def recorded_name(folder: Path) -> tuple[str, str, str] | None:
    """The name and the two languages of a data set, as its manifest tells them, even if of another version.

    Returns:
        None where the folder holds no manifest that tells them.
    """
    try:
        manifest = parse_json(DataFolder(folder).manifest.read_bytes())
        return str(manifest["name"]), str(manifest["source_lang"]), str(manifest["target_lang"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


DATA_SET = Kind("a data set", lambda folder: recorded_text(folder) is not None, is_folder=True)


def newest_data_set(root: Path = Path("data")) -> Path:
    """The data set below a folder that was prepared last.

    Raises:
        DataError: there is none.
    """
    found = data_sets_below(root)
    if not found:
        raise DataError(
            f"no prepared data set below {root}/. Run `nmt prepare-data toy-en-de`, or name one with --data."
        )
    return found[0]


def data_sets_below(root: Path) -> list[Path]:
    """The data sets below a folder, the one that was prepared last first."""
    # A folder with a dot is one that prepare-data has not finished.
    folders = [folder for folder in root.glob("[!.]*") if DataFolder(folder).manifest.is_file()]
    return sorted(folders, key=lambda folder: DataFolder(folder).manifest.stat().st_mtime, reverse=True)
