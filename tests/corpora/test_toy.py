"""The toy pair: as many sentences as promised, one translation each, and German that a speaker would accept."""

import itertools

import pytest

from nmt.corpora.toy import generate
from nmt.corpora.toy.german import NO, POSSESSIVES, THE, THIS, A, Determiner, noun_phrase
from nmt.corpora.toy.grammar import Clause, Nominal
from nmt.corpora.toy.lexicon import ADJECTIVES, NOUNS, PLACES, TIMES, VERBS

CORPUS = generate(train=4_000)
NOUN = {noun.english: noun for noun in NOUNS}
ADJECTIVE = {adjective.english: adjective for adjective in ADJECTIVES}
VERB = {(verb.english + " " + verb.english_particle).strip(): verb for verb in VERBS}
MY, _, OUR, _ = POSSESSIVES
THREE = Determiner("", "three", "drei", "numeral")


@pytest.mark.slow
def test_the_whole_corpus_has_thirty_thousand_pairs():
    corpus = generate()
    assert (len(corpus.train), len(corpus.valid), len(corpus.test)) == (30_000, 500, 500)
    pairs = corpus.train + corpus.valid + corpus.test
    assert len({english for english, _ in pairs}) == len({german for _, german in pairs}) == 31_000


def test_no_sentence_comes_twice_in_any_split():
    pairs = CORPUS.train + CORPUS.valid + CORPUS.test
    assert len({english for english, _ in pairs}) == len({german for _, german in pairs}) == len(pairs) == 5_000


def test_the_seed_decides():
    assert generate(train=50) == generate(train=50)
    assert generate(seed=2, train=50) != generate(train=50)


def test_sentences_are_written_as_sentences():
    for english, german in CORPUS.train:
        for text in (english, german):
            assert text[0].isupper()
            assert text[-1] in ".?"
            assert "  " not in text
            assert " ," not in text
        assert (english[-1] == "?") == (german[-1] == "?")


def test_a_stands_before_consonants_and_an_before_vowels():
    for english, _ in CORPUS.train:
        words = english.rstrip(".?").split()
        for article, following in itertools.pairwise(words):
            if article.lower() in ("a", "an"):
                assert (article.lower() == "an") == (following[0] in "aeiou"), english


@pytest.mark.parametrize(
    ("determiner", "adjective", "noun", "plural", "cases"),
    [
        (THE, "old", "man", False, ["der alte Mann", "den alten Mann", "dem alten Mann"]),
        (A, "old", "man", False, ["ein alter Mann", "einen alten Mann", "einem alten Mann"]),
        (A, "small", "cat", False, ["eine kleine Katze", "eine kleine Katze", "einer kleinen Katze"]),
        (A, "new", "car", False, ["ein neues Auto", "ein neues Auto", "einem neuen Auto"]),
        (THE, "new", "car", True, ["die neuen Autos", "die neuen Autos", "den neuen Autos"]),
        (THIS, "clever", "child", False, ["dieses kluge Kind", "dieses kluge Kind", "diesem klugen Kind"]),
        (THIS, None, "child", True, ["diese Kinder", "diese Kinder", "diesen Kindern"]),
        (MY, "tired", "boy", False, ["mein müder Junge", "meinen müden Jungen", "meinem müden Jungen"]),
        (OUR, "young", "teacher", False, ["unser junger Lehrer", "unseren jungen Lehrer", "unserem jungen Lehrer"]),
        (NO, "red", "door", False, ["keine rote Tür", "keine rote Tür", "keiner roten Tür"]),
        (THREE, "hungry", "dog", True, ["drei hungrige Hunde", "drei hungrige Hunde", "drei hungrigen Hunden"]),
        (THE, None, "student", False, ["der Student", "den Studenten", "dem Studenten"]),
        (THREE, None, "apple", True, ["drei Äpfel", "drei Äpfel", "drei Äpfeln"]),
    ],
)  # fmt: skip
def test_noun_phrases_agree(determiner, adjective, noun, plural, cases):
    chosen = ADJECTIVE[adjective] if adjective else None
    found = [
        noun_phrase(determiner, chosen, NOUN[noun], plural=plural, case=case)
        for case in ("nominative", "accusative", "dative")
    ]
    assert found == cases


