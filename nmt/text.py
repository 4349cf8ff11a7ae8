"""Lines of text in and out, as bytes: the one place that reads a line of text.

A line ends at ``\\n`` and nowhere else. U+2028, U+0085, ``\\v`` and ``\\f`` are characters like any other, so two
files that other tools wrote line by line stay parallel here. A ``\\r`` before the ``\\n`` is dropped.
"""

from __future__ import annotations

import functools
import gzip
import lzma
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, BinaryIO, Literal, cast

from nmt.errors import DataError

InvalidUtf8 = Literal["error", "replace"]
NormalizationRule = Literal["identity", "nfkc", "nfkc_cf", "nmt_nfkc", "nmt_nfkc_cf"]
"""SentencePiece's rules; those with ``cf`` fold case."""

STDIN = "-"
ARCHIVES = (".gz", ".xz")
"""Endings of files that are unpacked when they are read."""

# Languages whose writing does not put spaces between words.
_UNSPACED_LANGUAGES = frozenset({"zh", "ja", "th", "km", "lo", "my"})


def decode_line(raw: bytes, *, name: str, number: int, invalid: InvalidUtf8 = "error") -> str:
    """Turn the bytes of one line, with or without its ending, into text.

    Raises:
        DataError: the bytes are not UTF-8 (and ``invalid`` is not ``"replace"``); names file, line and byte.
    """
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    if invalid == "replace":
        return raw.decode("utf-8", errors="replace")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}, line {number}: byte {error.start + 1} of the line (0x{raw[error.start]:02x}) is not valid "
            "UTF-8. Convert the file to UTF-8, for example with iconv."
        ) from None


def iter_lines(stream: IO[bytes], *, name: str, invalid: InvalidUtf8 = "error") -> Iterator[str]:
    """Serve the lines of an open stream one by one, each as soon as it is complete.

    The lines before an invalid one are served before its error is raised.
    """
    for number, raw in enumerate(stream, start=1):
        yield decode_line(raw, name=name, number=number, invalid=invalid)


def open_bytes(path: Path | str) -> BinaryIO:
    """Open a file for reading: plain, ``.gz`` or ``.xz``; ``-`` is standard input.

    Raises:
        DataError: there is no such file, or it may not be read.
    """
    if str(path) == STDIN:
        return sys.stdin.buffer
    path = Path(path)
    try:
        if path.suffix == ".gz":
            return cast(BinaryIO, gzip.open(path, "rb"))
        if path.suffix == ".xz":
            return cast(BinaryIO, lzma.open(path, "rb"))
        return path.open("rb")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None


def read_lines(path: Path | str, *, invalid: InvalidUtf8 = "error") -> Iterator[str]:
    """Serve the lines of a file (plain, ``.gz``, ``.xz``, or ``-`` for standard input).

    Raises:
        DataError: the file cannot be read, is a damaged archive, or holds invalid UTF-8.
    """
    name = "standard input" if str(path) == STDIN else str(path)
    stream = open_bytes(path)
    try:
        yield from iter_lines(stream, name=name, invalid=invalid)
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError) as error:
        raise DataError(f"{name}: damaged or truncated archive ({error}). Fetch or pack it again.") from None
    except IsADirectoryError:
        raise DataError(f"{name}: is a folder, not a file of text.") from None
    finally:
        if stream is not sys.stdin.buffer:
            stream.close()


def can_be_read_again(path: Path | str) -> bool:
    """Whether a path leads to a file, and not to standard input or another pipe."""
    return str(path) != STDIN and Path(path).is_file()


def count_lines(path: Path | str) -> int | None:
    """How many lines a file has; None where only unpacking it, or using it up, would tell."""
    if not can_be_read_again(path) or Path(path).suffix in ARCHIVES:
        return None
    with open_bytes(path) as stream:
        return sum(1 for _ in stream)


