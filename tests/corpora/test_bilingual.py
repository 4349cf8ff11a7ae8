"""Message catalogues and XLIFF as parallel text: which texts are taken, in which direction, and their form."""

import pytest

from nmt.corpora import bilingual
from nmt.corpora.formats import CorpusFile, ParallelText
from nmt.corpora.prepare import prepare
from nmt.corpora.recipe import own_recipe
from nmt.errors import DataError
from nmt.text.lines import MAX_LINE_BYTES

HEAD = 'msgid ""\nmsgstr "Content-Type: text/plain; charset={charset}\\nLanguage: {code}\\n{forms}\\n"\n\n'
POLISH = "Plural-Forms: nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<12 || n%100>14) ? 1 : 2);"
DOG = 'msgid "A dog"\nmsgstr "Ein Hund"\n\n'


def catalogue(messages, code="de", charset="utf-8", forms=""):
    return (HEAD.format(code=code, charset=charset, forms=forms) + messages).encode(charset)


def xliff(units, attributes='source-language="en" target-language="de"'):
    return f'<xliff version="1.2"><file {attributes}><body>{units}</body></file></xliff>'.encode()


def unit(target, attributes="", source="<source>A dog</source>"):
    return f"<trans-unit {attributes}>{source}{target}</trans-unit>"


@pytest.fixture
def pairs(tmp_path):
    def read(content, form, languages=("en", "de"), invalid="error"):
        path = tmp_path / f"memory.{form}"
        path.write_bytes(content)
        text = ParallelText([CorpusFile(path, path.name)], *languages, invalid=invalid)
        return [found and found[:2] for found in bilingual.read(text, form)]

    return read


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (DOG, [("A dog", "Ein Hund")]),
        ('msgid "A dog"\nmsgstr ""\n', [None]),
        ('#, fuzzy\nmsgid "A dog"\nmsgstr "Ein Hut"\n', [None]),
        ('#~ msgid "gone"\n#~ msgstr "weg"\n', []),
        ('msgctxt "menu"\nmsgid "&File"\nmsgstr "&Datei"\n', [("File", "Datei")]),
        ('msgid "&File"\nmsgstr "文件(&F)"\n', [("File", "文件")]),
        ('msgid "50 %"\nmsgstr "50 %"\n', [None]),
        ('msgid "a <b>\\"dog\\"</b>"\nmsgstr "<b>ein</b> \\"Hund\\""\n', [('a "dog"', 'ein "Hund"')]),
        ('msgid ""\n"One.\\n"\n"Two.\\n"\nmsgstr "Eins.\\nZwei.\\n"\n', [("One.", "Eins."), ("Two.", "Zwei.")]),
        ('msgid "One.\\nTwo."\nmsgstr "Eins, zwei."\n', [("One. Two.", "Eins, zwei.")]),
        (
            'msgid "%d dog"\nmsgid_plural "%d dogs"\nmsgstr[0] "%d Hund"\nmsgstr[1] "%d Hunde"\n',
            [("%d dog", "%d Hund"), ("%d dogs", "%d Hunde")],
        ),
    ],
)  # fmt: skip
def test_finished_messages_are_pairs(pairs, message, expected):
    assert pairs(catalogue(message), "po") == expected


def test_forms_of_a_plural_are_translations_of_the_plural(pairs):
    message = 'msgid "%d dog"\nmsgid_plural "%d dogs"\nmsgstr[0] "%d pies"\nmsgstr[1] "%d psy"\nmsgstr[2] "%d psów"\n'
    found = pairs(catalogue(message, "pl", forms=POLISH), "po", ("en", "pl"))
    assert found == [("%d dog", "%d pies"), ("%d dogs", "%d psy"), ("%d dogs", "%d psów")]


@pytest.mark.parametrize(
    ("code", "languages", "expected"),
    [
        ("de", ("en", "de"), ("A dog", "Ein Hund")),
        ("de_AT", ("en", "de"), ("A dog", "Ein Hund")),
        ("de", ("de", "en"), ("Ein Hund", "A dog")),
        ("", ("en", "de"), ("A dog", "Ein Hund")),
        ("fr", ("en", "de"), None),
    ],
)
def test_the_language_of_a_catalogue_decides_the_direction(pairs, code, languages, expected):
    assert pairs(catalogue(DOG, code), "po", languages) == [expected]


def test_a_catalogue_is_read_in_its_encoding(pairs):
    message = 'msgid "Lamp"\nmsgstr "Tür"\n'
    assert pairs(catalogue(message, charset="iso-8859-1"), "po") == [("Lamp", "Tür")]
    damaged = catalogue(message).replace("ü".encode(), b"\xff")
    assert pairs(damaged, "po", invalid="replace") == [("Lamp", "T\ufffdr")]
    with pytest.raises(DataError, match=r"memory\.po, line 5: byte \d+ of the file \(0xff\) is not valid UTF-8"):
        pairs(damaged, "po")


