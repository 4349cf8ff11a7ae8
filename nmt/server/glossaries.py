"""Glossaries of clients, in memory."""

from __future__ import annotations

import csv
import io
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Literal

from nmt.errors import DataError
from nmt.server.errors import RequestError
from nmt.server.models import Direction, Models
from nmt.spans.terms import Glossary, entries_of
from nmt.text.languages import primary_language

EntriesFormat = Literal["tsv", "csv"]
MAX_SIZE = 10_000_000
"""The maximum characters of all glossaries of an API key."""
_OBJECT = 1_000
"""Characters that a glossary counts beside its entries."""


@dataclass(frozen=True, eq=False)
class KeptGlossary:
    """A glossary."""

    name: str
    source_lang: str
    target_lang: str
    """The codes of its languages, as they were given."""
    entries: Sequence[tuple[str, str]]
    """Terms, each with its translation."""
    owner: str | None
    """The API key, where one is needed."""
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    created: datetime = field(default_factory=lambda: datetime.now(UTC))

    @cached_property
    def terms(self) -> Glossary:
        """What translations get."""
        return Glossary(self.entries)

    @cached_property
    def size(self) -> int:
        """In characters, with all that is kept of it."""
        return _OBJECT + len(self.name) + sum(len(source) + len(target) for source, target in self.entries)

    @property
    def tsv(self) -> str:
        """The entries, one per line, with a tab between a term and its translation."""
        return "\n".join(map("\t".join, self.entries))

    def check(self, direction: Direction) -> None:
        """Check that it has the languages of a direction. Their variants do not matter: one of EN is one of EN-GB.

        Raises:
            RequestError: it has others.
        """
        own, asked = (self.source_lang, self.target_lang), (direction.source, direction.target)
        if list(map(primary_language, own)) != list(map(primary_language, asked)):
            raise RequestError(
                400, f"The glossary is from {' to '.join(own)}, and the translation from {' to '.join(asked)}."
            )


class Glossaries:
    """The glossaries of all API keys."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._kept: dict[str, KeptGlossary] = {}

    def add(
        self,
        name: str,
        source_lang: str,
        target_lang: str,
        entries: str,
        entries_format: EntriesFormat,
        owner: str | None,
    ) -> KeptGlossary:
        """Keep a glossary.

        Raises:
            RequestError: no model translates its languages, its entries cannot be read, or its key has too many.
        """
        direction = self._models.find(source_lang, target_lang)
        if direction.is_identity:
            raise RequestError(400, "Source and target language of a glossary must differ.")
        kept = KeptGlossary(name, source_lang, target_lang, _read(entries, entries_format), owner)
        if kept.size + sum(other.size for other in self.of(owner)) > MAX_SIZE:
            raise RequestError(
                413,
                f"All glossaries of an API key have at most {MAX_SIZE:,} characters, {_OBJECT:,} for each of them "
                "included: delete some.",
            )
        self._kept[kept.id] = kept
        return kept

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


def _read(entries: str, entries_format: EntriesFormat) -> list[tuple[str, str]]:
    try:
        if entries_format == "tsv":
            return entries_of((line.split("\t") for line in entries.split("\n")), "entries")
        # Two more fields may name the languages.
        rows = (row[:2] if len(row) == 4 else row for row in csv.reader(io.StringIO(entries, newline=""), strict=True))
        return entries_of(rows, "entries", separator=",")
    except (DataError, csv.Error) as error:
        raise RequestError(400, f"Invalid glossary entries: {error}") from None
