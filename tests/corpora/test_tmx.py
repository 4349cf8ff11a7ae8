"""Translation memories: segments, languages, markup, encodings, and what hostile files may do."""

import gzip
import io
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt.corpora import formats, tmx
from nmt.corpora.formats import CorpusFile, ParallelText
from nmt.corpora.prepare import prepare
from nmt.corpora.recipe import own_recipe
from nmt.errors import DataError, NmtError
from nmt.text.lines import MAX_LINE_BYTES
from tests.growth import assert_linear

HEAD = '<?xml version="1.0"{}?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header srclang="en"/><body>'
TAIL = "</body></tmx>\n"


def unit(*variants, attribute="xml:lang"):
    """A unit of variants (language, content of the segment)."""
    inner = "".join(f"<tuv {attribute}={quoteattr(code)}><seg>{content}</seg></tuv>" for code, content in variants)
    return f"<tu>{inner}</tu>\n"


def document(*units, declared="", head=HEAD):
    return head.format(declared) + "".join(units) + TAIL


@pytest.fixture
def memory(tmp_path):
    """Read a document, or bytes, as a translation memory."""

    def read_document(content, languages=("en", "de"), name="memory.tmx"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return [pair and pair[:2] for pair in tmx.read(ParallelText([CorpusFile(path, str(path))], *languages))]

    return read_document


BOTH = unit(("en", "a dog"), ("de", "ein Hund"))


@pytest.mark.parametrize("attribute", ["xml:lang", "lang"])
def test_units_are_pairs_in_the_asked_direction(memory, attribute):
    units = unit(("de", "ein Hund"), ("fr", "un chien"), ("en", "a dog"), attribute=attribute)
    assert memory(document(units, BOTH)) == [("a dog", "ein Hund")] * 2
    assert memory(document(units), ("de", "fr")) == [("ein Hund", "un chien")]


@pytest.mark.parametrize(
    ("codes", "languages", "expected"),
    [
        (("en-GB", "DE-de"), ("en", "de"), ("0", "1")),
        (("en-GB", "en-US", "de"), ("en", "de"), ("0", "2")),
        (("en-GB", "en", "de"), ("en", "de"), ("1", "2")),
        (("en", "en", "de"), ("en", "de"), ("0", "2")),
        (("en", "pt"), ("en", "pt-BR"), ("0", "1")),
        (("en", "pt-PT"), ("en", "pt-BR"), None),
        (("en-US", "en-GB"), ("en-GB", "en-US"), ("1", "0")),
        (("en", "en-US"), ("en-GB", "en-US"), ("0", "1")),
        (("en",), ("en-GB", "en-US"), None),
        (("en",), ("en", "de"), None),
        (("fr", "it"), ("en", "de"), None),
        ((), ("en", "de"), None),
        (("", "de"), ("en", "de"), None),
    ],
)
def test_codes_with_a_region_fit(memory, codes, languages, expected):
    variants = [(code, str(number)) for number, code in enumerate(codes)]
    assert memory(document(unit(*variants), BOTH), languages)[0] == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('Press <bpt i="1">&lt;b&gt;</bpt>here<ept i="1">&lt;/b&gt;</ept>.', "Press here."),
        ("a<ph>{0}</ph>b<it pos='begin'>[x]</it>c<ut>\\b</ut>d", "abcd"),
        ('Open.<ph type="lb"/>Close.<ph x="1" type="X-BR">[1]</ph>Go.', "Open. Close. Go."),
        ("a<ph>&lt;br/&gt;</ph>b<ut>\\par</ut> c<it pos='end'> </it>d<bpt i='1'>&lt;/p&gt;</bpt>e", "a b c d e"),
        ("a<ph>&amp;nbsp;</ph>b<ph>&lt;bravo&gt;</ph>c<ph>{\\param}</ph>d", "a bcd"),
        ("a <hi>b <hi type='x'>c</hi></hi> d", "a b c d"),
        ("a<hi> b<ph>c</ph></hi>", "a b"),
        ("a<bpt i='1'>x<sub>note <ph>y</ph></sub>z</bpt> b", "a b"),
        ("one\n    two\tthree  four\r\n", "one two three  four"),
        ("  \n ", ""),
        ("<![CDATA[a < b]]> &amp; c &#xe9;", "a < b & c é"),
        ("a\u2028b\x85c\u00a0", "a\u2028b\x85c\u00a0"),
        ("a<!-- no --><?no text?>b", "ab"),
    ],
)
def test_a_segment_is_one_line_of_plain_text(memory, content, expected):
    assert memory(document(unit(("en", content), ("de", "x")))) == [(expected, "x")]


