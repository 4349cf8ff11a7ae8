"""Sentences of both languages from one derivation: a synchronous grammar.

Every part of a sentence is drawn once and then written in both languages. English keeps its word order. German puts
the finite verb second in a main clause, first in a question and last in a subordinate clause; the rest of the verb
(prefix, participle, infinitive) is at the end.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from nmt.corpora.toy.german import NO, POSSESSIVES, THE, THIS, A, Case, Determiner, noun_phrase
from nmt.corpora.toy.lexicon import (
    ADJECTIVES,
    MOMENTS,
    NOUNS,
    NUMERALS,
    PLACES,
    REASONS,
    SAYINGS,
    TIMES,
    VERBS,
    Adjective,
    Noun,
    Phrase,
    Verb,
)

Tense = Literal["present", "perfect", "can", "must", "want", "will"]
Person = Literal["first", "third", "plural"]

_TENSES: list[Tense] = ["present", "perfect", "can", "must", "want", "will"]


@dataclass(frozen=True)
class Nominal:
    """A noun phrase, or a pronoun, as subject or object."""

    noun: Noun | None = None
    determiner: Determiner = THE
    adjective: Adjective | None = None
    plural: bool = False
    pronoun: str = ""
    """English subject form, where there is no noun."""

    @property
    def person(self) -> Person:
        """The person that the verb agrees with; we and they share the plural forms."""
        if self.noun is None:
            return _PRONOUNS[self.pronoun].person
        return "plural" if self.plural else "third"

    def english(self, *, is_subject: bool = False) -> str:
        """The English phrase, with a or an as the next sound requires."""
        if self.noun is None:
            return self.pronoun if is_subject else _PRONOUNS[self.pronoun].english_object
        words = [self.noun.english_plural if self.plural else self.noun.english]
        if self.adjective is not None:
            words.insert(0, self.adjective.english)
        article = self.determiner.english_plural if self.plural else self.determiner.english
        if article == "a" and words[0][0] in "aeiou":
            article = "an"
        return " ".join([article, *words])

    def german(self, case: Case) -> str:
        """The German phrase in a case."""
        if self.noun is None:
            return _PRONOUNS[self.pronoun].german[case]
        return noun_phrase(self.determiner, self.adjective, self.noun, plural=self.plural, case=case)


@dataclass(frozen=True)
class _Pronoun:
    person: Person
    english_object: str
    german: dict[Case, str]


def _pronoun(person: Person, english_object: str, nominative: str, accusative: str, dative: str) -> _Pronoun:
    return _Pronoun(person, english_object, {"nominative": nominative, "accusative": accusative, "dative": dative})


_PRONOUNS = {
    "I": _pronoun("first", "me", "ich", "mich", "mir"),
    "he": _pronoun("third", "him", "er", "ihn", "ihm"),
    "she": _pronoun("third", "her", "sie", "sie", "ihr"),
    "we": _pronoun("plural", "us", "wir", "uns", "uns"),
    "they": _pronoun("plural", "them", "sie", "sie", "ihnen"),
}

_MODALS: dict[Tense, dict[Person, str]] = {
    "can": {"first": "kann", "third": "kann", "plural": "können"},
    "must": {"first": "muss", "third": "muss", "plural": "müssen"},
    "want": {"first": "will", "third": "will", "plural": "wollen"},
    "will": {"first": "werde", "third": "wird", "plural": "werden"},
}
_HABEN: dict[Person, str] = {"first": "habe", "third": "hat", "plural": "haben"}
_SEIN: dict[Person, str] = {"first": "bin", "third": "ist", "plural": "sind"}
_BE: dict[Person, str] = {"first": "am", "third": "is", "plural": "are"}


@dataclass(frozen=True)
class Clause:
    """Who does what to whom, when and where."""

    subject: Nominal
    verb: Verb
    tense: Tense = "present"
    accusative: Nominal | None = None
    dative: Nominal | None = None
    time: Phrase | None = None
    place: Phrase | None = None
    negated: bool = False

    def english(self, *, time_first: bool = False) -> list[str]:
        """The words of a statement."""
        words = [self.subject.english(is_subject=True), *self._english_verb(), *self._english_rest(time_first)]
        return [self.time.english, *words] if time_first and self.time else words

    def english_question(self) -> list[str]:
        """The words of a yes-no question."""
        auxiliary, verb = self._english_question_verb()
        return [auxiliary, self.subject.english(is_subject=True), verb, *self._english_rest(time_first=False)]

    def _english_verb(self) -> list[str]:
        verb, singular = self.verb, self.subject.person == "third"
        if self.tense == "perfect":
            return ["has" if singular else "have", *(["not"] if self.negated else []), verb.english_participle]
        if self.tense == "want":
            if self.negated:
                return ["does not" if singular else "do not", "want to", verb.english]
            return ["wants to" if singular else "want to", verb.english]
        if self.tense == "can":
            return ["cannot" if self.negated else "can", verb.english]
        if self.tense in ("must", "will"):
            return [self.tense, *(["not"] if self.negated else []), verb.english]
        if self.negated:
            return ["does not" if singular else "do not", verb.english]
        return [verb.english_third if singular else verb.english]

    def _english_question_verb(self) -> tuple[str, str]:
        singular = self.subject.person == "third"
        if self.tense == "perfect":
            return "has" if singular else "have", self.verb.english_participle
        if self.tense in ("can", "must", "will"):
            return self.tense, self.verb.english
        wanting = "want to " if self.tense == "want" else ""
        return "does" if singular else "do", wanting + self.verb.english

    def _english_rest(self, time_first: bool) -> list[str]:
        nominals = [nominal for nominal in (self.dative, self.accusative) if nominal is not None]
        objects = [nominal.english() for nominal in nominals]
        if self.verb.english_particle:
            objects.insert(1 if nominals[0].noun is None else 0, self.verb.english_particle)
        when = [self.time.english] if self.time and not time_first else []
        return [*objects, *([self.place.english] if self.place else []), *when]

    def german(self, order: Literal["statement", "time first", "question", "subordinate"]) -> list[str]:
        """The words, with the finite verb in the place that the word order requires."""
        subject = self.subject.german("nominative")
        finite, end = self._german_verb()
        if order == "time first":
            assert self.time is not None
            return [self.time.german, finite, subject, *replace(self, time=None)._german_middle(), *end]
        middle = self._german_middle()
        if order == "statement":
            return [subject, finite, *middle, *end]
        if order == "question":
            return [finite, subject, *middle, *end]
        # In a subordinate clause the finite verb comes last, and a prefix stays with it.
        if self.verb.prefix and self.tense == "present":
            return [subject, *middle, self.verb.prefix + finite]
        return [subject, *middle, *end, finite]

    def _german_verb(self) -> tuple[str, list[str]]:
        """The finite verb of a main clause, and the verb's words at the end of the clause."""
        verb, person = self.verb, self.subject.person
        if self.tense == "perfect":
            return (_SEIN if verb.with_sein else _HABEN)[person], [verb.participle]
        if self.tense != "present":
            return _MODALS[self.tense][person], [verb.prefix + verb.german]
        finite = {"first": verb.first, "third": verb.third, "plural": verb.german}[person]
        return finite, [verb.prefix] if verb.prefix else []

    def _german_middle(self) -> list[str]:
        """The words between the verb's two parts: pronouns, time, dative, accusative, nicht, place."""
        both: tuple[tuple[Nominal | None, Case], ...] = ((self.dative, "dative"), (self.accusative, "accusative"))
        objects = [(nominal, case) for nominal, case in both if nominal is not None]
        is_kein = bool(self.negated and objects and objects[-1][0].determiner.is_indefinite)
        if is_kein:
            nominal, case = objects[-1]
            objects[-1] = (replace(nominal, determiner=NO), case)
        pronouns = [nominal.german(case) for nominal, case in objects if nominal.noun is None]
        phrases = [nominal.german(case) for nominal, case in objects if nominal.noun is not None]
        return [
            *pronouns,
            *([self.time.german] if self.time else []),
            *phrases,
            *(["nicht"] if self.negated and not is_kein else []),
            *([self.place.german] if self.place else []),
        ]


