"""Lines in and out, whatever is in them."""

import bz2
import codecs
import errno
import gzip
import io
import itertools
import lzma
import os
import subprocess
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.text.compression import unpacked
from nmt.text.lines import (
    MAX_LINE_BYTES,
    comparison_key,
    count_lines,
    encode_line,
    iter_lines,
    length_in_words,
    parallel,
    read_lines,
    read_parallel,
    sentence_length,
    unit_of_length,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"))


@given(st.lists(LINE))
def test_lines_come_back_as_they_were_written(lines):
    stream = io.BytesIO(b"".join(map(encode_line, lines)))
    expected = [line.removesuffix("\r") for line in lines]
    if expected:
        expected[0] = expected[0].removeprefix("\ufeff")
    assert list(iter_lines(stream, name="memory")) == expected


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\u0085", "\v", "\f", "\x1c", "\x1d", "\x1e", "\r"])
def test_only_a_newline_ends_a_line(mark):
    assert list(iter_lines(io.BytesIO(f"a{mark}b\nc\n".encode()), name="memory")) == [f"a{mark}b", "c"]


@pytest.mark.parametrize(
    ("content", "lines"),
    [(b"", []), (b"\n", [""]), (b"a", ["a"]), (b"a\r\nb\r\n", ["a", "b"]), (b"\n\na\n ", ["", "", "a", " "])],
)
def test_blank_and_unterminated_lines_count(content, lines):
    assert list(iter_lines(io.BytesIO(content), name="memory")) == lines


def zstd_compress(content: bytes) -> bytes:
    """As the program zstd does: with a checksum."""
    return zstd.compress(content, options={zstd.CompressionParameter.checksum_flag: 1})


COMPRESSORS = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress, ".zst": zstd_compress}


@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), *COMPRESSORS.items()])
@pytest.mark.parametrize("is_named", [True, False])
def test_reads_plain_and_compressed_files_whatever_their_names(tmp_path, suffix, pack, is_named):
    path = tmp_path / (f"text.en{suffix}" if is_named else "text.en")
    path.write_bytes(pack("\ufeffeins\nzwei \ufeff ß\n".encode()))
    assert list(read_lines(path)) == ["eins", "zwei \ufeff ß"]
    assert count_lines(path) == (None if suffix else 2)


class Arriving(io.RawIOBase):
    """A pipe that things arrive in bit by bit."""

    def __init__(self, parts):
        self.parts = list(parts)

    def readable(self):
        return True

    def readinto(self, buffer):
        part = self.parts.pop(0) if self.parts else b""
        buffer[: len(part)] = part
        return len(part)


@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), *COMPRESSORS.items()])
@pytest.mark.parametrize("content", [b"", b"a\nb\n", b"BZh9\n", b"(\n", b"B"])
def test_what_comes_through_a_pipe_is_recognised_byte_by_byte(suffix, pack, content):
    parts = (bytes([byte]) for byte in pack(content))
    assert unpacked(io.BufferedReader(Arriving(parts))).read() == content


def test_a_disk_that_fails_while_a_file_is_read_is_an_error_that_names_it(tmp_path):
    class Broken(io.BytesIO):
        def readline(self, size=-1):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.raises(DataError, match=r"in\.txt: cannot be read \(Input/output error\)"):
        list(read_lines(tmp_path / "in.txt", opener=lambda path: Broken()))


