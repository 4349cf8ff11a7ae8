"""A record: what something is, the command that made it, and what it was made from.

Every command stores the record of what it writes: a copy of the records of its inputs lies within, so a copied bundle
or the JSON of a score leads back to the archives. Records hold no text of a corpus, no date and no password.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field, ValidationError

from nmt.config import Section, first_mistake
from nmt.config.documents import parse_json
from nmt.errors import DataError
from nmt.io.files import record_name, replacing
from nmt.io.regular import read_regular
from nmt.text.printable import writable

RECORD = "record"
"""The record's name in the file of a record, and in the notes of a bundle."""

SETTINGS = "settings.yaml"
"""In a command, the name of the file that holds :attr:`Record.settings`."""
ITSELF = "."
"""In :attr:`Record.files`, the name of the file that :attr:`Record.path` is."""

_VERSION = 1
"""Of the file of a record."""

PATHS = frozenset(
    f"--{name}"
    for name in (
        "config", "data", "vocab", "out", "init-from", "model", "input", "prefix", "target", "glossary", "output",
        "reference", "source", "comet-model", "mono", "scored-by",
        "teacher-request",
    )
)  # fmt: skip
"""The options of recorded commands whose values are paths."""

Fact = str | int | float
Text = Annotated[str, BeforeValidator(lambda value: writable(value) if isinstance(value, str) else value)]
"""Text that may be the name of a file. Bytes in it that are no UTF-8 are shown as ``\\udcff``."""


class Record(Section):
    """A record. Paths are relative to the folder in which the command was run, or absolute."""

    kind: str
    """Such as ``data set`` or ``translation``."""
    path: Text
    """Where it was written or read, or the name of an archive."""
    unlocated: bool = False
    """Whether the folder that :attr:`path` is relative to is not known: the result that holds this record was moved,
    came through a pipe, or was named by an absolute path."""
    command: tuple[Text, ...] = ()
    """The words of the command, behind ``nmt``, with every choice resolved; empty if no command of nmt made it. Options
    are ``--name=value``. A path is that of this record or of a record in :attr:`made_from`, or lies within one."""
    files: dict[str, str] = Field(default_factory=dict)
    """The sha256 of each file, by its name within :attr:`path`; empty for what came through a pipe."""
    facts: dict[str, Fact] = Field(default_factory=dict)
    """For readers."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """The content of the settings or the recipe that the command reads, as JSON values."""
    made_from: tuple[Record, ...] = ()

    def stored(self) -> dict[str, Any]:
        """The record as JSON values, without what is empty."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def all(self) -> Iterator[Record]:
        """This record and all within it."""
        yield self
        for part in self.made_from:
            yield from part.all()

    def words(self, place: Callable[[Record], str]) -> Iterator[str]:
        """The words of the command, with the path of each record replaced. Other paths stay as they are.

        Args:
            place: gives the path of a record, of this one or one in :attr:`made_from`.
        """
        yield from self.command[:1]
        # Elsewhere, settings.yaml is a file of the user.
        of_settings = SETTINGS if self.command[:1] == ("prepare-data",) else f"--config={SETTINGS}"
        for word in self.command[1:]:
            name, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
            named = [part for part in (*self.made_from, self) if _is_within(value, part.path)]
            if word == of_settings or (name and name not in PATHS) or not named:
                yield word
                continue
            part = max(named, key=lambda part: len(part.path))
            rest = f"/{value}" if part.path == "." != value else value[len(part.path) :]
            yield f"{name}{equals}{place(part)}{rest}"

    def as_found(self, place: Path) -> Record:
        """The record with paths relative to the current folder.

        Args:
            place: where its file or folder lies now. If it was moved, the other paths are :attr:`unlocated`.
        """
        path = writable(str(place))
        if path == self.path and not place.is_absolute():  # by the words of its command, which may hold ``..``
            return self
        record = self.below(root_of(place, self.path))
        if record.path == path:
            return record.model_copy(update={"unlocated": False})
        moved = record.model_copy(update={"path": path, "unlocated": False})
        return moved.model_copy(
            update={"command": tuple(record.words(lambda part: (moved if part is record else part).path))}
        )

    def below(self, root: Path | None) -> Record:
        """The record with paths relative to the current folder.

        Args:
            root: the folder that they were relative to; None if it is not known.
        """
        if root == Path():
            return self
        made_from = tuple(part.below(root) for part in self.made_from)
        if root is None:
            return self.model_copy(update={"unlocated": self.unlocated or self._follows_root, "made_from": made_from})
        return self.model_copy(
            update={
                "path": self._path_below(root),
                "command": tuple(self.words(lambda part: part._path_below(root))),
                "made_from": made_from,
            }
        )

    @property
    def _follows_root(self) -> bool:
        is_elsewhere = self.kind in ("archive", "file") or not (self.files or self.command or self.made_from)
        return not (self.unlocated or is_elsewhere or Path(self.path).is_absolute())

    def _path_below(self, root: Path) -> str:
        return str(root / self.path) if self._follows_root else self.path


