"""Documents come back byte for byte if nothing is translated, and with the same structure whatever is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from nmt.documents import html, xliff
from nmt.documents.document import Document, Reading
from nmt.documents.formats import format_of, read_document
from nmt.errors import DataError
from nmt.spans.links import Link
from nmt.spans.placing import place
from tests.documents.kit import marked_up, translated
from tests.documents.samples import PO, SAMPLES

FRAGMENTS = [
    *"<>&*_[]()`#|\\\"'%-=+~:;! \n\r\t\u00a0é日🙂",
    "1. ",
    "- ",
    "</b>",
    "<br>",
    "&amp;",
    "-->",
    "]]>",
    "\u2028",
    "\n\n",
    "w",
    "#, fuzzy",
    "\\u",
    "---",
]
CUE = "1\n00:00:01,000 --> 00:00:02,000\n"
VTT = "WEBVTT\n\n00:01.000 --> 00:02.000\n"

texts = st.lists(st.sampled_from(FRAGMENTS), max_size=12).map(lambda parts: f"w{''.join(parts)}w")


MARK_1 = ' state="needs-review-translation" state-qualifier="leveraged-mt"'
MARK_2 = ' state="translated" subState="nmt:mt"'


def read(name: str, text: str | bytes, **reading: object) -> Document:
    raw = text.encode() if isinstance(text, str) else text
    found = format_of(Path(name))
    assert found is not None
    return read_document(raw, found, Reading("en", **reading), name=name)


def markup(document: Document) -> list[list[tuple[str, str]]]:
    return [
        sorted((span.before, span.after) for span in unit.spans if span.before or span.after) for unit in document.units
    ]


def elements(raw: bytes) -> list[tuple[str, dict[str, str]]]:
    root = etree.fromstring(raw)
    return [(element.tag, dict(element.attrib)) for element in root.iter() if element.tag.partition("}")[2] != "target"]


def shape(value: object) -> object:
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    return [shape(each) for each in value] if isinstance(value, list) else type(value)


STRUCTURES = {
    "page.html": lambda raw: markup(read("page.html", raw)),
    "page.md": lambda raw: markup(read("page.md", raw)),
    "a.po": lambda raw: read("a.po", raw, retranslate=True).units,
    "a.srt": lambda raw: (re.findall(rb"[^\n]*-->[^\n]*", raw), raw.count(b"\n\n")),
    "a.vtt": lambda raw: (re.findall(rb"[^\n]*-->[^\n]*", raw), markup(read("a.vtt", raw))),
    "1.xlf": lambda raw: (
        read("1.xlf", raw, retranslate=True).units,
        len(etree.fromstring(raw).findall(".//{*}source")),
    ),
    "2.xlf": lambda raw: read("2.xlf", raw, retranslate=True).units,
    "a.json": lambda raw: shape(json.loads(raw)),
    "a.properties": lambda raw: len(read("a.properties", raw).units),
    "a.txt": lambda raw: raw.count(b"\n"),
}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("name", SAMPLES)
def test_without_translations_a_document_is_the_same(name, mark, newline):
    raw = (mark + SAMPLES[name].replace("\n", newline)).encode()
    document = read(name, raw)
    assert len(document.units) > 0
    assert b"".join(document.parts([None] * len(document.units))) == raw
    assert [unit.text for unit in document.units] == [unit.text for unit in read(name, SAMPLES[name]).units]


@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_whatever_is_translated_the_structure_stays(name, data):
    document = read(name, SAMPLES[name], target_lang="de")
    count = len(document.units)
    written = translated(document, data.draw(st.lists(texts, min_size=count, max_size=count)))
    assert STRUCTURES[name](written) == STRUCTURES[name](SAMPLES[name].encode())


@pytest.mark.parametrize("name", SAMPLES)
def test_parts_continue_behind_what_is_done(name):
    document = read(name, SAMPLES[name], target_lang="de")
    translations = [marked_up(unit, unit.text.upper(), document) for unit in document.units]
    parts = list(document.parts(translations))
    assert len(parts) == len(document.units) + 1
    for done in range(len(parts)):
        assert list(document.parts(translations[done:], done)) == parts[done:]


@pytest.mark.parametrize(
    ("name", "text", "translations", "written"),
    [
        ("a.po", 'msgid "&Quit"\nmsgstr ""\n', ["Beenden"], 'msgid "&Quit"\nmsgstr "&Beenden"\n'),
        ("a.po", 'msgid "E_xit"\nmsgstr ""\n', ["Text"], 'msgid "E_xit"\nmsgstr "Te_xt"\n'),
        ("a.po", 'msgid "&File"\nmsgstr ""\n', ["文件"], 'msgid "&File"\nmsgstr "文件(&F)"\n'),
        ("a.po", 'msgid "AT&T user_id"\nmsgstr ""\n', ["von AT&T"], 'msgid "AT&T user_id"\nmsgstr "von AT&T"\n'),
        ("a.po", 'msgid "a\\tb"\nmsgstr ""\n', ['"c'], 'msgid "a\\tb"\nmsgstr "\\"c"\n'),
        ("a.po", 'msgid "a"\nmsgstr ""\n', [""], 'msgid "a"\nmsgstr ""\n'),
        ("a.md", "A dog\n", ["# 1. *"], "\\# 1. \\*\n"),
        ("a.md", "A dog\n", ["1. x"], "1\\. x\n"),
        ("a.md", "A dog\n", ["snake_case & co"], "snake_case & co\n"),
        ("a.html", "<p>A <b>dog</b></p>", ["1 < 2\u00a0&"], "<p><b>w</b> 1 &lt; 2&nbsp;&amp;</p>"),
        ("a.html", "<img alt=dog title>", ["a b"], '<img alt="a b" title>'),
        ("a.html", '<img alt="A dog">', ['"x"'], '<img alt="&quot;x&quot;">'),
        ("a.html", """<p><a href="<b>" x=">'" y=it's">A dog""", ["z"], """<p><a href="<b>" x=">'" y=it's">z"""),
        ("a.html", "<script>title = 'A dog'</script><p>A cat", ["x"], "<script>title = 'A dog'</script><p>x"),
        ("a.html", '<meta charset="latin-1"><p>A dog', ["日"], '<meta charset="latin-1"><p>&#26085;'),
        ("a.properties", "a = it\n", ["ä 🙂"], "a = \\u00e4 \\ud83d\\ude42\n"),
        ("a.properties", "a = ü it\n", ["ä"], "a = ä\n"),
        ("a.properties", "a = {0} can''t\n", ["geht's"], "a = {0} geht''s\n"),
        ("a.srt", CUE + "A\ndog\n", ["ein Hund da"], CUE + "ein\nHund da\n"),
        ("a.srt", (CUE + "A\ndog\n").replace("\n", "\r"), ["a b"], (CUE + "a\nb\n").replace("\n", "\r")),
        ("a.srt", CUE + "A\n\n\ndog\n", ["a b c"], CUE + "a b c\n\n\ndog\n"),
        ("a.srt", CUE + "{\\an8}A <i>&\n", ["a --> <b"], CUE + "{\\an8}<i> a → <b\n"),
        ("a.srt", CUE + "A dog\n" + CUE + "A cat\n", ["a", "b"], CUE + "a\n" + CUE + "b\n"),
        ("a.srt", CUE + "- A\ndog\n- A cat\n", ["a b", "c"], CUE + "- a\nb\n- c\n"),
        ("a.srt", CUE + "<i>–A dog</i>\n<i>–A cat</i>\n", ["a", "b"], CUE + "<i>–a</i>\n<i>–b</i>\n"),
        ("a.srt", CUE + "A dog\n- a cat\n", ["a b c"], CUE + "a b\nc\n"),
        ("a.vtt", VTT + "<v Ann Bo>A &lt;dog&gt;\n", ["a --> &\u00a0b"], VTT + "<v Ann Bo>a --&gt; &amp;&nbsp;b\n"),
        ("a.vtt", VTT + "A <c.x.y>dog</c> <00:19.000>is\nhere\n", ["a b"], VTT + "<c.x.y>w</c>\n<00:19.000> a b\n"),
        (
            "a.xlf", "<xliff><trans-unit><source>A. B.</source><seg-source><mrk>A.</mrk> <mrk>B.</mrk></seg-source>"
            "<alt-trans/></trans-unit></xliff>", ["c"],
            "<xliff><trans-unit><source>A. B.</source><seg-source><mrk>A.</mrk> <mrk>B.</mrk></seg-source>"
            f"<target{MARK_1}><mrk>w</mrk> <mrk>w</mrk> c</target><alt-trans/></trans-unit></xliff>",
        ),
        (
            "a.xlf", "<xliff><segment><x:source>A <g>b</g></x:source><x:target><g/></x:target></segment></xliff>",
            ["c"],
            f"<xliff><segment{MARK_2}><x:source>A <g>b</g></x:source><x:target><g>w</g> c</x:target></segment></xliff>",
        ),
        ("a.json", '{"a": "x\\n\\ny"}', ["ä", '"'], '{"a": "ä\\n\\n\\""}'),
    ],
)  # fmt: skip
def test_what_is_written(name, text, translations, written):
    assert translated(read(name, text), translations).decode("utf-8") == written


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", "<p>1 <code>kept</code> <span class='notranslate'>kept</span><script>kept</script>"),
        ("a.md", "`kept` http://a.b\n\n    kept code\n"),
        ("a.po", 'msgid "%s %(name)s http://a.b"\nmsgstr ""\n\nmsgid "Yes"\nmsgstr "Ja"\n'),
        ("a.json", '{"a": "{{name}}", "@b": "kept", "c": {"@d": "kept"}, "n": "{n, plural, other {dogs}}"}'),
        ("messages.json", '{"a": {"message": "{{x}}", "description": "kept"}}'),
        ("a.xlf", '<xliff><file translate="no"><trans-unit><source>kept</source></trans-unit></file></xliff>'),
        ("b.xlf", "<xliff><segment><source>A</source><target><![CDATA[ B ]]></target></segment></xliff>"),
        ("a.properties", "a=it''s '{0}'\n#kept=kept\n"),
    ],
)  # fmt: skip
def test_what_is_not_translated(name, text):
    assert read(name, text, target_lang="").units == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.json", rf'{{"a": {"1" * 5000}, "b": "dog \ud800 \ud83d\ude42"}}', "dog \ufffd 🙂"),
        ("a.po", 'msgid "a\\xc3\\xa9 \\303\\251 \\377"\nmsgstr ""\n', "aé é \ufffd"),
        ("a.po", 'msgid ""\nmsgstr "Content-Type: charset=iso-8859-1\\n"\nmsgid "a\\xe9"\nmsgstr ""\n', "aé"),
        ("a.html", b'<meta charset="iso-8859-1"><p>\x93A\x94', "“A”"),
        ("a.html", b"<meta charset=windows-1252><p>\x81A\x9d", "\x81A\x9d"),
        ("a.html", b"<meta charset=gb2312><p>\x90\x41", "怉"),
        ("a.html", b'\xef\xbb\xbf<meta charset="latin-1"><p>\xc3\xa4', "ä"),
        ("a.vtt", VTT + f"&#{'1' * 5000}; a &#228;&lt;", "\ufffd a ä<"),
        ("a.xlf", f"<xliff><segment><source>a&#{'0' * 5000}65;</source></segment></xliff>", "a\ufffd"),
        ("a.xlf", b'<?xml version="1.0" encoding="iso-8859-1"?><xliff><segment><source>\xe4</source></segment></xliff>',
         "ä"),
    ],
)  # fmt: skip
def test_characters_are_read(name, text, expected):
    assert [unit.text for unit in read(name, text).units] == [expected]


def test_bytes_that_a_charset_of_windows_leaves_undefined_stay():
    raw = b"<meta charset=windows-1252><p>A\x81</p><p>\x8d B</p>"
    parts = list(read("a.html", raw).parts([None, "\x90\u65e5"]))
    assert b"".join(parts) == raw.replace(b"\x8d B", b"\x90&#26085;")
    with pytest.raises(DataError, match=r"0xaa\) is not valid CP1253"):
        read("a.html", b"<meta charset=windows-1253><p>\x81\xaa")
    document = read_document(b"<meta charset=windows-1253>\x81\xaa", "html", Reading(), name="", invalid="replace")
    assert document.text[-2:] == "\x81\ufffd"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.html", "go<img/>on", "go on"),
        ("a.html", "गर्मी<img>में", "गर्मी में"),
        ("a.html", "<b><a>Home</a><!-- --><a>News</a><a>42</a></b>", "Home News42"),
        ("a.html", "a<u>b</u><i>c</i><wbr>d<img>.", "abcd."),
        ("a.md", "go![x](y)on", "go on"),
    ],
)
def test_words_that_an_image_or_two_links_divide_are_apart(name, text, expected):
    assert [unit.text for unit in read(name, text).units] == [expected]


@pytest.mark.parametrize("charset", ["hex", "undefined", "idna", "unicode_escape", "none", "utf-16", "utf-8-sig"])
def test_names_that_are_no_charset_of_a_document_mean_utf_8(charset):
    document = read("a.html", f"<meta charset={charset}><p>ä</p><p>b</p>")
    parts = document.parts(["ö", "日"])
    assert b"".join(parts).decode() == f"<meta charset={charset}><p>ö</p><p>日</p>"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", "<p>See <a>page</a><img> for <i>more</i><wbr><b></b>, <u>or<img></u> it<code>x</code><img>.</p>"),
        ("a.html", "<p>a <b><i>b</i></b><i><img></i><img> c <img> <!-- d --> e <i></i><b>f</b></p>"),
        ("a.md", "See [page](u)![i](s) for\\![more](u) `![`\\![code](u)!\n"),
        ("a.vtt", VTT + "one <b>two</b><00:01.500> three\n"),
        ("a.html", "<u></u> A <wbr>dog<b> </b><i><img></i>"),
        ("a.html", "A <a> <img> <i> </i></a> dog"),
        ("a.html", "See <a>more <i></i></a> here, <u>a <img></u><wbr> dog, <b><u>or <i></i></u></b> <u>it <i></i></u>"),
    ],
)
def test_a_translation_equal_to_the_source_changes_nothing(name, text):
    document = read(name, text)
    links = [Link(place, place + 1, place, place + 1) for place in range(len(text))]
    written = [place(unit, unit.text, links[: len(unit.text)], document.escape) for unit in document.units]
    assert b"".join(document.parts(written)).decode() == text


def test_an_entity_of_a_file_stays_whatever_it_holds():
    entities = (
        """<!DOCTYPE xliff [<!ENTITY tag '<g id="1">x<x id="2"/></g>'> <!ENTITY name "Acme"> <!ENTITY eacute "é">]>"""
    )
    source = "<source>See <x/>&tag; of &name; caf&eacute;</source>"
    document = read("a.xlf", f"{entities}<xliff><segment>{source}</segment></xliff>")
    assert [unit.text for unit in document.units] == ["See &tag; of &name; café"]
    written = translated(document, ["w"])
    assert b"<target><x/> &tag; &name; w</target>" in written
    etree.fromstring(written)


def test_the_header_of_a_template_gets_language_and_plural_forms():
    template = (
        'msgid ""\nmsgstr ""\n"Language: \\n"\n"Content-Type: text/plain; charset=CHARSET\\n"\n'
        '"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"\n\n'
        'msgid "%d dog"\nmsgid_plural "%d dogs"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    )
    document = read("a.pot", template, target_lang="ru")
    assert [unit.text for unit in document.units] == ["%d dog", "%d dogs", "%d dogs"]
    written = translated(document, ["a", "b", "c"]).decode()
    assert '"Language: ru\\n"' in written
    assert 'charset=UTF-8\\n"\n"Plural-Forms: nplurals=3; plural=' in written
    assert "INTEGER" not in written
    assert written.endswith('msgstr[0] "%d a"\nmsgstr[1] "%d b"\nmsgstr[2] "%d c"\n')


@pytest.mark.parametrize(
    ("languages", "text", "written"),
    [
        ("en ar", '<html lang=en><p dir="LTR">a', '<html dir="rtl" lang=ar><p dir="rtl">w'),
        ("ar en", "<html lang=ar dir='rtl'><p>a <b dir=ltr>1</b>", "<html lang=en dir='ltr'><p><b dir=ltr>w</b> w"),
        ("he fa", "<html lang=he dir=rtl><p dir=auto>a", "<html lang=fa dir=rtl><p dir=auto>w"),
        ("en de", "<html><p dir=rtl>a", "<html><p dir=rtl>w"),
        ("en sd", "<p dir=ltr>a<pre dir=ltr>x</pre><input dir=ltr>", "<p dir=rtl>w<pre dir=ltr>x</pre><input dir=ltr>"),
        ("en zho_Hans", "<html lang=en>a", "<html lang=zh-Hans>w"),
    ],
)
def test_a_page_is_written_in_the_direction_of_its_language(languages, text, written):
    source, target = languages.split()
    assert translated(html.read(text, Reading(source, target)), ["w"]).decode() == written


@pytest.mark.parametrize(
    ("language", "lines"),
    [("ja", ["今日は", "晴れ"]), ("th", ["วันนี้ฝนตก", " ", "เราอยู่บ้าน"])],
)
def test_a_newline_is_a_space_where_the_language_has_one(language, lines):
    text = "\n".join(filter(str.strip, lines))
    assert [unit.text for unit in html.read(f"<p>{text}", Reading(language)).units] == ["".join(lines)]


@pytest.mark.parametrize(
    ("placed", "expected"), [("`a``b`", "`a` `b`"), ("x![i](s)", "x![i](s)"), ("![i](u)", "\\![i](u)")]
)
def test_markup_side_by_side_stays_what_it_is_in_markdown(placed, expected):
    document = read("a.md", "The `a` dog `b` in ![i](s) [i](u)")
    assert b"".join(document.parts([placed])).decode() == expected


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("- [ ] A dog\n- [x] A dog\n", "- [ ] w\n- [x] w\n"),
        ("A dog[^1].\n\n[^1]: A big dog.\n", "[^1] w\n\n[^1]: w\n"),
        ("# A dog {#dog .x}\n\nA dog\n{: .y}\n", "# w {#dog .x}\n\nw\n{: .y}\n"),
        ("> [!NOTE]\n> A dog\n", "> [!NOTE]\n> w\n"),
        (":::note\nA dog\n:::\n", ":::note\nw\n:::\n"),
        ("A dog\n::: {.x}\nA dog\n:::\n", "w\n::: {.x}\nw\n:::\n"),
        ("A $x_1$ dog\n$$\na * b * c\n$$\n", "$x_1$ $$\na * b * c\n$$ w\n"),
        ('!!! note "A"\n    A dog\n\nA dog!!! a\n', '!!! note "A"\n    A dog\n\nw\n'),
        ("It costs $5 and $10\n", "w\n"),
    ],
)
def test_marks_of_dialects_of_markdown_stay(text, written):
    document = read("a.md", text)
    assert translated(document, ["w"] * len(document.units)).decode() == written


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("See [a **dog**].", "[a **dog**] w"),
        ("See [`dog`][] and [dogs][a dog].", "[`dog`][] [w][a dog] w"),
        ("- [a dog]\n- [ ] see [a dog]", "- [a dog]\n- [ ] [a dog] w"),
    ],
)
def test_the_text_of_a_link_that_it_names_stays(text, written):
    definitions = "\n\n[a dog]: x\n[a **dog**]: y\n[`dog`]: z\n"
    document = read("a.md", text + definitions)
    assert translated(document, ["w"] * len(document.units)).decode() == written + definitions


@pytest.mark.parametrize(
    ("entry", "plain", "fuzzy"),
    [
        ('msgid "A"\nmsgstr ""\n', 'msgid "A"\nmsgstr "w"\n', '#, fuzzy\nmsgid "A"\nmsgstr "w"\n'),
        (
            '#. x\n#, c-format\nmsgctxt "c"\nmsgid "A"\nmsgstr ""\n',
            '#. x\n#, c-format\nmsgctxt "c"\nmsgid "A"\nmsgstr "w"\n',
            '#. x\n#, fuzzy, c-format\nmsgctxt "c"\nmsgid "A"\nmsgstr "w"\n',
        ),
        (
            '#: a.c:1\n#, fuzzy, c-format\n#| msgid "An"\nmsgid "A"\nmsgstr "x"\n',
            '#: a.c:1\n#, c-format\nmsgid "A"\nmsgstr "w"\n',
            '#: a.c:1\n#, fuzzy, c-format\nmsgid "A"\nmsgstr "w"\n',
        ),
        (
            'msgid "A"\nmsgid_plural "B"\nmsgstr[0] "x"\nmsgstr[1] ""\n',
            'msgid "A"\nmsgid_plural "B"\nmsgstr[0] "x"\nmsgstr[1] "w"\n',
            '#, fuzzy\nmsgid "A"\nmsgid_plural "B"\nmsgstr[0] "x"\nmsgstr[1] "w"\n',
        ),
        ('msgid "A"\nmsgstr "x"\n', 'msgid "A"\nmsgstr "x"\n', 'msgid "A"\nmsgstr "x"\n'),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_translations_of_a_catalogue_are_marked_for_a_review_if_asked(entry, plain, fuzzy, newline):
    before = 'msgid "y"\nmsgstr "x"\n\n'
    for asked, written in ((False, plain), (True, fuzzy)):
        document = read("a.po", (before + entry).replace("\n", newline), fuzzy=asked)
        found = translated(document, ["w"] * len(document.units)).decode()
        assert found == (before + written).replace("\n", newline)


def test_a_message_whose_only_new_translation_is_a_plural_form_is_marked_for_a_review():
    header = 'msgid ""\nmsgstr "Plural-Forms: nplurals=3; plural=0;\\n"\n\n'
    text = '#: a.c\nmsgid "a dog"\nmsgid_plural "dogs"\nmsgstr[0] "x"\nmsgstr[1] "y"\n'
    for asked in (False, True):
        document = read("a.po", header + text, target_lang="pl", fuzzy=asked)
        marked = text.replace("msgid ", "#, fuzzy\nmsgid ") if asked else text
        assert translated(document, ["w"]).decode() == f'{header}{marked}msgstr[2] "w"\n'


@pytest.mark.parametrize(
    ("unit", "written"),
    [
        ("<trans-unit><source>A</source></trans-unit>",
         f"<trans-unit><source>A</source><target{MARK_1}>w</target></trans-unit>"),
        ('<trans-unit approved="yes" id="1"><source>A</source><target state="final">x</target></trans-unit>',
         f'<trans-unit id="1"><source>A</source><target{MARK_1}>w</target></trans-unit>'),
        ('<segment state="final" id="1"><source>A</source><target>x</target></segment>',
         f'<segment id="1"{MARK_2}><source>A</source><target>w</target></segment>'),
    ],
)  # fmt: skip
def test_a_translation_in_xliff_is_marked_as_a_machines(unit, written):
    """A later run leaves it alone, and no model learns from it."""
    document = read("a.xlf", f"<xliff>{unit}</xliff>", retranslate=True)
    found = translated(document, ["w"]).decode()
    assert found == f"<xliff>{written}</xliff>"
    assert read("a.xlf", found).units == []
    assert list(xliff.translated(found, "utf-8")) == [None]


@pytest.mark.parametrize(
    ("language", "first"),
    [*((code, "a dog") for code in ("de", "fr", "pl")), *((code, "%d dogs") for code in ("ru", "sl", "ja", "km"))],
)
def test_a_form_of_many_numbers_is_made_from_the_plural_if_the_singular_names_no_number(language, first):
    template = 'msgid ""\nmsgstr ""\n"Language: \\n"\n\nmsgid "a dog"\nmsgid_plural "%d dogs"\nmsgstr[0] ""\n'
    units = read("a.pot", template, target_lang=language).units
    assert [unit.text for unit in units] == [first, *["%d dogs"] * (len(units) - 1)]


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="GNU gettext is not installed")
def test_msgfmt_takes_a_translated_catalogue(tmp_path):
    path = tmp_path / "a.po"
    document = read("a.po", PO, target_lang="de")
    path.write_bytes(translated(document, ["x"] * len(document.units)))
    command = ["msgfmt", "--check-format", "--check-domain", "-o", str(tmp_path / "a.mo"), str(path)]
    assert subprocess.run(command, capture_output=True, text=True).stderr == ""


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.po", 'msgid "a"\nmsgstr b\n', "a.po, line 2: expected a comment or a keyword"),
        ("a.po", PO.replace("Language: de", "Language: fr"), "the translations are in fr, but the model"),
        ("a.json", '{"a": 1,\n}', "a.json, line 2: this is not JSON"),
        ("a.xlf", "<xliff>\n<file></xliff>", "a.xlf, line 2: this is not XML: mismatched tag"),
        ("a.xlf", "<tmx/>", "a.xlf, line 1: expected <xliff>, got <tmx>"),
        ("a.json", "[" * 200_000, "a.json: its elements are nested too deeply."),
        ("a.xlf", f"<xliff><segment>{'<source>' * 3000}a{'</source>' * 3000}</segment></xliff>", "nested too deeply."),
        ("a.srt", "no cue\n", "no line with the times"),
        ("a.html", b"<p>\n\xff", "a.html, line 2: byte 5 of the file (0xff) is not valid UTF-8"),
    ],
)
def test_damaged_documents(name, text, problem):
    with pytest.raises(DataError, match=re.escape(problem)):
        read(name, text, target_lang="de")


def test_a_long_cue_is_divided_at_once():
    cue = CUE + "a b\n" * 20_000
    lines = translated(read("a.srt", cue), ["w " * 39_999 + "w"]).decode().removeprefix(CUE).splitlines()
    assert len(lines) == 20_000
    assert set(lines[:-1]) == {"w w"}