@pytest.mark.parametrize(
    ("target", "attributes", "is_taken"),
    [
        ("<target>Ein Hund</target>", "", True),
        ("", "", False),
        ("<target/>", "", False),
        ("<target><x id='1'/> </target>", "", False),
        ('<target state="translated">Ein Hund</target>', "", True),
        ('<target state="new">Ein Hund</target>', "", False),
        ('<target state="needs-review-translation">Ein Hund</target>', "", False),
        ('<target state="needs-review-translation">Ein Hund</target>', 'approved="yes"', True),
        ('<target state="translated" state-qualifier="fuzzy-match">Ein Hund</target>', "", False),
        ('<target state="final" state-qualifier="mt-suggestion">Ein Hund</target>', "", True),
        ('<target state-qualifier="leveraged-tm">Ein Hund</target>', "", True),
        ("<alt-trans><target>Ein Hund</target></alt-trans>", "", False),
    ],
)
def test_finished_segments_of_xliff_are_pairs(pairs, target, attributes, is_taken):
    assert pairs(xliff(unit(target, attributes)), "xliff") == [("A dog", "Ein Hund") if is_taken else None]


def test_markup_of_xliff_disappears_and_untranslatable_segments_are_left_alone(pairs):
    source = '<source>A <g id="1">big</g><x id="2"/> dog &amp; I</source>'
    target = '<target>Ein <g id="1">großer</g><x id="2"/> Hund &amp; ich</target>'
    content = xliff(unit(target, source=source) + unit("<target>Acme</target>", 'translate="no"'))
    assert pairs(content, "xliff") == [("A big dog & I", "Ein großer Hund & ich")]


def test_marked_sentences_of_xliff_are_pairs_where_both_sides_have_them(pairs):
    source = '<source>One. Two.</source><seg-source><mrk mtype="seg" mid="0">One.</mrk> '
    source += '<mrk mtype="seg" mid="1">Two.</mrk></seg-source>'
    sentences = '<mrk mtype="seg" mid="1">Zwei.</mrk> <mrk mtype="seg" mid="0">Eins.</mrk>'
    whole = '<mrk mtype="seg" mid="0">Eins, zwei.</mrk>'
    both = xliff("".join(unit(f"<target>{each}</target>", source=source) for each in (sentences, whole)))
    assert pairs(both, "xliff") == [("One.", "Eins."), ("Two.", "Zwei."), ("One. Two.", "Eins, zwei.")]


def test_the_languages_of_xliff_decide_the_direction(pairs):
    segment = "<segment state='{}'><source>A dog</source><target>Ein Hund</target></segment>"
    segments = "".join(map(segment.format, ("initial", "reviewed")))
    content = f'<xliff version="2.0" srcLang="en-GB" trgLang="de"><file><unit>{segments}</unit></file></xliff>'.encode()
    assert pairs(content, "xliff", ("de", "en")) == [None, ("Ein Hund", "A dog")]
    assert pairs(content, "xliff", ("en", "fr")) == [None, None]
    unnamed = xliff(unit("<target>Ein Hund</target>"), "")
    assert pairs(unnamed, "xliff") == [("A dog", "Ein Hund")]


def test_catalogue_and_xliff_become_a_data_set_that_counts_what_was_skipped(tmp_path):
    messages = "".join(f'msgid "The dog {word} here"\nmsgstr "Der Hund {word} hier"\n\n' for word in "abcdefghij")
    (tmp_path / "memory.de.po").write_bytes(catalogue(messages + 'msgid "A cat"\nmsgstr ""\n'))
    units = "".join(unit(f"<target>Hunde {n}</target>", source=f"<source>Dogs {n}</source>") for n in "klmnop")
    (tmp_path / "memory.xlf").write_bytes(xliff(units + unit("<target/>") * 2))
    given = [str(tmp_path / "memory.de.po"), str(tmp_path / "memory.xlf")]
    read = prepare(own_recipe("own", source_lang="en", target_lang="de", train=given), tmp_path / "data").manifest
    found = {(record.name, record.pairs, record.skipped) for record in read.corpora if record.split == "train"}
    assert found == {("memory.de.po", 10, 1), ("memory.xlf", 6, 2)}


@pytest.mark.parametrize(
    ("code", "message"),
    [("fr", r"in both languages: 1\. memory\.po has text in fr"), ("de", r"in both languages: 1\.$")],
)
def test_a_catalogue_without_a_pair_is_an_error_that_says_why(tmp_path, code, message):
    (tmp_path / "memory.po").write_bytes(catalogue(DOG if code == "fr" else 'msgid "a"\nmsgstr ""\n', code))
    recipe = own_recipe("own", source_lang="en", target_lang="de", train=[str(tmp_path / "memory.po")])
    with pytest.raises(DataError, match=message):
        prepare(recipe, tmp_path / "data")


def test_what_is_too_large_is_an_error(pairs, monkeypatch):
    with pytest.raises(DataError, match=r"memory\.po: the line is longer than"):
        pairs(catalogue(f'msgid "a"\nmsgstr "{"b" * (MAX_LINE_BYTES + 1)}"\n'), "po")
    monkeypatch.setattr(bilingual, "_LARGEST", 100)
    with pytest.raises(DataError, match=r"memory\.po: is larger than 100 bytes, the maximum\. Divide it, or write"):
        pairs(catalogue(DOG), "po")
