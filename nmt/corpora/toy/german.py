"""German forms: articles and adjective endings by gender, number and case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nmt.corpora.toy.lexicon import Adjective, Noun, table

Case = Literal["nominative", "accusative", "dative"]

# By declension, word (article or adjective) and case: the endings by gender, and that of the plural. The definite
# article has no stem. After it and after dieser, which show the case themselves, adjectives are weak; after ein and its
# like, which show it only in part, mixed; after a numeral, which shows nothing, strong.
_ENDINGS = {(row["declension"], row["word"], row["case"]): row for row in table("endings")}


@dataclass(frozen=True)
class Determiner:
    """An article, a demonstrative, a possessive or a numeral, in both languages."""

    english: str
    english_plural: str
    german: str
    """Its stem."""
    declension: Literal["definite", "demonstrative", "ein", "numeral"]

    @property
    def is_indefinite(self) -> bool:
        """Whether it is a or an, which kein negates."""
        return self.german == "ein"


THE = Determiner("the", "the", "", "definite")
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
    column = "plural" if plural else noun.gender
    article, ending = (_ENDINGS[determiner.declension, word, case][column] for word in ("article", "adjective"))
    words = [determiner.german + article]
    if adjective is not None:
        words.append(adjective.stem + ending)
    return " ".join([*words, declined(noun, plural=plural, case=case)])


def declined(noun: Noun, *, plural: bool, case: Case) -> str:
    """The noun's form: -n in the dative plural, and the weak masculine ending."""
    if plural:
        adds_n = case == "dative" and not noun.german_plural.endswith(("n", "s"))
        return noun.german_plural + ("n" if adds_n else "")
    return noun.german if case == "nominative" else noun.german + noun.weak
