"""Terms of a glossary: what matches in a text, and what becomes of translations."""

import random
import re
import unicodedata

import pytest

from nmt.errors import DataError
from nmt.spans.links import Link
from nmt.spans.terms import Glossary, Obeyed, obey
from tests.growth import assert_linear

GLOSSARY = Glossary(
    [
        ("cat", "Katze"),
        ("black cat", "Schwarze Katze"),
        ("SAP", "SAP"),
        ("Apple", "Apple"),
        ("the", "der"),
        ("the", "die"),
    ]
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A cat.", ["cat"]),
        ("Cat and CAT", ["Cat", "CAT"]),
        ("a concatenation of cats", []),
        ("a black cat's bowl", ["black cat"]),
        ("tom-cat, cat-tail, cat_ -cat-", ["cat", "cat"]),
        ("sap of an apple, Apple and SAP", ["Apple", "SAP"]),
        ("", []),
    ],
)
def test_whole_words_match(text, found):
    assert [text[term.start : term.end] for term in GLOSSARY.terms(text)] == found


@pytest.mark.parametrize(
    ("terms", "text", "found"),
    [
        (["café"], "Un cafe\u0301, deux cafés.", ["cafe\u0301"]),
        (["cafe\u0301"], "CAFÉ", ["CAFÉ"]),
        (["cafe"], "un cafe\u0301", []),
        (["l'école"], "à l’école", ["l’école"]),
        (["USB"], "ＵＳＢ-Kabel, ＵＳＢ", ["ＵＳＢ"]),
        (["データ"], "ﾃﾞｰﾀの", ["ﾃﾞｰﾀ"]),
        (["한국"], unicodedata.normalize("NFD", "한국어"), [unicodedata.normalize("NFD", "한국")]),
        (["black cat"], "a black\u00a0cat", ["black\u00a0cat"]),
        (["1"], "½ 1", ["1"]),  # ½ is 1⁄2
        (["van Gogh"], "Van Gogh, van Gogh, VAN GOGH", ["Van Gogh", "van Gogh"]),
        (["New York", "York City Hall"], "New York City Hall", ["York City Hall"]),
        (["new", "new york", "york city"], "new york city", ["new", "york city"]),
        (["vi"], "vi, Việt", ["vi"]),
        (["კა"], "კა, კარგი", ["კა"]),
        (["कर"], "कर, करे", ["कर"]),
        (["کتاب"], "کتاب\u200cها", ["کتاب"]),
        (["কো", "آن"], "ক\u09c7\u09be ا\u0653ن", ["ক\u09c7\u09be", "ا\u0653ن"]),
        (["ก"], "กิ ก", ["ก"]),
        (["ısı", "ilaç", "dil"], "Isı, İLAÇ, ISI, Dil, isi", ["Isı", "İLAÇ", "ISI", "Dil"]),
        (["qoʻl"], "qo'l, qo‘l, qol", ["qo'l", "qo‘l"]),
        (["legal", "col·legi"], "il·legal, legal, col·legi", ["legal", "col·legi"]),
        (["بيت", "שלום"], "بَيْت, بـيـت, שָׁלוֹם", ["بَيْت", "بـيـت", "שָׁלוֹם"]),
        (["dogma"], "dog\u00adma dog-ma", ["dog\u00adma"]),
    ],
)
def test_forms_of_characters_match_and_the_longest_terms(terms, text, found):
    matched = Glossary([(term, "x") for term in terms]).terms(text)
    assert [text[term.start : term.end] for term in matched] == found


def test_scripts_without_spaces_match_anywhere():
    [term] = Glossary([("猫", "cat")]).terms("黒猫が好き")
    assert (term.start, term.end) == (1, 2)


def word_links(source: str, output: str, pairs: str) -> list[Link]:
    """Links between words, such as ``0-1 1-0``."""

    def places(text: str) -> list[tuple[int, int]]:
        words, end = [], 0
        for word in text.split():
            start = text.index(word, end)
            words.append((start, end := start + len(word)))
        return words

    of_source, of_output = places(source), places(output)
    numbers = [tuple(map(int, pair.split("-"))) for pair in pairs.split()]
    return [Link(*of_output[right], *of_source[left]) for left, right in numbers]


