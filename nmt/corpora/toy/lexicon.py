"""The words of the toy pair, English and German side by side, from the tables beside this module.

Kinds say which words go together: a verb names the kinds of its subjects and objects, an adjective the kinds of nouns
that it may describe. So every sentence makes sense to a speaker.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import resources
from typing import Literal, cast

Gender = Literal["m", "f", "n"]


@dataclass(frozen=True)
class Noun:
    """A noun that can be counted."""

    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: Gender
    kinds: frozenset[str]
    """The noun's kinds; ``owned`` if it takes a possessive, ``single`` if a person has only one (my mother)."""
    weak: str = ""
    """The ending of a weak masculine noun outside the nominative singular: der Junge, den Jungen."""


@dataclass(frozen=True)
class Adjective:
    """An adjective. German endings are added to ``stem``; ``german`` is the form without an ending."""

    english: str
    german: str
    stem: str
    kinds: frozenset[str]


@dataclass(frozen=True)
class Verb:
    """A verb. A separable ``prefix`` stands at the end of a main clause: macht ... auf."""

    english: str
    english_third: str
    english_participle: str
    german: str
    """Infinitive without the prefix; also the form of we and they."""
    first: str
    """Form of I, without the prefix."""
    third: str
    """Form of he, she and it, without the prefix."""
    participle: str
    subjects: frozenset[str]
    accusative: frozenset[str] = frozenset()
    """Kinds of the direct object; empty if there is none."""
    dative: frozenset[str] = frozenset()
    """Kinds of the object in the dative; empty if there is none."""
    prefix: str = ""
    with_sein: bool = False
    """Whether the perfect is made with sein, as of verbs of motion."""
    english_particle: str = ""
    """What belongs to the verb in English, before a noun and behind a pronoun: picks up the man, picks him up."""
    with_place: bool = False
    """Whether it may be said where it happens."""


@dataclass(frozen=True)
class Phrase:
    """Something that is said alike in all sentences."""

    english: str
    german: str


@dataclass(frozen=True)
class Saying:
    """A verb that a clause with that follows: I know that ..."""

    english: str
    english_third: str
    german: str
    first: str
    third: str


def table(name: str) -> list[dict[str, str]]:
    """The rows of a table, by the names of its columns."""
    text = (resources.files("nmt.corpora.toy") / f"{name}.tsv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))


def _kinds(names: str) -> frozenset[str]:
    return frozenset(names.split())


def _noun(row: dict[str, str]) -> Noun:
    kinds, gender = _kinds(row.pop("kinds")), cast(Gender, row.pop("gender"))
    return Noun(gender=gender, kinds=kinds, **row)


def _verb(row: dict[str, str]) -> Verb:
    subjects, accusative, dative = (_kinds(row.pop(name)) for name in ("subjects", "accusative", "dative"))
    with_sein, with_place = (row.pop(name) == "yes" for name in ("with_sein", "with_place"))
    return Verb(
        subjects=subjects, accusative=accusative, dative=dative, with_sein=with_sein, with_place=with_place, **row
    )


def _phrases(use: str) -> list[Phrase]:
    return [Phrase(row["english"], row["german"]) for row in table("phrases") if row["use"] == use]


NOUNS = [_noun(row) for row in table("nouns")]
ADJECTIVES = [Adjective(kinds=_kinds(row.pop("kinds")), **row) for row in table("adjectives")]
VERBS = [_verb(row) for row in table("verbs")]
SAYINGS = [Saying(**row) for row in table("sayings")]
PLACES = _phrases("place")
TIMES = _phrases("time")
NUMERALS = _phrases("numeral")
# Conjunctions that give a reason, and those that name a moment or a condition.
REASONS = _phrases("reason")
MOMENTS = _phrases("moment")