def test_a_line_that_arrived_is_served_before_more_is_read():
    stream = Arriving([b"a\n", b"BZ", b"h9\nb"])
    lines = iter_lines(unpacked(io.BufferedReader(stream)), name="memory")
    assert (next(lines), stream.parts) == ("a", [b"BZ", b"h9\nb"])
    assert list(lines) == ["BZh9", "b"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_other_encodings_are_named_by_their_mark(tmp_path, encoding):
    (tmp_path / "text").write_bytes("\ufeffeins\n".encode(encoding))
    with pytest.raises(DataError, match=rf"text: is {encoding[:6].upper()}.*iconv -f {encoding[:6].upper()}"):
        list(read_lines(tmp_path / "text", invalid="replace"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("one\ntwo\n".encode("utf-16-le"), "text: seems to be UTF-16, and not UTF-8"),
        ("one\ntwo\n".encode("utf-16-be"), "text: seems to be UTF-16, and not UTF-8"),
        (b"one\rtwo\rthree", r"text: is one line for nmt.*tr '\\r' '\\n'"),
        (b"one\r" * MAX_LINE_BYTES, r"text: is one line for nmt"),
    ],
)
def test_a_file_without_lines_of_utf_8_is_refused(tmp_path, content, message):
    """All of these are valid UTF-8: each would be read as other lines than its program wrote."""
    (tmp_path / "text").write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(read_lines(tmp_path / "text"))
    (tmp_path / "text").write_bytes(b"one\rstill one\r\r\ntwo\0\0\n")
    assert list(read_lines(tmp_path / "text")) == ["one\rstill one\r", "two\0\0"]


def test_a_mark_is_no_line_of_its_own(tmp_path):
    (tmp_path / "text").write_bytes(codecs.BOM_UTF8)
    assert list(read_lines(tmp_path / "text")) == [""]
    assert count_lines(tmp_path / "text") == 1


def test_invalid_utf8_is_named_by_file_line_and_byte_after_the_lines_before_it(tmp_path):
    path = tmp_path / "bad.en"
    path.write_bytes(b"good\nfine\nab\xff\xfecd\nlater\n")
    served = []
    with pytest.raises(DataError, match=r"bad\.en, line 3: byte 3 .*0xff"):
        for line in read_lines(path):
            served.append(line)
    assert served == ["good", "fine"]
    assert list(read_lines(path, invalid="replace")) == ["good", "fine", "ab\ufffd\ufffdcd", "later"]


@pytest.mark.parametrize(("suffix", "pack"), COMPRESSORS.items())
@pytest.mark.parametrize("damage", ["cut", "changed", "not one at all"])
def test_a_damaged_archive_is_an_error(tmp_path, suffix, pack, damage):
    path = tmp_path / f"text{suffix}"
    content = bytearray(pack(os.urandom(20_000).hex().encode()))
    if damage == "cut":
        del content[-20:]
    elif damage == "changed":
        content[15_000:15_100] = bytes(100)
    else:
        content = bytearray(b"eins\n")
    path.write_bytes(content)
    with pytest.raises(DataError, match="damaged or truncated"):
        list(read_lines(path))


def test_an_archive_that_asks_for_more_memory_than_there_is_is_an_error(tmp_path):
    """Its header says how large the dictionary is: 4 GiB, after four changed bytes."""
    content = bytearray(lzma.compress(b"a line\n", format=lzma.FORMAT_ALONE))
    content[1:5] = b"\xff" * 4
    (tmp_path / "text.xz").write_bytes(content)
    program = """if True:
        import resource, sys
        from nmt.errors import DataError
        from nmt.text.lines import read_lines
        resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000,) * 2)
        try:
            list(read_lines(sys.argv[1]))
        except DataError as error:
            print(error)
    """
    words = [sys.executable, "-c", program, tmp_path / "text.xz"]
    result = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "text.xz: the memory does not suffice to read it." in result.stdout


@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), *COMPRESSORS.items()])
def test_a_line_without_end_is_an_error_with_its_place_before_it_is_in_memory(tmp_path, suffix, pack):
    path = tmp_path / f"text{suffix}"
    path.write_bytes(pack(b"eins\nzwei\n" + bytes(12 * MAX_LINE_BYTES)))
    served = []
    tracemalloc.start()
    with pytest.raises(DataError, match=rf"text{suffix}, line 3: the line is longer than 4,194,304 bytes, the maximum"):
        served.extend(read_lines(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert served == ["eins", "zwei"]
    assert peak < 6 * MAX_LINE_BYTES


@pytest.mark.parametrize("ending", [b"", b"\n", b"\nb\n"])
def test_a_line_of_the_maximum_length_is_served(ending):
    longest = b"a" * MAX_LINE_BYTES
    lines = list(iter_lines(io.BytesIO(longest + ending), name="memory"))
    assert lines[0] == longest.decode()
    with pytest.raises(DataError, match="memory, line 1: the line is longer"):
        list(iter_lines(io.BytesIO(b"a" + longest + ending), name="memory"))


@pytest.mark.parametrize("content", [b"", b"\n", b"a", b"a\n", b"a\n\nb", b"a" * 700_000 + b"\nb"])
def test_lines_are_counted_as_they_are_served(tmp_path, content):
    (tmp_path / "text").write_bytes(content)
    assert count_lines(tmp_path / "text") == len(list(read_lines(tmp_path / "text")))


@pytest.mark.parametrize(
    ("content", "line"), [(b"a\r\r\n", "a\r"), (b"a\r\n", "a"), (b"\r\r", "\r"), (b"\ra\n", "\ra")]
)
def test_one_carriage_return_before_the_end_is_dropped(content, line):
    assert list(iter_lines(io.BytesIO(content), name="memory")) == [line]


def test_lines_are_counted_where_that_uses_nothing_up(tmp_path):
    (tmp_path / "plain").write_bytes(b"a\n\nb")
    (tmp_path / "packed.gz").write_bytes(gzip.compress(b"a\n"))
    os.mkfifo(tmp_path / "pipe")
    assert [count_lines(tmp_path / name) for name in ("plain", "packed.gz", "pipe", "none")] == [3, None, None, None]
    assert count_lines("-") is None


def test_a_missing_file_and_a_folder_are_errors(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.en"):
        list(read_lines(tmp_path / "nowhere.en"))
    with pytest.raises(DataError, match=r"cannot be read|folder"):
        list(read_lines(tmp_path))


@pytest.mark.parametrize(("left", "right"), [(3, 5), (5, 3), (0, 1), (7, 6)])
def test_unequal_parallel_files_name_both_counts(tmp_path, left, right):
    (tmp_path / "a").write_text("x\n" * left)
    (tmp_path / "b").write_text("y\n" * right)
    with pytest.raises(DataError, match=rf"a has {left} lines, but .*b has {right}"):
        list(read_parallel(tmp_path / "a", tmp_path / "b"))


@pytest.mark.parametrize("lengths", [(3, None), (None, 3)])
def test_an_endless_stream_is_not_read_to_its_end(lengths):
    streams = (itertools.repeat("x", length) if length is not None else itertools.repeat("y") for length in lengths)
    with pytest.raises(DataError, match=r"(has|has more than) 3 lines, but b has (3|more than 3)"):
        list(parallel(*streams, names=("a", "b")))


def test_equal_parallel_files_give_their_pairs(tmp_path):
    (tmp_path / "a").write_text("1\n2\n")
    (tmp_path / "b").write_text("eins\nzwei")
    assert list(read_parallel(tmp_path / "a", tmp_path / "b")) == [("1", "eins"), ("2", "zwei")]


def test_a_line_end_inside_a_line_cannot_break_the_count():
    assert encode_line("a\nb") == b"a b\n"


@pytest.mark.parametrize(
    ("line", "language", "length"),
    [("a b  c", "en", 3), ("你好 吗", "zh", 3), ("ありがとう", "ja", 5), ("ሰላም፡ለሁሉ፡ሰው።", "am", 3)],
)
def test_length_is_in_words_or_characters(line, language, length):
    assert sentence_length(line, language) == length
    assert unit_of_length(language) == ("character" if language in ("zh", "ja") else "word")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a - b", 3), ("", 0), (" \u3000\t", 0), ("ö ,", 2), ("你好吗", 2), ("你好吗。", 2),
        ("用 Python 3 写", 2 + 2 / 1.5), ("用Python写", 1 + 2 / 1.5), ("จ.", 1), ("สวัสดี", 6 / 5), ("。。", 1),
        ("한국어 문장", 2), ("コーヒー・ｶﾞｽ", 7 / 4), ("ሰላም፡ለሁሉ፡ሰው።", 3), ("ሰላም ለሁሉ", 2),
    ],
)  # fmt: skip
def test_length_in_words_is_comparable_between_scripts(line, words):
    assert length_in_words(line) == pytest.approx(words)


def test_comparison_ignores_form_and_white_space():
    assert comparison_key(" Stra\u00dfe  u\u0308ber\t") == comparison_key("Stra\u00dfe \u00fcber")
    assert comparison_key("a") != comparison_key("A")


def test_a_name_that_is_too_long_is_an_error_and_no_traceback(tmp_path):
    with pytest.raises(DataError, match=r"cannot be read \(File name too long\)"):
        list(read_parallel(tmp_path / ("x" * 300), tmp_path / "b"))


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"%PDF-1.7\n\xe2", "a PDF document"),
        (b"PK\x03\x04\x14\x00\n", "a zip archive"),
        (b"{\\rtf1\\ansi a}\n", "an RTF document"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a document of Microsoft Office"),
    ],
)
def test_a_document_is_no_text(tmp_path, content, kind):
    (tmp_path / "text").write_bytes(content)
    with pytest.raises(DataError, match=f"text: is {kind}.* not plain text"):
        list(read_lines(tmp_path / "text", invalid="replace"))