@pytest.mark.parametrize(
    ("source", "output", "pairs", "expected", "verdicts"),
    [
        ("the dog sleeps", "der Hund schläft", "0-0 1-1 2-2", "der Köter schläft", ["replaced"]),
        ("the dog sleeps", "der Köter schläft", "0-0 1-1 2-2", "der Köter schläft", ["written"]),
        ("of the dog", "des Köters", "1-0 2-1", "des Köters", ["written"]),
        ("the dog sleeps", "schläft der Hund?", "0-1 1-2 2-0", "schläft der Köter?", ["replaced"]),
        ("dogs, a dog", "Hunde, ein Hund", "0-0 1-1 2-2", "Hunde, ein Köter", ["replaced"]),
        ("dog bites dog", "Hund beißt Hund", "0-0 1-1 2-2", "Köter beißt Köter", ["replaced", "replaced"]),
        ("dog bites dog", "Hund beißt Köter", "0-0 1-1 2-2", "Köter beißt Köter", ["replaced", "written"]),
        ("a dog barks", "es bellt", "2-1", "Köter es bellt", ["inserted"]),
        ("dog", "", "", "Köter", ["inserted"]),
        ("a dog barks", "des Köters Bellen", "2-2", "des Köters Bellen", ["written"]),
        ("a dog barks", "der Wachköter bellt", "2-2", "der Wachköter bellt", ["written"]),
        ("a dog sled", "ein Köterschlitten", "0-0 1-1 2-1", "ein Köterschlitten", ["written"]),
        ("a dog sled", "ein Hundeschlitten mit Köterfell", "0-0 1-1 2-1", "ein Köter mit Köterfell", ["replaced"]),
        ("the guard dog", "der Wachhund", "1-1 2-1", "der Köter", ["replaced"]),
    ],
)
def test_translations_obey(source, output, pairs, expected, verdicts):
    terms = Glossary([("dog", "Köter")]).terms(source)
    obeyed = obey(source, output, word_links(source, output, pairs), terms)
    assert obeyed.text == expected
    assert [finding.verdict for finding in obeyed.findings] == verdicts
    for finding, term in zip(obeyed.findings, terms, strict=True):
        assert finding[:2] == (source[term.start : term.end], "Köter")


@pytest.mark.parametrize(
    ("target", "word", "expected"),
    [
        ("froher", "frohe", "frohe"),
        ("froher", "Frohen", "Frohen"),
        ("Arzt", "Ärzte", "Ärzte"),
        ("Ku\u0308che", "Küchen", "Küchen"),
        ("froher", "fröhlicher", "froher"),
        ("der", "den", "der"),
        ("Banane", "Bananen", "Bananen"),
        ("Banane", "Banana", "Banane"),
        ("froher Koch", "frohen Kochs", "frohen Kochs"),
        ("froher Koch", "frohen Kellners", "froher Koch"),
        ("frohe\u0301r", "frohér", "frohér"),
        ("गर्मी", "सर्दी", "गर्मी"),
        ("गर्मियाँ", "गर्मियों", "गर्मियों"),
        ("고양이", "강아지", "고양이"),
        ("中国人", "人国中", "中国人"),
    ],
)
def test_other_forms_of_a_term_stay(target, word, expected):
    terms = Glossary([("banana", target)]).terms("a banana")
    links = [Link(0, 3, 0, 1), Link(4, 4 + len(word), 2, 8)]
    assert obey("a banana", f"ein {word}", links, terms).text == f"ein {expected}"


@pytest.mark.parametrize(
    ("target", "output", "verdict"),
    [
        ("بيت", "هذا وبالبيت كبير", "written"),
        ("ספר", "אני קורא בספר", "written"),
        ("بيت", "هذا تبيت كبير", "inserted"),
        ("in", "bain", "inserted"),
    ],
)
def test_a_term_may_have_an_article_before_it(target, output, verdict):
    terms = Glossary([("house", target)]).terms("a house")
    obeyed = obey("a house", output, [], terms)
    assert [found.verdict for found in obeyed.findings] == [verdict]
    assert (obeyed.text == output) == (verdict == "written")


@pytest.mark.parametrize(("target", "expected"), [("jener", "Ja. Jener geht."), ("iPhone", "Ja. iPhone geht.")])
def test_a_capital_stays_at_the_beginning_of_another_sentence(target, expected):
    terms = Glossary([("he", target)]).terms("Yes. He goes.")
    assert obey("Yes. He goes.", "Ja. Er geht.", [Link(4, 6, 5, 7)], terms).text == expected


@pytest.mark.parametrize(("language", "expected"), [("tr", "İlaç iyi."), ("en", "Ilaç iyi.")])
def test_a_capital_is_that_of_the_language(language, expected):
    terms = Glossary([("drug", "ilaç")]).terms("Drug helps.")
    assert obey("Drug helps.", "Hap iyi.", [Link(0, 3, 0, 4), Link(4, 7, 5, 10)], terms, language).text == expected


def test_a_capital_stays_at_the_beginning_of_a_sentence():
    terms = Glossary([("he", "jener")]).terms("He sleeps.")
    assert obey("He sleeps.", "Er schläft.", [Link(0, 2, 0, 2), Link(3, 11, 3, 10)], terms).text == "Jener schläft."


