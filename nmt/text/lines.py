"""Reading and writing lines of text: the one place that reads a line.

A line ends at ``\\n`` and nowhere else. U+2028, U+0085, ``\\v`` and ``\\f`` are ordinary characters, so files that
other tools wrote in parallel stay parallel. A ``\\r`` before the ``\\n`` is dropped.
"""

from __future__ import annotations

import codecs
import functools
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, cast

from nmt.errors import DataError
from nmt.text import normalization
from nmt.text.compression import SUFFIXES, compression_of, is_damage, open_unpacked, unpacked
from nmt.text.languages import CHARACTERS_PER_WORD, UNSPACED, characters_of, is_unspaced

InvalidUtf8 = Literal["error", "replace"]
NormalizationRule = Literal["identity", "nfkc", "nfkc_cf", "nmt_nfkc", "nmt_nfkc_cf"]
"""SentencePiece's rules; those with ``cf`` fold case."""

STDIN = "-"
STANDARD_INPUT = "standard input"
"""What errors call :data:`STDIN`."""
MAX_LINE_BYTES = 1 << 22
"""The maximum length of a line of text, without its ending: 4 MiB, a long novel."""
_BLOCK = 1 << 18
_ASCII = bytes(range(128))

ARCHIVES = SUFFIXES
"""Endings of files that are decompressed when they are read."""

# UTF-32 comes first: its little-endian mark begins with that of UTF-16.
_OTHER_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_DOCUMENTS = {
    b"%PDF-": "a PDF document",
    b"{\\rtf": "an RTF document",
    b"PK\x03\x04": "a zip archive, or a document such as .docx or .odt",
    b"\xd0\xcf\x11\xe0": "a document of Microsoft Office",
}


class InvalidUtf8Error(DataError):
    """Bytes that are not UTF-8."""

    def __init__(self, found: str, advice: str = "Convert the file to UTF-8, for example with iconv.") -> None:
        """Join the two sentences of the message.

        Args:
            found: where the bytes are, as a sentence.
            advice: what to do about them, as a sentence.
        """
        super().__init__(f"{found} {advice}")
        self.found = found


def decode_line(raw: bytes, *, name: str, number: int, invalid: InvalidUtf8 = "error") -> str:
    """Turn the bytes of one line, with or without its ending, into text.

    Raises:
        InvalidUtf8Error: the bytes are not UTF-8 (and ``invalid`` is ``"error"``); names file, line and byte.
    """
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    if invalid == "replace":
        return raw.decode("utf-8", errors="replace")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidUtf8Error(
            f"{name}, line {number}: byte {error.start + 1} of the line (0x{raw[error.start]:02x}) is not valid UTF-8."
        ) from None


def iter_lines(stream: IO[bytes], *, name: str, invalid: InvalidUtf8 = "error") -> Iterator[str]:
    """Yield the lines of an open stream, each as soon as it is complete; see :func:`read_lines`."""
    return _lines(lambda: nullcontext(stream), name, invalid)


def _lines(opened: Callable[[], AbstractContextManager[IO[bytes]]], name: str, invalid: InvalidUtf8) -> Iterator[str]:
    # One generator, since each line passes through every generator on its way.
    with reading(name), opened() as stream:
        with_ending = MAX_LINE_BYTES + 1
        read_line = functools.partial(stream.readline, with_ending)
        for number, raw in enumerate(iter(read_line, b""), start=1):
            line = _beginning(raw, name) if number == 1 else raw
            if len(raw) == with_ending and not raw.endswith(b"\n"):
                raise line_too_long(f"{name}, line {number:,}")
            yield decode_line(line, name=name, number=number, invalid=invalid)


def line_too_long(name: str) -> DataError:
    """The error about a line that is longer than :data:`MAX_LINE_BYTES`."""
    return DataError(
        f"{name}: the line is longer than {MAX_LINE_BYTES:,} bytes, the maximum. Put one sentence or paragraph on each "
        "line."
    )