def read_parallel(
    source: Path | str, target: Path | str, *, invalid: InvalidUtf8 = "error"
) -> Iterator[tuple[str, str]]:
    """Serve the pairs of two parallel files.

    Raises:
        DataError: the files differ in their number of lines; names both counts.
    """
    lines = (read_lines(path, invalid=invalid) for path in (source, target))
    return parallel(*lines, names=(str(source), str(target)))


def parallel(first: Iterable[str], second: Iterable[str], *, names: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """Serve lines in pairs.

    Args:
        names: of the two, for errors.

    Raises:
        DataError: there are more of one than of the other; names both counts.
    """
    sources, targets = iter(first), iter(second)
    missing = object()
    pairs = 0
    while True:
        source_line, target_line = next(sources, missing), next(targets, missing)
        if source_line is missing and target_line is missing:
            return
        if source_line is missing or target_line is missing:
            source_count = pairs + (source_line is not missing) + sum(1 for _ in sources)
            target_count = pairs + (target_line is not missing) + sum(1 for _ in targets)
            raise not_parallel((names[0], source_count), (names[1], target_count))
        pairs += 1
        yield cast(str, source_line), cast(str, target_line)


def not_parallel(first: tuple[str, int], second: tuple[str, int]) -> DataError:
    """What is wrong with two files, or the like, that have so many lines."""
    return DataError(
        f"{first[0]} has {first[1]:,} lines, but {second[0]} has {second[1]:,}: the two must be parallel, line by line."
    )


def write_lines(stream: IO[bytes], lines: Iterable[str]) -> int:
    """Write each line with a ``\\n`` behind it; return how many there were."""
    count = 0
    for line in lines:
        stream.write(encode_line(line))
        count += 1
    return count


def encode_line(line: str) -> bytes:
    """The bytes of one line, its ``\\n`` included. A ``\\n`` inside becomes a space: one line stays one line."""
    return line.replace("\n", " ").encode("utf-8", errors="replace") + b"\n"


def is_unspaced(language: str) -> bool:
    """Whether a language is written without spaces between words."""
    return primary_language(language) in _UNSPACED_LANGUAGES


def primary_language(code: str) -> str:
    """The language of a code, without region or script: ``pt`` of ``pt-BR``."""
    return code.replace("_", "-").split("-")[0].lower()


def sentence_length(line: str, language: str) -> int:
    """Length of a line in words, or in characters for languages written without spaces."""
    if is_unspaced(language):
        return sum(1 for character in line if not character.isspace())
    return len(line.split())


def comparison_key(line: str) -> str:
    """What makes two lines the same sentence: NFC, with white space folded and trimmed."""
    return " ".join(unicodedata.normalize("NFC", line).split())


def normalizer(
    *, nfc: bool, punctuation: bool, language: str, rule: NormalizationRule = "identity"
) -> Callable[[str], str]:
    """The text normalisation of a recipe and a vocabulary as one function from line to line.

    Args:
        nfc: Unicode normal form C.
        punctuation: the Moses steps: normalise punctuation, then remove non-printing characters.
        language: code of the language, which the Moses rules depend on.
        rule: of SentencePiece, applied last; spaces are left as they are.
    """
    steps: list[Callable[[str], str]] = []
    if nfc:
        steps.append(functools.partial(unicodedata.normalize, "NFC"))
    if punctuation:
        from sacremoses import MosesPunctNormalizer

        moses = MosesPunctNormalizer(lang=language, pre_replace_unicode_punct=False, post_remove_control_chars=True)
        steps.append(moses.normalize)
    if rule != "identity":
        from sentencepiece import SentencePieceNormalizer

        sentencepiece = SentencePieceNormalizer(
            rule_name=rule, add_dummy_prefix=False, escape_whitespaces=False, remove_extra_whitespaces=False
        )
        steps.append(sentencepiece.normalize)

    def normalize(line: str) -> str:
        for step in steps:
            line = step(line)
        return line

    return normalize