def test_of_several_translations_any_obeys_and_the_first_is_put():
    terms = Glossary([("dog", "Hund"), ("dog", "Köter")]).terms("a dog")
    links = [Link(0, 3, 0, 1), Link(4, 9, 2, 5)]
    assert obey("a dog", "ein Köter", links, terms).text == "ein Köter"
    assert obey("a dog", "ein Rüde!", [*links[:1], Link(4, 8, 2, 5)], terms).text == "ein Hund!"


def test_every_term_is_there_and_the_rest_stays_whatever_the_links_are():
    draw = random.Random(0)
    words = ["dog", "cat", "man", "x", "."]
    for _ in range(500):
        source = " ".join(draw.choices(words, k=draw.randint(1, 7)))
        output = " ".join(draw.choices(["Aa", "Bbb", "Köter", "Maunz", ".", "C"], k=draw.randint(0, 6)))
        links = []
        for _ in range(draw.randint(0, 6)):
            ends = sorted(draw.choices(range(len(output) + 1), k=2)), sorted(draw.choices(range(len(source) + 1), k=2))
            links.append(Link(*ends[0], *ends[1]))
        terms = Glossary([("dog", "Köter"), ("cat", "Maunz")]).terms(source)
        obeyed = obey(source, output, links, terms)
        for target, term in (("Köter", "dog"), ("Maunz", "cat")):
            assert obeyed.text.count(target) >= source.split().count(term)
        for word in ("Aa", "Bbb"):
            assert obeyed.text.count(word) <= output.count(word)
        assert all(0 <= link.start <= link.end <= len(obeyed.text) for link in obeyed.links)


def test_a_term_is_inserted_behind_a_word_not_within_it():
    terms = Glossary([("dog", "Köter")]).terms("a black dog barks")
    links = [Link(0, 3, 0, 1), Link(4, 8, 2, 7), Link(8, 14, 12, 17)]
    assert obey("a black dog barks", "ein Bellender", links, terms).text == "ein Bellender Köter"


def test_long_lines_obey():
    source, output = " ".join(["dog", "cat", "man"] * 300), " ".join(["Köter", "Katze", "Mann"] * 300)
    links = [
        link
        for number, link in enumerate(word_links(source, output, " ".join(f"{at}-{at}" for at in range(900))))
        if number % 3 < 2
    ]
    glossary = Glossary([("dog", "Köter"), ("cat", "Maunz"), ("man", "Herr")])
    obeyed = obey(source, output, links, glossary.terms(source))
    assert obeyed.text == " ".join(["Köter", "Maunz Herr", "Mann"] * 300)
    assert [finding.verdict for finding in obeyed.findings] == ["written", "replaced", "inserted"] * 300


def test_time_grows_with_the_length_of_a_line():
    glossary = Glossary([("dog", "Köter"), ("cat", "Maunz"), ("man", "Herr")])

    def translated(line: str) -> Obeyed:
        output = line.replace("dog", "Köter")
        words = [(word.start(), word.end()) for word in re.finditer(r"\S+", line)]
        of_output = [(word.start(), word.end()) for word in re.finditer(r"\S+", output)]
        links = [Link(*there, *here) for here, there in zip(words, of_output, strict=True)]
        return obey(line, output, links, glossary.terms(line))

    assert_linear(translated, "dog cat man ", 2_000)


def test_time_grows_with_the_number_of_terms():
    def translated(line: str) -> None:
        source = " ".join(f"w{number:x}" for number in range(len(line)))
        links = [Link(at, at + 1, at, at + 1) for at in range(len(source))]
        terms = Glossary([(word, word.replace("w", "tt")) for word in source.split()]).terms(source)
        assert obey(source, source.replace("w", "tt"), links, terms).text.count("tt") == len(terms) == len(line)

    assert_linear(translated, "w", 200)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tb\nc\n", ", line 2: expected a term"),
        ("\tb\n", ", line 1"),
        ("a\tb\tc\n", ", line 1"),
        ("\n", ": has no terms"),
    ],
)
def test_other_lines_are_refused(tmp_path, content, message):
    (tmp_path / "terms.tsv").write_text(content)
    with pytest.raises(DataError, match=rf"terms\.tsv{message}"):
        Glossary.read(tmp_path / "terms.tsv")


def test_a_term_as_it_is_written_is_preferred_and_many_with_the_same_beginning_are_found_fast():
    assert [term.targets for term in Glossary([("may", "darf"), ("May", "Mai")]).terms("May may MAY")] == [
        ("Mai",),
        ("darf",),
        ("darf",),
    ]
    glossary = Glossary((f"a {number:05}", "x") for number in range(20_000))
    assert len(glossary.terms("a 19999 a b " * 1_000)) == 1_000