def test_names_may_be_in_a_namespace(memory):
    assert memory(document(BOTH).replace("<tmx ", '<tmx xmlns="http://www.lisa.org/tmx14" ')) == [("a dog", "ein Hund")]


def test_text_beside_segments_is_left_alone(memory):
    content = (
        "<tu><note>n</note><prop type='x'>p</prop><seg>not here</seg><tuv xml:lang='en'><note>n</note><seg>a</seg>tail"
        "</tuv><tuv xml:lang='de'><prop>p</prop><seg>b</seg></tuv></tu>"
    )
    assert memory(document(content)) == [("a", "b")]
    lonely = "<tu><tuv lang='de'><seg>b</seg></tuv><tuv lang='en'/><seg>not here</seg></tu>"
    assert memory(document(lonely)) == [None]


@pytest.mark.parametrize(
    ("encoding", "declared"),
    [
        ("utf-8", ""), ("utf-8-sig", ""), ("utf-16", ""), ("utf-16", "UTF-16"), ("utf-16-le", "UTF-16"),
        ("utf-16-be", "utf-16"), ("iso-8859-1", "ISO-8859-1"), ("cp1252", "windows-1252"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_every_encoding_of_xml_is_read(memory, encoding, declared, pack):
    text = document(unit(("en", "déjà"), ("de", "drüben")), declared=f' encoding="{declared}"' if declared else "")
    assert memory(pack(text.encode(encoding))) == [("déjà", "drüben")]


@pytest.mark.parametrize("declared", ["shift_jis", "no-such-encoding", "rot13", "idna", "utf-16"])
def test_an_encoding_that_cannot_be_read_is_an_error(memory, declared):
    with pytest.raises(DataError, match=r"memory\.tmx"):
        memory(document(BOTH, unit(("en", "é"), ("de", "é")), declared=f' encoding="{declared}"').encode("latin-1"))


@pytest.mark.parametrize(
    ("declared", "content"),
    [
        ('<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">', "&c;"),
        ('<!ENTITY file SYSTEM "/etc/hostname">', "&file;"),
        ('<!ENTITY % more SYSTEM "http://localhost/more.dtd"> %more;', "&more;"),
    ],
)
def test_no_entity_of_a_file_is_expanded(memory, declared, content):
    head = f"<!DOCTYPE tmx [{declared}]><tmx><body>"
    assert memory(document(BOTH, head=head)) == [("a dog", "ein Hund")]
    with pytest.raises(DataError, match=rf"memory\.tmx, line 2: the entity {content} is not one of XML"):
        memory(document(BOTH, unit(("en", f"a {content}"), ("de", "x")), head=head))
    nested = unit(("en", f"a <hi>b {content}</hi>"), ("de", "x"))
    with pytest.raises(DataError, match="is not one of XML"):
        memory(document(nested, head=head))


def test_entities_in_attributes_do_not_expand_without_end(memory):
    levels = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(8))
    head = f'<!DOCTYPE tmx [<!ENTITY e0 "0123456789">{levels}]><tmx><body>'
    with pytest.raises(DataError, match=r"memory\.tmx, line 1: is not valid XML"):
        memory(document(unit(("&e8;", "a")).replace("&amp;", "&"), head=head))


def test_an_entity_of_html_is_an_error_and_no_gap(memory):
    with pytest.raises(DataError, match=r"line 4: the entity &nbsp; is not one of XML"):
        memory(document(BOTH, unit(("en", "a&nbsp;b"), ("de", "x"))))
    with pytest.raises(DataError, match=r"line 1: is not valid XML .Entity 'nbsp' not defined"):
        memory(document(unit(("en", "a&nbsp;b"), ("de", "x")), head="<tmx><body>"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"line 1: is not valid XML \(.*([Ee]mpty|no element)"),
        ("a\tb\n", "line 1: is not valid XML .Start tag expected"),
        ("<html><p>x</p></html>", r"is not TMX: begins with <html>, not with <tmx>"),
        (document(BOTH)[:-20], "is not valid XML .*fetch or export it again"),
        (document("<tu><tuv></tu>"), "line 3: is not valid XML .Opening and ending tag mismatch"),
        (document(BOTH) + "<tmx/>", "Extra content at the end"),
        (document(BOTH).encode() + b"\xff", "Extra content at the end"),
    ],
)
def test_what_is_no_tmx_is_named(memory, content, message):
    with pytest.raises(DataError, match=rf"memory\.tmx.*{message}"):
        memory(content)


@pytest.mark.parametrize("size", [1, 7, 1 << 15])
@pytest.mark.parametrize(
    "character",
    [
        *("&#x1F;", "&#31;", "&#0012;", "&#x0;", "&#xb;", "\x01", "\x1f"),
        *("&#xD83D;&#xDE00;", "&#65535;", "&#1114112;", "<![CDATA[&#2;]]>"),
    ],
)
def test_a_character_that_no_xml_has_costs_its_unit_alone(memory, monkeypatch, character, size):
    read = tmx._Bounded.read
    monkeypatch.setattr(tmx._Bounded, "read", lambda self, _: read(self, size))
    damaged = unit(("en", f"Press{character} the key."), ("de", "x"))
    other = unit(("en", "a &amp; b"), ("fr", character), ("de", "&#x1F600;&#9;&#13;c &#x20;d"))
    found = memory(document(BOTH, damaged, other, BOTH))
    assert found == [("a dog", "ein Hund"), None, ("a & b", "😀 c  d"), ("a dog", "ein Hund")]


def test_the_languages_of_a_file_are_listed(tmp_path):
    (tmp_path / "m.tmx").write_text(document(BOTH, unit(("pt-BR", ""), ("en", "x")), "<tu><tuv xml:lang='fr'/></tu>"))
    text = ParallelText([CorpusFile(tmp_path / "m.tmx", "m.tmx")], "en", "no")
    assert tmx.languages(text) == ["en", "de", "pt-BR"]
    for content, found in ((BOTH, "m.tmx has text in en, de."), ("<tu><tuv xml:lang='en'/></tu>", "has no segments")):
        (tmp_path / "m.tmx").write_text(document(content))
        with pytest.raises(DataError, match=rf"has no pair of en and no\. Skipped units or lines .*: 1\. .*{found}"):
            own = own_recipe("m", source_lang="en", target_lang="no", train=[str(tmp_path / "m.tmx")])
            prepare(own, tmp_path / "data" / "m")


def test_a_damaged_archive_is_named(memory):
    with pytest.raises(DataError, match="damaged or truncated archive"):
        memory(gzip.compress(document(*[BOTH] * 100).encode())[:-9])


def test_a_segment_may_be_as_long_as_a_line_and_no_longer(memory):
    longest = "é" * (MAX_LINE_BYTES // 2)
    assert memory(document(unit(("en", longest), ("de", "x")))) == [(longest, "x")]
    for content in (longest + "x", "x" * (MAX_LINE_BYTES + 1)):
        with pytest.raises(DataError, match=r"memory\.tmx, line 3: the line is longer than"):
            memory(document(unit(("en", content), ("de", "x"))))
    assert memory(document(unit(("fr", longest * 2), ("en", "a"), ("de", "b")))) == [("a", "b")]


LONG = "a segment or a tag is longer than 16,777,216 bytes"
MANY = "has more than 100,000 elements in a segment, or more than 10,000 different names"


@pytest.mark.parametrize(
    ("begin", "repeated", "message"),
    [
        ("<tmx><x>", "<y>", "Excessive depth"),
        ("<tmx><x a='", "much ", LONG),
        ("<tmx><!--", "much ", LONG),
        ("<tmx>", "<?a b?>x", LONG),
        ("<!DOCTYPE tmx [", "<!ENTITY a 'b'>", LONG),
        ("<tmx><tu><tuv lang='en'><seg>", "much ", "Text node too long"),
        ("<tmx><tu><tuv lang='en'><seg>", "<hi/>" + "é" * 50, MANY),
        ("<tmx><tu>", f"<tuv lang='en-X'><seg>{'much ' * 200}</seg></tuv>", "Premature end"),
        ("<tmx>", "<tu><tuv lang='en-{}'/><tuv lang='{}'/></tu>", "Premature end"),
        ("<tmx>", f"<note>{'much ' * 50}</note>tail", "Premature end"),
        ("<tmx><x>", None, MANY),
    ],
)
def test_memory_is_bounded(tmp_path, monkeypatch, begin, repeated, message):
    """An endless file stops with an error, or takes no more memory the longer it is."""
    endless = Endless(begin, repeated)
    monkeypatch.setattr(formats, "open_bytes", lambda path: endless)
    before = anonymous_memory()
    with pytest.raises(DataError, match=rf"endless\.tmx.*{message}"):
        list(tmx.read(ParallelText([CorpusFile(tmp_path, "endless.tmx")], "en", "de")))
    assert endless.peak - before < 64 << 20


def anonymous_memory():
    """Bytes of this process, also those that libxml2 holds; 0 where the system does not tell."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else ["RssAnon: 0"]
    return 1024 * int(next(line for line in lines if line.startswith("RssAnon")).split()[1])


class Endless(io.RawIOBase):
    """A stream of 100 MiB, which seem endless to a test; it measures memory as it is read."""

    def __init__(self, begin, repeated):
        self.begin, self.repeated, self.sent, self.peak = begin.encode(), repeated, 0, 0

    def read(self, count=-1):
        self.peak = max(self.peak, anonymous_memory())
        if self.sent >= 100 << 20:
            return b""
        if not self.sent:
            block = self.begin
        elif self.repeated is None:
            block = b"".join(b"<n%d/>" % number for number in range(self.sent, self.sent + count // 10))
        elif "{}" in self.repeated:
            block = b"".join(
                self.repeated.replace("{}", f"{self.sent + n}{'x' * 5_000}").encode() for n in range(count // 10_000)
            )
        else:
            block = self.repeated.encode() * (count // len(self.repeated.encode()))
        self.sent += len(block)
        return block


@pytest.mark.parametrize("repeated", ["&amp;", " \n", "<ph>x</ph>", "<hi/>", "a", "\n", "  "])
def test_time_is_linear(memory, repeated):
    def read_segment(content):
        whole = content[: len(content) // len(repeated) * len(repeated)]
        memory(document(unit(("en", whole), ("de", "x"))))

    assert_linear(read_segment, repeated, 40_000)


class InBlocks(io.BytesIO):
    """A stream that gives few bytes at a time."""

    def __init__(self, content, size):
        super().__init__(content)
        self.size = size

    def read(self, count=-1):
        return super().read(self.size)


TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters="\ufffe\uffff")
    | st.sampled_from('<&>" ')
)


@given(
    pairs=st.lists(st.tuples(TEXT, TEXT)),
    block=st.integers(1, 40),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-be"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_pairs_survive(memory, monkeypatch, pairs, block, encoding):
    """In any encoding, whatever blocks the file comes in."""
    monkeypatch.setattr(formats, "open_bytes", lambda path: InBlocks(path.read_bytes(), block))
    units = [unit(("en-GB", escape(source)), ("de", escape(target))) for source, target in pairs]
    found = memory(document(*units, declared="").encode(encoding))
    assert found == [(source.strip(" "), target.strip(" ")) for source, target in pairs]


@given(content=st.text("<>/&;!?-[]\"' =tmxuvseghi\n"))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_markup_is_read_or_refused(memory, content):
    try:
        pairs = memory(document(content))
    except NmtError as error:
        assert "memory.tmx" in str(error)
    else:
        assert all(pair is None for pair in pairs)