def _is_within(value: str, path: str) -> bool:
    """Whether a path in a command is that of a record, or lies within it; a weight may follow (``data/a:2``)."""
    if path == ".":
        return not value.startswith(("/", ".."))
    return f"{value}/".startswith((f"{path}/", f"{path}:"))


def root_of(place: Path, path: str) -> Path | None:
    """The folder in which a command was run; None if that is not known.

    Args:
        place: where a file or folder lies now.
        path: its recorded path.
    """
    found, recorded = place.resolve(), Path(path)
    if recorded.is_absolute() or found.parts[-len(recorded.parts) :] != recorded.parts:
        return None
    root, here = Path(*found.parts[: -len(recorded.parts)]), Path.cwd().resolve()
    return root.relative_to(here) if root.is_relative_to(here) else root


def parse_record(values: Any, name: str) -> Record:
    """A record from its JSON values.

    Args:
        name: of its file, for the error.

    Raises:
        DataError: the values are not those of a record.
    """
    try:
        return Record.model_validate(values)
    except ValidationError as error:
        raise DataError(f"{name}: its lineage is damaged: {first_mistake(error)}") from None


def option_words(options: Mapping[str, object]) -> Iterator[str]:
    """Options as words of a command: ``--name=value``, repeated for a list; ``--name`` or ``--no-name`` for a switch;
    none for None."""
    for name, value in options.items():
        word = name.replace("_", "-")
        if isinstance(value, list | tuple):
            yield from (f"--{word}={each}" for each in value)
        elif isinstance(value, bool):
            yield f"--{word}" if value else f"--no-{word}"
        elif value is not None:
            yield f"--{word}={value}"


def text_record(kind: str, path: str, sha256: str | None, **facts: Fact) -> Record:
    """The record of one file.

    Args:
        sha256: None if the file was a pipe, which cannot be read again.
    """
    return Record(kind=kind, path=path, files={} if sha256 is None else {ITSELF: sha256}, facts=facts)


def file_record(kind: str, path: Path, sha256: str | None, **facts: Fact) -> Record:
    """The record of a file, with all behind it if nmt wrote the file and it was not changed since.

    Args:
        kind: of a file that nmt did not write.
        sha256: as for :func:`text_record`.
    """
    made = recorded_output(path)
    if made is None or made.files[ITSELF] != sha256:
        return text_record(kind, str(path), sha256, **facts)
    return made.as_found(path).model_copy(update={"facts": {**made.facts, **facts}})


class Stored(NamedTuple):
    """The content of the file of a record."""

    record: Record
    values: Mapping[str, Any]
    """What lies beside the record: ``bytes`` of a complete output, or what is ``written`` of a partial one."""


def read_stored(path: Path) -> Stored | None:
    """The file of a record; None if it does not exist, or is damaged or something else."""
    try:
        values = parse_json(read_regular(path))
        return Stored(parse_record(values[RECORD], str(path)), values)
    except (OSError, ValueError, TypeError, LookupError, DataError):
        return None


def write_stored(path: Path, record: Record, beside: Mapping[str, Any]) -> None:
    """Write the file of a record.

    Raises:
        WriteError: it could not be written.
    """
    with replacing(path) as stream:
        values = {"version": _VERSION, RECORD: record.stored(), **beside}
        stream.write(json.dumps(values, indent=2).encode() + b"\n")


def recorded_output(path: Path) -> Record | None:
    """The record of an output, complete or changed since; None if nmt did not write the file."""
    stored = read_stored(record_name(path))
    return None if stored is None or ITSELF not in stored.record.files else stored.record
