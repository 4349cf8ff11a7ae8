"""Glossaries of clients, in memory."""

from __future__ import annotations

import csv
import io
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel, Field

from nmt.errors import DataError
from nmt.server.errors import RequestError
from nmt.server.models import Models
from nmt.spans.terms import Glossary, entries_of
from nmt.text.languages import primary_language

MAX_SIZE = 10_000_000
"""The maximum characters of all glossaries of an API key."""
_OBJECT = 1_000
"""Characters that a glossary, or a dictionary, counts beside its entries."""
_Pair = tuple[str, ...]
"""The source and the target language of a dictionary, without their variants: one of EN is one of EN-GB."""


class GivenDictionary(BaseModel):
    """The terms of a source and a target language, as a client writes them."""

    source_lang: str = Field(description="Language of the terms.", examples=["EN"])
    target_lang: str = Field(description="Language of their translations.", examples=["DE"])
    entries: str = Field(description="A term and its translation per line.", examples=["cat\tKatze"])
    entries_format: Literal["tsv", "csv"] = Field("tsv", description="Whether a tab or a comma is between them.")


@dataclass(frozen=True, eq=False)
class Dictionary:
    """The terms of a source and a target language."""

    source_lang: str
    target_lang: str
    """The codes of its languages, as they were given."""
    entries: Sequence[tuple[str, str]]
    """Terms, each with its translation."""

    @property
    def pair(self) -> _Pair:
        """Its languages, to find it by."""
        return _pair(self.source_lang, self.target_lang)

    @cached_property
    def terms(self) -> Glossary:
        """What translations get."""
        return Glossary(self.entries)

    @cached_property
    def size(self) -> int:
        """In characters, with all that is kept of it."""
        return _OBJECT + sum(len(source) + len(target) for source, target in self.entries)

    @property
    def tsv(self) -> str:
        """The entries, one per line, with a tab between a term and its translation."""
        return "\n".join(map("\t".join, self.entries))


@dataclass(eq=False)
class KeptGlossary:
    """A glossary: a dictionary for each pair of languages."""

    name: str
    owner: str | None
    """The API key, where one is needed."""
    dictionaries: Mapping[_Pair, Dictionary]
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    created: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def size(self) -> int:
        """In characters, with all that is kept of it."""
        return _OBJECT + len(self.name) + sum(each.size for each in self.dictionaries.values())

    def find(self, source: str, target: str, *, status: int = 404) -> Dictionary:
        """The dictionary of two languages, or of variants of them.

        Args:
            status: that of the error.

        Raises:
            RequestError: there is none.
        """
        found = self.dictionaries.get(_pair(source, target))
        if found is None:
            own = ", ".join(f"{each.source_lang} to {each.target_lang}" for each in self.dictionaries.values())
            raise RequestError(
                status, f"The glossary has no terms from {source} to {target}, but from {own or 'none'}."
            )
        return found


class Glossaries:
    """The glossaries of all API keys."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._kept: dict[str, KeptGlossary] = {}

    def read(self, given: Iterable[GivenDictionary]) -> dict[_Pair, Dictionary]:
        """Read dictionaries. Several threads may do so.

        Raises:
            RequestError: no model translates the languages of one, its entries cannot be read, or two have the same
                languages.
        """
        found: dict[_Pair, Dictionary] = {}
        for each in given:
            if self._models.find(each.source_lang, each.target_lang).is_identity:
                raise RequestError(400, "Source and target language of a glossary must differ.")
            one = Dictionary(each.source_lang, each.target_lang, _read(each))
            if found.setdefault(one.pair, one) is not one:
                raise RequestError(400, f"Two dictionaries are from {one.source_lang} to {one.target_lang}: join them.")
        return found

    def keep(self, kept: KeptGlossary, **changes: Any) -> KeptGlossary:
        """Keep a new glossary, or one with changes.

        Raises:
            RequestError: its key has too many.
        """
        changed = replace(kept, **changes)
        others = (other for other in self.of(kept.owner) if other.id != kept.id)
        if changed.size + sum(other.size for other in others) > MAX_SIZE:
            raise RequestError(
                413,
                f"All glossaries of an API key have at most {MAX_SIZE:,} characters, {_OBJECT:,} for each of them and "
                "for each dictionary included: delete some.",
            )
        self._kept[kept.id] = changed
        return changed

    def of(self, owner: str | None) -> list[KeptGlossary]:
        """The glossaries of an API key."""
        return [kept for kept in self._kept.values() if kept.owner == owner]

    def find(self, id: str, owner: str | None) -> KeptGlossary:
        """A glossary of an API key.

        Raises:
            RequestError: there is none.
        """
        found = self._kept.get(id)
        if found is None or found.owner != owner:
            raise RequestError(404, "Not found: this glossary was never created, or deleted, or lost by a restart.")
        return found

    def drop(self, kept: KeptGlossary) -> None:
        """Forget a glossary. Translations that have begun still get its terms."""
        del self._kept[kept.id]


def merged(old: Mapping[_Pair, Dictionary], new: Mapping[_Pair, Dictionary]) -> dict[_Pair, Dictionary]:
    """Dictionaries with the entries of others added. A term of both has the translation of the others."""
    both = dict(old)
    for pair, one in new.items():
        entries = dict(old[pair].entries) | dict(one.entries) if pair in old else dict(one.entries)
        both[pair] = Dictionary(one.source_lang, one.target_lang, list(entries.items()))
    return both


def _pair(source: str, target: str) -> _Pair:
    return primary_language(source), primary_language(target)


def _read(given: GivenDictionary) -> list[tuple[str, str]]:
    try:
        if given.entries_format == "tsv":
            return entries_of((line.split("\t") for line in given.entries.split("\n")), "entries")
        rows = csv.reader(io.StringIO(given.entries, newline=""), strict=True)
        # Two more fields may name the languages.
        return entries_of((row[:2] if len(row) == 4 else row for row in rows), "entries", separator=",")
    except (DataError, csv.Error) as error:
        raise RequestError(400, f"Invalid glossary entries: {error}") from None
