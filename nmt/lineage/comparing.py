"""A record compared with what lies on disk."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import nmt
from nmt.checkpoint.bundle_files import BundleFolder
from nmt.checkpoint.lineage import AVERAGE, MODEL, TRAINING
from nmt.io.hashing import sha256_of
from nmt.machine.cache_folder import default_cache
from nmt.record import ITSELF, Fact, Record
from nmt.text.addresses import folder_parts
from nmt.text.lines import STDIN

State = Literal["unchanged", "changed", "not here", "not checked"]
_UNKNOWN = "unknown: another program"
_UNLOCATED = (
    "the folder of this path is not known, since what records it was moved, came through a pipe, or was named by an "
    "absolute path"
)


@dataclass(frozen=True)
class Lineage:
    """A record, whether its files are still the same, and the lineages of what it was made from."""

    record: Record
    name: str
    """The path of its file or folder, or the name of an archive."""
    state: State = "not checked"
    change: str = ""
    """What changed, if something did."""
    made_from: tuple[Lineage, ...] = ()
    further: Mapping[str, Fact] = field(default_factory=dict)
    """Facts that the record does not hold."""

    @property
    def why_not_checked(self) -> str:
        """Why recorded checksums were not compared with anything; empty if they were, or if there are none."""
        return _UNLOCATED if self.state == "not checked" and self.record.files and self.record.unlocated else ""

    @property
    def kind(self) -> str:
        """The kind of the record."""
        return self.record.kind

    @property
    def facts(self) -> dict[str, Fact]:
        """All facts, with the command and the checksum."""
        record = self.record
        facts: dict[str, Fact] = {**self.further, **record.facts}
        if record.command:
            facts["command"] = shlex.join(["nmt", *record.command])
        elif record.kind in (AVERAGE, MODEL, TRAINING):
            facts["made by"] = _UNKNOWN
        weights = BundleFolder(Path()).weights.name
        for label, file in (("sha256", ITSELF), ("sha256 of the weights", weights)):
            if file in record.files:
                facts[label] = record.files[file]
        return facts

    @property
    def facts_in_words(self) -> dict[str, str]:
        """The facts for people: large numbers with separators, fractions with four digits."""
        forms = {int: "{:,}", float: "{:.4g}"}
        return {label: forms.get(type(fact), "{}").format(fact) for label, fact in self.facts.items()}

    def all(self) -> Iterator[Lineage]:
        """This lineage and those within it."""
        yield self
        for part in self.made_from:
            yield from part.all()

    @property
    def changes(self) -> list[str]:
        """What changed in the whole lineage."""
        return list(dict.fromkeys(part.change for part in self.all() if part.change))

    def values(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            "kind": self.kind,
            "name": self.name,
            "facts": self.facts,
            "settings": self.record.settings,
            "state": self.state,
            "change": self.change,
            "why_not_checked": self.why_not_checked,
            "made_from": [part.values() for part in self.made_from],
        }


def lineage_of(record: Record) -> Lineage:
    """Compare a record, and all within it, with what lies on disk."""
    found = next((path for path in _places(record) if path.exists()), None)
    name = "standard input" if record.path == STDIN else str(found or record.path)
    state, change = _state({Path(name) / file: sha256 for file, sha256 in record.files.items()})
    if record.unlocated and state != "unchanged":  # Another file may lie at this path.
        state, change = "not checked", ""
    return Lineage(record, name, state, change, tuple(map(lineage_of, record.made_from)))


def _places(record: Record) -> Iterator[Path]:
    """Where it may lie: where it was, for an archive in the cache, or in this program (the toy grammar)."""
    if record.kind == "archive":
        yield default_cache().joinpath(*folder_parts(str(record.facts["url"])), record.path)
        return
    yield Path(record.path)
    if record.kind == "file":
        yield Path(nmt.__file__).parent.parent / record.path


def _state(files: Mapping[Path, str]) -> tuple[State, str]:
    """Whether files still have their recorded checksums, and what changed.

    Args:
        files: path -> sha256 in hexadecimal.
    """
    there = {path: sha256 for path, sha256 in files.items() if path.is_file()}
    if not there:
        return ("not here", "") if files else ("not checked", "")
    for path, sha256 in there.items():
        try:
            found = _sha256(path, path.stat().st_mtime_ns, path.stat().st_size)
        except OSError as error:
            return "changed", f"{path} cannot be read ({error.strerror})"
        if found != sha256:
            # The found one is not shown: the record of a stranger may name any file of the user.
            return "changed", f"the sha256 of {path} is not {sha256}, which is recorded"
    if missing := [str(path) for path in files if path not in there]:
        return "changed", f"{', '.join(missing)} is missing"
    return "unchanged", ""


@cache
def _sha256(path: Path, changed: int, size: int) -> str:
    """Of a file as it is now: several models may have the same data set, which is read once."""
    return sha256_of(path)
