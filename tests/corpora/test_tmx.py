"""Translation memories: segments, languages, markup, encodings, and what hostile files may do."""

import gzip
import io
import tracemalloc
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt.corpora import tmx
from nmt.corpora.pair_file import PairFile
from nmt.errors import DataError, NmtError
from nmt.text import MAX_LINE_BYTES
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
        return [pair and pair[:2] for pair in tmx.read(PairFile(path, str(path), *languages))]

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
        ("a<ph>{0}</ph>b<it pos='begin'>[x]</it>c<ut>\\par</ut>d", "abcd"),
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


LAUGHS = """<?xml version="1.0"?>
<!DOCTYPE tmx [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>
<tmx><body>"""


@pytest.mark.parametrize(
    "head",
    [
        LAUGHS,
        '<!DOCTYPE tmx [<!ENTITY file SYSTEM "/etc/hostname">]><tmx><body>',
        '<!DOCTYPE tmx [<!ENTITY % more SYSTEM "http://localhost/more.dtd"> %more;]><tmx><body>',
        '<!DOCTYPE tmx [<!ATTLIST seg xml:lang CDATA "much text for each segment">]><tmx><body>',
    ],
)
def test_declarations_of_a_file_are_refused(memory, head):
    with pytest.raises(DataError, match=r"memory\.tmx, line \d: declares entities or attributes of its own"):
        memory(document(unit(("en", "&c;"), ("de", "&file;")), head=head.replace("{", "{{").replace("}", "}}")))


def test_an_entity_of_html_is_an_error_and_no_gap(memory):
    with pytest.raises(DataError, match=r"line 4: the entity &nbsp; is not one of XML"):
        memory(document(BOTH, unit(("en", "a&nbsp;b"), ("de", "x"))))
    with pytest.raises(DataError, match="undefined entity"):
        memory(document(unit(("en", "a&nbsp;b"), ("de", "x")), head="<tmx><body>"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"line 1, column 1: is not valid XML \(no element found\)"),
        ("a\tb\n", "line 1, column 1: is not valid XML"),
        ("<html><p>x</p></html>", r"is not TMX: begins with <html>, not with <tmx>"),
        (document(BOTH)[:-20], "is not valid XML .*fetch or export it again"),
        (document("<tu><tuv></tu>"), "mismatched tag"),
        (document(BOTH) + "<tmx/>", "junk after document element"),
        (document(unit(("en", "&#1;"), ("de", "x"))), "reference to invalid character number"),
        (document(BOTH).encode() + b"\xff", "not well-formed"),
    ],
)
def test_what_is_no_tmx_is_named(memory, content, message):
    with pytest.raises(DataError, match=rf"memory\.tmx.*{message}"):
        memory(content)


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


@pytest.mark.parametrize(
    ("begin", "repeated", "message"),
    [
        ("<tmx><x>", "<y>", "has elements more than 100 deep"),
        ("<tmx><x a='", "much ", "a tag or comment is longer than 4,194,304 bytes"),
        ("<tmx><!--", "much ", "a tag or comment is longer than 4,194,304 bytes"),
        ("<tmx><tu><tuv lang='en'><seg>", "much ", "the line is longer than 4,194,304 bytes"),
        ("<tmx><tu><tuv lang='en'><seg>", "<hi/>" + "é" * 50, "the line is longer than 4,194,304 bytes"),
        ("<tmx><tu>", f"<tuv lang='en-X'><seg>{'much ' * 200}</seg></tuv>", "no element found|unclosed token"),
        ("<tmx>", "<tu><tuv lang='en-{}'/><tuv lang='{}'/></tu>", "no element found|unclosed token"),
        ("<tmx><x>", None, "has more than 10,000 different names"),
    ],
)
def test_memory_is_bounded(tmp_path, monkeypatch, begin, repeated, message):
    """An endless file stops with an error, or takes no more memory the longer it is."""
    monkeypatch.setattr(tmx, "open_bytes", lambda path: Endless(begin, repeated))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=message):
            list(tmx.read(PairFile(tmp_path, "endless.tmx", "en", "de")))
        assert tracemalloc.get_traced_memory()[1] < 36 << 20
    finally:
        tracemalloc.stop()


class Endless(io.RawIOBase):
    """A stream of 100 MiB, which seem endless to a test."""

    def __init__(self, begin, repeated):
        self.begin, self.repeated, self.sent = begin.encode(), repeated, 0

    def read(self, count=-1):
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
    monkeypatch.setattr(tmx, "_BLOCK", block)
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