def _beginning(first: bytes, name: str) -> bytes:
    """The first line without a byte order mark, once it is known that the file has lines of UTF-8."""
    for mark, encoding in _OTHER_MARKS.items():
        if first.startswith(mark):
            raise DataError(
                f"{name}: is {encoding}, as its byte order mark says, and not UTF-8. Convert it, for example with "
                f"iconv -f {encoding} -t UTF-8."
            )
    if b"\0\0" in (first[0:4:2], first[1:4:2]):
        raise DataError(f"{name}: seems to be UTF-16, and not UTF-8. Convert it, for example with iconv.")
    if first.rstrip(b"\r").count(b"\r") > 1 and not first.endswith(b"\n"):
        raise DataError(
            f"{name}: is one line for nmt, since its lines end with \\r alone, as on old Macs. Convert it with "
            "tr '\\r' '\\n'."
        )
    if kind := next((kind for begin, kind in _DOCUMENTS.items() if first.startswith(begin)), None):
        raise DataError(f"{name}: is {kind}, not plain text. Save its text as a file in UTF-8.")
    return first.removeprefix(codecs.BOM_UTF8)


def open_bytes(path: Path | str) -> BinaryIO:
    """Open a file for reading, decompressed if needed (gzip, xz, bzip2 or zstd); ``-`` is standard input.

    Raises:
        DataError: the file does not exist or cannot be read.
    """
    if str(path) == STDIN:
        return unpacked(sys.stdin.buffer)
    try:
        return open_unpacked(Path(path))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None


def read_lines(
    path: Path | str,
    *,
    name: str | None = None,
    invalid: InvalidUtf8 = "error",
    opener: Callable[[Path | str], BinaryIO] = open_bytes,
) -> Iterator[str]:
    """Yield the lines of a file, compressed or not; ``-`` is standard input.

    A byte order mark at the beginning is skipped. The lines before an invalid one are yielded before the error is
    raised. A line that is too long is read (and decompressed) only up to the limit.

    Args:
        name: what errors call the file; its path if unset.
        invalid: raise an error at bytes that are not UTF-8, or replace them.
        opener: opens the file, decompressed.

    Raises:
        DataError: the file cannot be read, or is a damaged archive; a line is not UTF-8 (see :func:`decode_line`) or
            longer than :data:`MAX_LINE_BYTES`, or the byte order mark is that of UTF-16 or UTF-32.
    """
    name = name or (STANDARD_INPUT if str(path) == STDIN else str(path))
    return _lines(lambda: opener(path), name, invalid)


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn the errors of reading a file, compressed or not, into errors that name it.

    Raises:
        DataError: the file cannot be read, or is a damaged archive.
    """
    try:
        yield
    except IsADirectoryError:
        raise DataError(f"{name}: is a folder, not a text file.") from None
    except MemoryError:
        raise DataError(
            f"{name}: the memory does not suffice to read it. A damaged archive may ask for any amount: fetch or "
            "compress it again."
        ) from None
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise DataError(f"{name}: cannot be read ({error.strerror}).") from error
        if not is_damage(error):
            raise
        raise DataError(f"{name}: damaged or truncated archive ({error}). Fetch or compress it again.") from None


def can_be_read_again(path: Path | str) -> bool:
    """Whether a path is a regular file, not standard input or a pipe."""
    try:
        return str(path) != STDIN and Path(path).is_file()
    except OSError:  # A name that is too long. Opening the file raises the error that names it.
        return False


def count_lines(path: Path | str) -> int | None:
    """The number of lines of a file; None if it would have to be decompressed, or is a pipe."""
    if not can_be_read_again(path):
        return None
    try:
        if compression_of(Path(path)) is not None:
            return None
        with open_bytes(path) as stream:
            return _count_newlines(stream)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None


def _count_newlines(stream: IO[bytes]) -> int:
    """The number of lines, the last with or without an ending. Memory does not grow with their length."""
    lines, last = 0, b"\n"
    while block := stream.read(_BLOCK):
        lines += block.count(b"\n")
        last = block[-1:]
    return lines + (last != b"\n")


def read_parallel(
    source: Path | str, target: Path | str, *, invalid: InvalidUtf8 = "error"
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of two parallel files.

    Raises:
        DataError: the files differ in their number of lines; names both counts, as far as they are known.
    """
    lines = (read_lines(path, invalid=invalid) for path in (source, target))
    end = can_be_read_again(source) and can_be_read_again(target)
    return parallel(*lines, names=(str(source), str(target)), counted=end)


