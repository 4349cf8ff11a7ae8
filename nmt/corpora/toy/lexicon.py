"""The words of the toy pair, English and German side by side.

Kinds say which words go together: a verb names the kinds of its subjects and objects, an adjective the kinds of nouns
that it may describe. So every sentence makes sense to a speaker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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


def _kinds(names: str) -> frozenset[str]:
    return frozenset(names.split())


def _nouns(kinds: str, table: str) -> list[Noun]:
    nouns = []
    for line in table.strip().splitlines():
        english, plural, german, german_plural, gender, *weak = (word.strip() for word in line.split("|"))
        assert gender in ("m", "f", "n")
        nouns.append(
            Noun(english, plural, german, german_plural, gender, _kinds(kinds), weak[0] if weak else "")  # type: ignore[arg-type]
        )
    return nouns


# english | plural | German | plural | gender | weak ending
NOUNS = [
    *_nouns(
        "person",
        """
        man | men | Mann | Männer | m
        woman | women | Frau | Frauen | f
        girl | girls | Mädchen | Mädchen | n
        boy | boys | Junge | Jungen | m | n
        farmer | farmers | Bauer | Bauern | m | n
        baker | bakers | Bäcker | Bäcker | m
        painter | painters | Maler | Maler | m
        cook | cooks | Koch | Köche | m
        """,
    ),
    *_nouns(
        "person owned",
        """
        child | children | Kind | Kinder | n
        teacher | teachers | Lehrer | Lehrer | m
        student | students | Student | Studenten | m | en
        doctor | doctors | Arzt | Ärzte | m
        neighbour | neighbours | Nachbar | Nachbarn | m | n
        friend | friends | Freund | Freunde | m
        aunt | aunts | Tante | Tanten | f
        uncle | uncles | Onkel | Onkel | m
        sister | sisters | Schwester | Schwestern | f
        brother | brothers | Bruder | Brüder | m
        guest | guests | Gast | Gäste | m
        """,
    ),
    *_nouns(
        "person owned single",
        """
        mother | mothers | Mutter | Mütter | f
        father | fathers | Vater | Väter | m
        """,
    ),
    *_nouns(
        "animal owned",
        """
        dog | dogs | Hund | Hunde | m
        cat | cats | Katze | Katzen | f
        horse | horses | Pferd | Pferde | n
        bird | birds | Vogel | Vögel | m
        cow | cows | Kuh | Kühe | f
        rabbit | rabbits | Kaninchen | Kaninchen | n
        mouse | mice | Maus | Mäuse | f
        """,
    ),
    *_nouns(
        "food owned",
        """
        apple | apples | Apfel | Äpfel | m
        pear | pears | Birne | Birnen | f
        carrot | carrots | Karotte | Karotten | f
        tomato | tomatoes | Tomate | Tomaten | f
        """,
    ),
    *_nouns(
        "food meal owned",
        """
        egg | eggs | Ei | Eier | n
        cake | cakes | Kuchen | Kuchen | m
        sausage | sausages | Wurst | Würste | f
        potato | potatoes | Kartoffel | Kartoffeln | f
        soup | soups | Suppe | Suppen | f
        """,
    ),
    *_nouns(
        "text thing owned",
        """
        book | books | Buch | Bücher | n
        letter | letters | Brief | Briefe | m
        poem | poems | Gedicht | Gedichte | n
        """,
    ),
    *_nouns(
        "thing owned",
        """
        picture | pictures | Bild | Bilder | n
        lamp | lamps | Lampe | Lampen | f
        chair | chairs | Stuhl | Stühle | m
        table | tables | Tisch | Tische | m
        key | keys | Schlüssel | Schlüssel | m
        hat | hats | Hut | Hüte | m
        coat | coats | Mantel | Mäntel | m
        """,
    ),
    *_nouns(
        "thing washable owned",
        """
        car | cars | Auto | Autos | n
        bicycle | bicycles | Fahrrad | Fahrräder | n
        cup | cups | Tasse | Tassen | f
        glass | glasses | Glas | Gläser | n
        shirt | shirts | Hemd | Hemden | n
        """,
    ),
    *_nouns(
        "opening owned",
        """
        door | doors | Tür | Türen | f
        window | windows | Fenster | Fenster | n
        """,
    ),
    *_nouns(
        "opening thing owned",
        """
        box | boxes | Kiste | Kisten | f
        suitcase | suitcases | Koffer | Koffer | m
        """,
    ),
]


def _adjectives(kinds: str, table: str) -> list[Adjective]:
    adjectives = []
    for line in table.strip().splitlines():
        english, german, *stem = (word.strip() for word in line.split("|"))
        adjectives.append(Adjective(english, german, stem[0] if stem else german, _kinds(kinds)))
    return adjectives


# english | German | stem, where the endings are put to something else
ADJECTIVES = [
    *_adjectives(
        "person animal",
        """
        young | jung
        tired | müde | müd
        hungry | hungrig
        happy | glücklich
        sad | traurig
        clever | klug
        strong | stark
        brave | mutig
        """,
    ),
    *_adjectives(
        "person",
        """
        friendly | freundlich
        famous | berühmt
        polite | höflich
        rich | reich
        """,
    ),
    *_adjectives(
        "person animal thing opening",
        """
        old | alt
        """,
    ),
    *_adjectives(
        "animal thing opening",
        """
        small | klein
        big | groß
        beautiful | schön
        """,
    ),
    *_adjectives(
        "thing opening",
        """
        new | neu
        heavy | schwer
        """,
    ),
    *_adjectives(
        "thing",
        """
        cheap | billig
        """,
    ),
    *_adjectives(
        "washable opening",
        """
        dirty | schmutzig
        clean | sauber
        red | rot
        white | weiß
        blue | blau
        """,
    ),
    *_adjectives(
        "text",
        """
        long | lang
        short | kurz
        """,
    ),
    *_adjectives(
        "food",
        """
        fresh | frisch
        small | klein
        big | groß
        """,
    ),
    *_adjectives(
        "meal",
        """
        warm | warm
        cold | kalt
        """,
    ),
]

_PERSON = _kinds("person")
_ANIMATE = _kinds("person animal")

# English forms, German forms, participle; who does it, to what, to whom.
VERBS = [
    Verb("read", "reads", "read", "lesen", "lese", "liest", "gelesen", _PERSON, _kinds("text"), with_place=True),
    Verb("write", "writes", "written", "schreiben", "schreibe", "schreibt", "geschrieben", _PERSON, _kinds("text")),
    Verb("eat", "eats", "eaten", "essen", "esse", "isst", "gegessen", _PERSON, _kinds("food"), with_place=True),
    Verb("cook", "cooks", "cooked", "kochen", "koche", "kocht", "gekocht", _PERSON, _kinds("meal")),
    Verb("buy", "buys", "bought", "kaufen", "kaufe", "kauft", "gekauft", _PERSON, _kinds("food thing")),
    Verb("sell", "sells", "sold", "verkaufen", "verkaufe", "verkauft", "verkauft", _PERSON, _kinds("food thing")),
    Verb("see", "sees", "seen", "sehen", "sehe", "sieht", "gesehen", _ANIMATE, _kinds("person animal"), with_place=True),
    Verb("look for", "looks for", "looked for", "suchen", "suche", "sucht", "gesucht", _ANIMATE, _kinds("person animal")),
    Verb("find", "finds", "found", "finden", "finde", "findet", "gefunden", _PERSON, _kinds("thing animal"), with_place=True),
    Verb("carry", "carries", "carried", "tragen", "trage", "trägt", "getragen", _PERSON, _kinds("thing")),
    Verb("wash", "washes", "washed", "waschen", "wasche", "wäscht", "gewaschen", _PERSON, _kinds("washable")),
    Verb("paint", "paints", "painted", "malen", "male", "malt", "gemalt", _PERSON, _kinds("animal")),
    Verb("feed", "feeds", "fed", "füttern", "füttere", "füttert", "gefüttert", _PERSON, _kinds("animal"), with_place=True),
    Verb("visit", "visits", "visited", "besuchen", "besuche", "besucht", "besucht", _PERSON, _kinds("person")),
    Verb("open", "opens", "opened", "machen", "mache", "macht", "aufgemacht", _PERSON, _kinds("opening"), prefix="auf"),
    Verb("close", "closes", "closed", "machen", "mache", "macht", "zugemacht", _PERSON, _kinds("opening"), prefix="zu"),
    Verb("call", "calls", "called", "rufen", "rufe", "ruft", "angerufen", _PERSON, _kinds("person"), prefix="an"),
    Verb("invite", "invites", "invited", "laden", "lade", "lädt", "eingeladen", _PERSON, _kinds("person"), prefix="ein"),
    Verb(
        "bring", "brings", "brought", "bringen", "bringe", "bringt", "mitgebracht", _PERSON, _kinds("food text"),
        prefix="mit", english_particle="along",
    ),
    Verb(
        "pick", "picks", "picked", "holen", "hole", "holt", "abgeholt", _PERSON, _kinds("person"),
        prefix="ab", english_particle="up",
    ),
    Verb("help", "helps", "helped", "helfen", "helfe", "hilft", "geholfen", _PERSON, dative=_ANIMATE, with_place=True),
    Verb("thank", "thanks", "thanked", "danken", "danke", "dankt", "gedankt", _PERSON, dative=_PERSON),
    Verb("follow", "follows", "followed", "folgen", "folge", "folgt", "gefolgt", _ANIMATE, dative=_ANIMATE, with_sein=True),
    Verb("give", "gives", "given", "geben", "gebe", "gibt", "gegeben", _PERSON, _kinds("food thing"), _PERSON),
    Verb("show", "shows", "shown", "zeigen", "zeige", "zeigt", "gezeigt", _PERSON, _kinds("thing animal"), _PERSON),
    Verb("sleep", "sleeps", "slept", "schlafen", "schlafe", "schläft", "geschlafen", _ANIMATE, with_place=True),
    Verb("work", "works", "worked", "arbeiten", "arbeite", "arbeitet", "gearbeitet", _PERSON, with_place=True),
    Verb("wait", "waits", "waited", "warten", "warte", "wartet", "gewartet", _ANIMATE, with_place=True),
    Verb("play", "plays", "played", "spielen", "spiele", "spielt", "gespielt", _ANIMATE, with_place=True),
    Verb("sing", "sings", "sung", "singen", "singe", "singt", "gesungen", _PERSON, with_place=True),
    Verb("laugh", "laughs", "laughed", "lachen", "lache", "lacht", "gelacht", _PERSON),
    Verb("dance", "dances", "danced", "tanzen", "tanze", "tanzt", "getanzt", _PERSON, with_place=True),
    Verb(
        "get up", "gets up", "got up", "stehen", "stehe", "steht", "aufgestanden", _PERSON, prefix="auf", with_sein=True
    ),
    Verb("arrive", "arrives", "arrived", "kommen", "komme", "kommt", "angekommen", _PERSON, prefix="an", with_sein=True),
]  # fmt: skip

PLACES = [
    Phrase("in the garden", "im Garten"),
    Phrase("in the kitchen", "in der Küche"),
    Phrase("in the house", "im Haus"),
    Phrase("in the park", "im Park"),
    Phrase("in the forest", "im Wald"),
    Phrase("in the city", "in der Stadt"),
    Phrase("in the village", "im Dorf"),
    Phrase("at the station", "am Bahnhof"),
    Phrase("at the market", "auf dem Markt"),
    Phrase("behind the church", "hinter der Kirche"),
    Phrase("behind the houses", "hinter den Häusern"),
    Phrase("in front of the school", "vor der Schule"),
    Phrase("in front of the shop", "vor dem Laden"),
    Phrase("under the tree", "unter dem Baum"),
    Phrase("next to the river", "neben dem Fluss"),
    Phrase("between the trees", "zwischen den Bäumen"),
]

TIMES = [
    Phrase("today", "heute"),
    Phrase("now", "jetzt"),
    Phrase("in the morning", "am Morgen"),
    Phrase("in the evening", "am Abend"),
    Phrase("on Monday", "am Montag"),
    Phrase("on Friday", "am Freitag"),
    Phrase("on Sunday", "am Sonntag"),
    Phrase("every day", "jeden Tag"),
    Phrase("every week", "jede Woche"),
    Phrase("in summer", "im Sommer"),
    Phrase("in winter", "im Winter"),
    Phrase("before breakfast", "vor dem Frühstück"),
    Phrase("after lunch", "nach dem Mittagessen"),
]

NUMERALS = [
    Phrase("two", "zwei"),
    Phrase("three", "drei"),
    Phrase("four", "vier"),
    Phrase("five", "fünf"),
    Phrase("six", "sechs"),
    Phrase("seven", "sieben"),
    Phrase("eight", "acht"),
    Phrase("nine", "neun"),
    Phrase("ten", "zehn"),
    Phrase("eleven", "elf"),
    Phrase("twelve", "zwölf"),
]

# Conjunctions that give a reason, and those that name a moment or a condition.
REASONS = [Phrase("because", "weil"), Phrase("although", "obwohl")]
MOMENTS = [Phrase("when", "wenn"), Phrase("if", "falls"), Phrase("before", "bevor"), Phrase("while", "während")]

# Verbs that a clause with that follows: I, he, we.
SAYING = [
    (("know", "knows"), ("weiß", "weiß", "wissen")),
    (("say", "says"), ("sage", "sagt", "sagen")),
    (("believe", "believes"), ("glaube", "glaubt", "glauben")),
    (("hope", "hopes"), ("hoffe", "hofft", "hoffen")),
    (("see", "sees"), ("sehe", "sieht", "sehen")),
]
