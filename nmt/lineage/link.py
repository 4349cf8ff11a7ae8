"""A link of the chain from archives to a score: what it is, what it was made from, and whether it is still the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from nmt.io.hashing import sha256_of
from nmt.lineage.facts import Facts, json_values

Kind = Literal[
    "score", "translation", "text", "model", "checkpoint", "data set", "vocabulary", "archive", "file", "exported model"
]
State = Literal["unchanged", "changed", "not here", "not checked"]


@dataclass(frozen=True)
class Link:
    """One link. What it was made from follows it."""

    kind: Kind
    name: str
    """A path, or the name of an archive; a file is one of the user's own, or of this program."""
    facts: Facts = field(default_factory=dict)
    state: State = "not checked"
    change: str = ""
    """What changed, if something did."""
    made_from: tuple[Link, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)
    """What the script needs to make it again."""

    def all(self) -> Iterator[Link]:
        """This link and all before it in the chain."""
        yield self
        for link in self.made_from:
            yield from link.all()

    def values(self) -> dict[str, Any]:
        """Everything but the record as JSON values."""
        return {
            "kind": self.kind,
            "name": self.name,
            "facts": json_values(self.facts),
            "state": self.state,
            "change": self.change,
            "made_from": [link.values() for link in self.made_from],
        }


def state_of(files: Mapping[Path, str]) -> tuple[State, str]:
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
            return "changed", f"the sha256 of {path} is {found}, but {sha256} is recorded"
    if missing := [str(path) for path in files if path not in there]:
        return "changed", f"{', '.join(missing)} is missing"
    return "unchanged", ""


@cache
def _sha256(path: Path, changed: int, size: int) -> str:
    """Of a file as it is now: several models may have the same data set, which is read once."""
    return sha256_of(path)


def entries_of(value: object) -> Sequence[Mapping[str, Any]]:
    """The mappings in a list of JSON; none if it is no list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def mapping_of(value: object) -> Mapping[str, Any]:
    """A mapping of JSON; an empty one if it is none."""
    return value if isinstance(value, dict) else {}