def the(noun: str, **options) -> Nominal:
    return Nominal(NOUN[noun], **options)


MYSELF, HE, WE = (Nominal(pronoun=word) for word in ("I", "he", "we"))


@pytest.mark.parametrize(
    ("clause", "order", "english", "german"),
    [
        (Clause(the("man"), VERB["read"], accusative=the("book", determiner=A)), "statement",
         "the man reads a book", "der Mann liest ein Buch"),
        (Clause(the("woman"), VERB["open"], accusative=the("door"), time=TIMES[0]), "time first",
         "today the woman opens the door", "heute macht die Frau die Tür auf"),
        (Clause(the("woman"), VERB["open"], accusative=the("door")), "subordinate",
         "the woman opens the door", "die Frau die Tür aufmacht"),
        (Clause(HE, VERB["open"], "can", accusative=the("window")), "statement",
         "he can open the window", "er kann das Fenster aufmachen"),
        (Clause(MYSELF, VERB["get up"], "perfect"), "statement", "I have got up", "ich bin aufgestanden"),
        (Clause(MYSELF, VERB["get up"], "perfect"), "subordinate", "I have got up", "ich aufgestanden bin"),
        (Clause(WE, VERB["help"], dative=the("child", plural=True)), "statement",
         "we help the children", "wir helfen den Kindern"),
        (Clause(HE, VERB["buy"], accusative=the("apple", determiner=A), negated=True), "statement",
         "he does not buy an apple", "er kauft keinen Apfel"),
        (Clause(HE, VERB["buy"], accusative=the("apple"), negated=True), "statement",
         "he does not buy the apple", "er kauft den Apfel nicht"),
        (Clause(HE, VERB["call"], accusative=Nominal(pronoun="we"), time=TIMES[0], negated=True), "statement",
         "he does not call us today", "er ruft uns heute nicht an"),
        (Clause(the("girl"), VERB["give"], accusative=the("key"), dative=the("uncle")), "statement",
         "the girl gives the uncle the key", "das Mädchen gibt dem Onkel den Schlüssel"),
        (Clause(the("girl"), VERB["give"], accusative=the("key"), dative=MYSELF), "question",
         "does the girl give me the key", "gibt das Mädchen mir den Schlüssel"),
        (Clause(WE, VERB["pick up"], accusative=the("guest", determiner=A)), "statement",
         "we pick up a guest", "wir holen einen Gast ab"),
        (Clause(WE, VERB["pick up"], accusative=HE), "statement", "we pick him up", "wir holen ihn ab"),
        (Clause(the("dog"), VERB["sleep"], place=PLACES[0]), "statement",
         "the dog sleeps in the garden", "der Hund schläft im Garten"),
        (Clause(HE, VERB["follow"], dative=the("aunt", determiner=A), negated=True), "statement",
         "he does not follow an aunt", "er folgt keiner Tante"),
    ],
)  # fmt: skip
def test_words_come_in_the_order_of_each_language(clause, order, english, german):
    said = clause.english_question() if order == "question" else clause.english(time_first=order == "time first")
    assert " ".join(said) == english
    assert " ".join(clause.german(order)) == german


def test_subordinate_clauses_end_with_their_verb():
    finite = {verb.prefix + form for verb in VERBS for form in (verb.first, verb.third, verb.german)}
    finite |= {"kann", "können", "muss", "müssen", "will", "wollen", "werde", "wird", "werden"}
    finite |= {"habe", "hat", "haben", "bin", "ist", "sind"}
    seen = 0
    for _, german in CORPUS.train:
        main, comma, rest = german.rstrip(".").partition(", ")
        if not comma:
            continue
        starts = german.split()[0] in ("Wenn", "Falls", "Bevor", "Während", "Obwohl")
        assert (main if starts else rest).split()[-1] in finite, german
        seen += 1
    assert seen > 300