class SentenceGenerator:
    """Draws random sentence pairs."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def sentence(self) -> tuple[str, str]:
        """An English sentence and its German one."""
        kind = self._random.choices(
            [self._statement, self._fronted, self._question, self._with_subordinate, self._subordinate_first,
             self._saying, self._description],
            weights=[34, 14, 12, 14, 8, 10, 8],
        )[0]  # fmt: skip
        return kind()

    def _statement(self) -> tuple[str, str]:
        clause = self._clause()
        return _written(clause.english()), _written(clause.german("statement"))

    def _fronted(self) -> tuple[str, str]:
        clause = self._clause(with_time=True)
        return _written(clause.english(time_first=True)), _written(clause.german("time first"))

    def _question(self) -> tuple[str, str]:
        clause = replace(self._clause(), negated=False)
        return _written(clause.english_question(), "?"), _written(clause.german("question"), "?")

    def _with_subordinate(self) -> tuple[str, str]:
        conjunction = self._random.choice([*REASONS, *MOMENTS])
        main, other = self._joined_clauses(conjunction)
        english = [*main.english(), conjunction.english, *other.english()]
        german = [*main.german("statement"), ",", conjunction.german, *other.german("subordinate")]
        return _written(english), _written(german)

    def _subordinate_first(self) -> tuple[str, str]:
        conjunction = self._random.choice([*REASONS[1:], *MOMENTS])
        main, first = self._joined_clauses(conjunction)
        english = [conjunction.english, *first.english(), ",", *main.english()]
        german = [conjunction.german, *first.german("subordinate"), ",", *main.german("question")]
        return _written(english), _written(german)

    def _saying(self) -> tuple[str, str]:
        speaker, clause = self._subject(frozenset({"person"})), self._short_clause()
        saying = self._random.choice(SAYINGS)
        says = saying.english_third if speaker.person == "third" else saying.english
        sagt = {"first": saying.first, "third": saying.third, "plural": saying.german}[speaker.person]
        english = [speaker.english(is_subject=True), says, "that", *clause.english()]
        german = [speaker.german("nominative"), sagt, ",", "dass", *clause.german("subordinate")]
        return _written(english), _written(german)

    def _description(self) -> tuple[str, str]:
        """Somebody or something is old: the adjective without an ending."""
        adjective = self._random.choice(ADJECTIVES)
        subject = self._nominal(adjective.kinds, determiners=[THE, THE, THIS, *POSSESSIVES])
        subject = replace(subject, adjective=None)
        negation = self._random.random() < 0.3
        english = [subject.english(), _BE[subject.person], *(["not"] if negation else []), adjective.english]
        german = [
            subject.german("nominative"),
            _SEIN[subject.person],
            *(["nicht"] if negation else []),
            adjective.german,
        ]
        return _written(english), _written(german)

    def _clause(self, *, with_time: bool = False) -> Clause:
        choose = self._random
        verb = choose.choice(VERBS)
        negated = choose.random() < 0.2
        has_place = verb.with_place and not negated and choose.random() < 0.4
        clause = Clause(
            subject=self._subject(verb.subjects),
            verb=verb,
            tense=choose.choices(_TENSES, weights=[8, 4, 2, 2, 2, 2])[0],
            accusative=self._object(verb.accusative, negated) if verb.accusative else None,
            dative=self._object(verb.dative, negated) if verb.dative else None,
            time=choose.choice(TIMES) if with_time or choose.random() < 0.35 else None,
            place=choose.choice(PLACES) if has_place else None,
            negated=negated,
        )
        return _sensible(clause)

    def _joined_clauses(self, conjunction: Phrase) -> tuple[Clause, Clause]:
        """A main clause and a subordinate one whose tenses go together."""
        main, subordinate = self._short_clause(), self._short_clause()
        if conjunction in MOMENTS:
            main = replace(main, tense="present") if main.tense == "perfect" else main
            subordinate = replace(subordinate, tense="present", negated=False)
        elif subordinate.tense == "will":
            subordinate = replace(subordinate, tense="perfect")
        return main, subordinate

    def _short_clause(self) -> Clause:
        return replace(self._clause(), time=None, place=None)

    def _subject(self, kinds: Iterable[str]) -> Nominal:
        if "person" in kinds and self._random.random() < 0.3:
            return Nominal(pronoun=self._random.choice(list(_PRONOUNS)))
        return self._nominal(frozenset(kinds))

    def _object(self, kinds: frozenset[str], negated: bool) -> Nominal:
        if "person" in kinds and self._random.random() < 0.25:
            return Nominal(pronoun=self._random.choice(list(_PRONOUNS)))
        # Negation with other determiners, such as numerals, would mean different things in the two languages.
        return self._nominal(kinds, determiners=[THE, THE, A, A, *POSSESSIVES] if negated else None)

    def _nominal(self, kinds: frozenset[str], determiners: list[Determiner] | None = None) -> Nominal:
        choose = self._random
        noun = choose.choice([noun for noun in NOUNS if noun.kinds & kinds])
        fitting = [adjective for adjective in ADJECTIVES if adjective.kinds & noun.kinds]
        adjective = choose.choice(fitting) if choose.random() < 0.35 else None
        is_single = "single" in noun.kinds
        if determiners is None and not is_single and choose.random() < 0.12:
            numeral = choose.choice(NUMERALS)
            counted = Determiner("", numeral.english, numeral.german, "numeral")
            return Nominal(noun, counted, adjective, plural=True)
        determiner = choose.choice(determiners or [THE, THE, THE, THE, A, A, A, THIS, *POSSESSIVES])
        if is_single:
            determiner = choose.choice([THE, *POSSESSIVES])
        elif determiner in POSSESSIVES and "owned" not in noun.kinds:
            determiner = THE
        plural = not determiner.is_indefinite and not is_single and choose.random() < 0.25
        return Nominal(noun, determiner, adjective, plural)


def _sensible(clause: Clause) -> Clause:
    """Fix what the random draw made odd.

    Nobody acts on themselves (I see me), "every day" does not go with the perfect, and "must not" means something else
    than "muss nicht".
    """
    subject = clause.subject
    taken = {subject.pronoun}
    for side in ("dative", "accusative"):
        nominal: Nominal | None = getattr(clause, side)
        if nominal is None or nominal.noun is not None:
            continue
        free = [pronoun for pronoun in ("he", "she", "they") if pronoun not in taken and not _same(pronoun, taken)]
        chosen = nominal.pronoun if nominal.pronoun not in taken and not _same(nominal.pronoun, taken) else free[0]
        clause = replace(clause, **{side: Nominal(pronoun=chosen)})  # type: ignore[arg-type]
        taken.add(chosen)
    if clause.tense == "must" and clause.negated:
        clause = replace(clause, tense="can")
    if (
        clause.tense in ("perfect", "will")
        and clause.time is not None
        and clause.time.english.startswith(("every", "now"))
    ):
        clause = replace(clause, time=TIMES[0])
    if clause.tense == "perfect" and clause.time is not None and clause.time.english != "today":
        clause = replace(clause, tense="present")
    return clause


def _same(pronoun: str, taken: set[str]) -> bool:
    """Whether a pronoun would be read as one of the others: I and we, or he and he."""
    return {pronoun, *taken} >= {"I", "we"}


def _written(words: list[str], end: str = ".") -> str:
    """Words as a sentence: no space before a comma, a capital first, a mark last."""
    text = " ".join(word for word in words if word).replace(" ,", ",") + end
    return text[0].upper() + text[1:]