def parallel(
    first: Iterable[str], second: Iterable[str], *, names: tuple[str, str], counted: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield lines in pairs.

    Args:
        names: the names of both sides, for errors.
        counted: read the longer side to its end to count it. A stream may be endless.

    Raises:
        DataError: the sides differ in their number of lines; names both counts.
    """
    sources, targets = iter(first), iter(second)
    missing = object()
    pairs = 0
    while True:
        source_line, target_line = next(sources, missing), next(targets, missing)
        if source_line is missing and target_line is missing:
            return
        if source_line is missing or target_line is missing:
            rest = 1 + sum(1 for _ in itertools.chain(sources, targets)) if counted else 1
            counts = [pairs + (rest if line is not missing else 0) for line in (source_line, target_line)]
            raise not_parallel((names[0], counts[0]), (names[1], counts[1]), counted=counted)
        pairs += 1
        yield cast(str, source_line), cast(str, target_line)


def not_parallel(first: tuple[str, int], second: tuple[str, int], *, counted: bool = True) -> DataError:
    """The error about two sides with different numbers of lines.

    Args:
        first, second: name and number of lines of each side.
        counted: whether the longer side was counted to its end; otherwise it has at least this many.
    """
    more = max(first[1], second[1])
    counts = [count if counted or count < more else count - 1 for _, count in (first, second)]
    numbers = [
        f"{count:,}" if count == side[1] else f"more than {count:,}"
        for count, side in zip(counts, (first, second), strict=True)
    ]
    return DataError(
        f"{first[0]} has {numbers[0]} line{'s' * (counts[0] != 1)}, but {second[0]} has {numbers[1]}: the two must be "
        "parallel, line by line."
    )


def encode_line(line: str) -> bytes:
    """The bytes of one line with its ``\\n``. A ``\\n`` inside becomes a space, so one line stays one line."""
    return line.replace("\n", " ").encode("utf-8", errors="replace") + b"\n"


def one_line(text: str) -> str:
    """A text with spaces in place of line ends, such as pieces of a vocabulary without a normaliser may hold."""
    return text.replace("\n", " ").replace("\r", " ")


def unit_of_length(language: str) -> str:
    """What :func:`sentence_length` counts: ``word`` or ``character``."""
    return "character" if is_unspaced(language) else "word"


def sentence_length(line: str, language: str) -> int:
    """Length of a line in words, or in characters for languages written without spaces."""
    if is_unspaced(language):
        return sum(1 for character in line if not character.isspace())
    return len(words_of(line))


def words_of(line: str) -> list[str]:
    """The words of a line: what white space separates, or the word space of Ethiopic (U+1361)."""
    return line.replace("\u1361", " ").split()


def length_in_words(line: str) -> float:
    """Length of a line in words, comparable between scripts; 0 for a blank line alone.

    In scripts without spaces between words, :data:`nmt.text.languages.CHARACTERS_PER_WORD` characters count as one
    word. The characters decide, not the language, so a line in another language than expected has its true length.
    """
    if line.isascii():
        return len(line.split())
    unspaced, runs = _unspaced()
    if not unspaced.search(beyond_ascii(line)):
        return len(words_of(line))
    words = 0.0
    for per_word, run in runs:
        if count := sum(map(len, run.findall(line))):
            words += count / per_word
            line = run.sub(" ", line)
    return max(1.0, words + sum(any(map(str.isalnum, word)) for word in words_of(line)))


@functools.cache
def _unspaced() -> tuple[Any, list[tuple[float, Any]]]:
    """Patterns of scripts without spaces between words: a character; runs, each with the number that make a word."""
    import regex  # its import takes longer than that of this module, and only cleaning counts like this

    scripts: dict[float, list[str]] = {}
    for script, per_word in CHARACTERS_PER_WORD.items():
        scripts.setdefault(per_word, []).append(script)
    runs = [(per_word, regex.compile(f"[{characters_of(same)}]+")) for per_word, same in scripts.items()]
    return regex.compile(f"[{UNSPACED}]"), runs


def beyond_ascii(line: str) -> str:
    """The characters of a line that are not ASCII."""
    return line.encode("utf-8", "replace").translate(None, _ASCII).decode()


def comparison_key(line: str) -> str:
    """The form in which equal sentences are equal: NFC, with white space folded and trimmed."""
    return " ".join(normalization.nfc(line).split())
