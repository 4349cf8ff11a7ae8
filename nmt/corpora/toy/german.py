"""German forms: articles and adjective endings by gender, number and case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nmt.corpora.toy.lexicon import Adjective, Noun

Case = Literal["nominative", "accusative", "dative"]

# Columns: masculine, feminine, neuter, plural.
_COLUMN = {"m": 0, "f": 1, "n": 2, "plural": 3}

_DEFINITE: dict[Case, tuple[str, ...]] = {
    "nominative": ("der", "die", "das", "die"),
    "accusative": ("den", "die", "das", "die"),
    "dative": ("dem", "der", "dem", "den"),
}
# dieser, diese, dieses
_DEMONSTRATIVE_ENDING: dict[Case, tuple[str, ...]] = {
    "nominative": ("er", "e", "es", "e"),
    "accusative": ("en", "e", "es", "e"),
    "dative": ("em", "er", "em", "en"),
}
# ein, kein, mein, unser
_EIN_ENDING: dict[Case, tuple[str, ...]] = {
    "nominative": ("", "e", "", "e"),
    "accusative": ("en", "e", "", "e"),
    "dative": ("em", "er", "em", "en"),
}
# After der and dieser, which show the case themselves.
_WEAK: dict[Case, tuple[str, ...]] = {
    "nominative": ("e", "e", "e", "en"),
    "accusative": ("en", "e", "e", "en"),
    "dative": ("en", "en", "en", "en"),
}
# After ein and its like, which show it only in part.
_MIXED: dict[Case, tuple[str, ...]] = {
    "nominative": ("er", "e", "es", "en"),
    "accusative": ("en", "e", "es", "en"),
    "dative": ("en", "en", "en", "en"),
}
# After a numeral, which shows nothing; in the plural alone.
_STRONG_PLURAL: dict[Case, str] = {"nominative": "e", "accusative": "e", "dative": "en"}


@dataclass(frozen=True)
class Determiner:
    """An article, a demonstrative, a possessive or a numeral, in both languages."""

    english: str
    english_plural: str
    german: str
    declension: Literal["definite", "demonstrative", "ein", "numeral"]

    @property
    def is_indefinite(self) -> bool:
        """Whether it is a or an, which kein negates."""
        return self.german == "ein"


THE = Determiner("the", "the", "der", "definite")
THIS = Determiner("this", "these", "dies", "demonstrative")
A = Determiner("a", "", "ein", "ein")
NO = Determiner("a", "", "kein", "ein")
POSSESSIVES = [
    Determiner("my", "my", "mein", "ein"),
    Determiner("his", "his", "sein", "ein"),
    Determiner("our", "our", "unser", "ein"),
    Determiner("their", "their", "ihr", "ein"),
]


def noun_phrase(determiner: Determiner, adjective: Adjective | None, noun: Noun, *, plural: bool, case: Case) -> str:
    """Determiner, adjective and noun, agreeing in gender, number and case."""
    column = _COLUMN["plural" if plural else noun.gender]
    words = [_article(determiner, case, column)]
    if adjective is not None:
        words.append(adjective.stem + _adjective_ending(determiner, case, column))
    return " ".join([*words, declined(noun, plural=plural, case=case)])


def _article(determiner: Determiner, case: Case, column: int) -> str:
    match determiner.declension:
        case "definite":
            return _DEFINITE[case][column]
        case "demonstrative":
            return determiner.german + _DEMONSTRATIVE_ENDING[case][column]
        case "ein":
            return determiner.german + _EIN_ENDING[case][column]
        case "numeral":
            return determiner.german


def _adjective_ending(determiner: Determiner, case: Case, column: int) -> str:
    match determiner.declension:
        case "definite" | "demonstrative":
            return _WEAK[case][column]
        case "ein":
            return _MIXED[case][column]
        case "numeral":
            return _STRONG_PLURAL[case]


def declined(noun: Noun, *, plural: bool, case: Case) -> str:
    """The noun's form: -n in the dative plural, and the weak masculine ending."""
    if plural:
        adds_n = case == "dative" and not noun.german_plural.endswith(("n", "s"))
        return noun.german_plural + ("n" if adds_n else "")
    return noun.german if case == "nominative" else noun.german + noun.weak
