"""The files and pipes that are translated: what may be read and written, and what may not.

:mod:`nmt.translation.writing_lines` writes the lines themselves.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import IO

from nmt.documents.document import Document, Reading
from nmt.documents.formats import InputFormat, read_document
from nmt.errors import ConfigError, DataError
from nmt.io.input_files import InputFiles
from nmt.io.streams import naming_stream, refuse_second_stdin
from nmt.option_fields import Precision
from nmt.record import Record
from nmt.reporting import SILENT, Reporter
from nmt.text.lines import (
    ARCHIVES,
    STANDARD_INPUT,
    STDIN,
    InvalidUtf8,
    InvalidUtf8Error,
    can_be_read_again,
    count_lines,
    not_parallel,
    open_bytes,
    parallel,
    read_lines,
    read_parallel,
)
from nmt.text.lines import reading as read_errors
from nmt.translation.jobs import Pairs, entries_of
from nmt.translation.lineage import translation_record
from nmt.translation.resuming import OutputFile

_STANDARD_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
_NOT_PLAIN = {
    "a document": "doc docx epub odp ods odt pdf ppt pptx rtf xls xlsx",
    "gettext messages": "po pot",
    "structured data": "csv ini json jsonl properties strings toml tsv yaml yml",
    "subtitles": "ass sbv srt ssa ttml vtt",
    "text with markup": "adoc markdown md rst tex",
    "a web page": "htm html xhtml",
    "XML": "mqxliff resx sdlxliff sgm sgml tmx ttx xlf xliff xml",
}
"""What files are by the endings of their names, if more than their lines of text would be translated."""


@dataclass(frozen=True)
class Streams:
    """Where lines are read from and written to."""

    input: Path
    beside: Mapping[str, Path | None]
    """The files parallel to the input, by option; at most one is given."""
    output: Path
    _: KW_ONLY
    fresh: bool = False
    interactive: bool | None = False
    """Whether each line is answered before the next is read; None: if it is typed."""
    invalid_utf8: InvalidUtf8 = "error"
    input_format: InputFormat = "lines"
    """What is translated of the input."""
    is_chosen: bool = False
    """Whether the user named that format, so that the name of the input says nothing."""
    models: tuple[Path, ...] = ()
    """The bundles of the models."""
    glossary: Path | None = None
    """What the output depends on beside them; the caller reads it."""
    typed: Callable[[InvalidUtf8], Iterator[str]] | None = None
    """Reads what a person types at a terminal; None reads it as a pipe."""
    report: Reporter = SILENT
    inputs: InputFiles | None = None
    """The input files as they were before they were read."""

    @contextlib.contextmanager
    def claimed(self) -> Iterator[Streams]:
        """Check everything before a model is loaded, and lock the output.

        Yields the streams with the output that is written: with ``fresh``, the name may differ from that given.

        Raises:
            ConfigError: options contradict each other or the files.
            DataError: a file does not exist, files are not parallel, another process is writing the output,
                or another program wrote it.
        """
        self._check()
        self = replace(self, inputs=InputFiles.of(self._files))
        if not self.to_file:
            yield self
            return
        asked = OutputFile(self.output)
        if not self.fresh:
            with asked.claimed():
                yield self
            return
        with asked.claimed_free() as output:
            if output != asked:
                self.report.notice(f"writing to {output.path}, since {self.output} exists")
            yield replace(self, output=output.path)

    def _check(self) -> None:
        if self.fresh and not self.to_file:
            raise ConfigError("--fresh needs an --output FILE: other outputs always start over.")
        if self.output.is_dir():
            raise DataError(f"{self.output}: is a folder. Name a file for the output.")
        if self.to_file and self.output.suffix in ARCHIVES:
            raise ConfigError(
                f"{self.output}: outputs are not compressed. Leave {self.output.suffix} out, or pipe standard "
                "output into a compressor."
            )
        for name, source in self._files.items():
            option = "--" + name.replace("_", "-")
            if name == "prefix" and not source.exists() and str(source) != STDIN:
                raise DataError(
                    f"{source}: there is no such file. --prefix takes a file: its line N is the beginning of the "
                    "translation of line N. For one line, `--prefix <(echo BEGINNING)` in bash."
                )
            _check_readable(source)
            if self.to_file and any(_is_same(source, path) for path in OutputFile(self.output).names):
                raise ConfigError(f"{self.output}: writing it would destroy the file of {option}. Name another file.")
            is_document = name == "input" and entries_of(self.input_format) == "texts"
            if not is_document and not (name == "input" and self.is_chosen) and name != "glossary":
                _check_plain(source, option)
        if str(self.output) == STDIN and sys.__stdout__ is None:
            raise ConfigError("standard output is closed: give --output FILE.")
        refuse_second_stdin(self.glossary, self.input)
        path = self._parallel
        if path is None:
            return
        refuse_second_stdin(path, self.input)
        lines, others = count_lines(self.input), count_lines(path)
        if lines is not None and others is not None and lines != others:
            # Now, rather than at the end of a long file.
            raise not_parallel((str(self.input), lines), (str(path), others))

    @property
    def to_file(self) -> bool:
        """Whether the output is a file, which is written under another name first, rather than a pipe or a device."""
        if str(self.output) == STDIN or _descriptor(self.output) is not None:
            return False
        return self.output.is_file() or not self.output.exists()

    @property
    def begun_in(self) -> Precision | None:
        """The recorded precision of the output; None if nothing is there."""
        return OutputFile(self.output).precision if self.to_file else None

    @property
    def is_typed(self) -> bool:
        """Whether a person types the input, line by line."""
        could_be = (
            self.typed is not None
            and entries_of(self.input_format) != "texts"
            and self.interactive is not False
            and str(self.input) == STDIN
        )
        return could_be and sys.stdin.isatty()

    @property
    def answers_each_line(self) -> bool:
        """Whether each line is answered before the next is read."""
        return bool(self.interactive) or self.is_typed

    @property
    def can_be_resumed(self) -> bool:
        """Whether an interrupted output can be resumed."""
        return self.to_file and all(map(can_be_read_again, self._files.values()))

    @property
    def _parallel(self) -> Path | None:
        return next((path for path in self.beside.values() if path is not None), None)

    @property
    def _files(self) -> dict[str, Path]:
        others = {**self.beside, "glossary": self.glossary}
        return {"input": self.input} | {name: path for name, path in others.items() if path is not None}

    @property
    def line_count(self) -> int | None:
        """The number of lines of the input; None if it is unknown."""
        return count_lines(self.input) if self.input_format == "lines" else None

    def document(self, reading: Reading) -> Document | None:
        """The document that is translated; None if lines or paragraphs are.

        Raises:
            DataError: it is damaged, or in another encoding.
        """
        if self.input_format == "lines" or self.input_format == "paragraphs":
            return None
        name = STANDARD_INPUT if str(self.input) == STDIN else str(self.input)
        with read_errors(name), open_bytes(self.input) as stream:
            raw = stream.read()
        return read_document(raw, self.input_format, reading, name=name, invalid=self.invalid_utf8)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The lines of the input, each with its parallel line, or with an empty one."""
        try:
            yield from self._pairs()
        except InvalidUtf8Error as error:
            raise InvalidUtf8Error(
                error.found,
                "Convert it to UTF-8, for example with iconv; or run the same command with --invalid-utf8 replace, "
                "which replaces such bytes with U+FFFD.",
            ) from None

    def _pairs(self) -> Pairs:
        invalid, beside = self.invalid_utf8, self._parallel
        if self.typed is not None and self.is_typed:
            lines = self.typed(invalid)
            if beside is not None:
                return parallel(lines, read_lines(beside, invalid=invalid), names=("the input", str(beside)))
        else:
            if beside is not None:
                return read_parallel(self.input, beside, invalid=invalid)
            lines = read_lines(self.input, invalid=invalid)
        return ((line, "") for line in lines)

    def record(self, settings: Mapping[str, object]) -> Record | None:
        """The record of the output; None if it is not a file."""
        if not self.to_file:
            return None
        settings = {**settings, "invalid_utf8": self.invalid_utf8}
        return translation_record(self.output, self.models, self._files, settings)


def _check_plain(path: Path, option: str) -> None:
    suffix = (path.with_suffix("") if path.suffix in ARCHIVES else path).suffix.lower().removeprefix(".")
    if kind := next((kind for kind, suffixes in _NOT_PLAIN.items() if suffix in suffixes.split()), None):
        raise DataError(
            f"{path}: is {kind} by its name, which is not read: its markup would be translated as text. Save its "
            "text as plain text, one sentence per line. To read the lines of this file as they are: "
            f"{option} - < {shlex.quote(str(path))}"
        )


def _check_readable(path: Path) -> None:
    """Open a file before a model is loaded, unless it can be read only once."""
    if str(path) == STDIN:
        if sys.__stdin__ is None:
            raise ConfigError("standard input is closed: give --input FILE.")
    elif can_be_read_again(path) or not path.exists():
        open_bytes(path).close()
    elif path.is_dir():
        raise DataError(f"{path}: is a folder, not a file of text.")


def _is_same(source: Path, written: Path) -> bool:
    """Whether two names lead to one regular file; ``-`` leads to standard input."""
    try:
        if str(source) == STDIN:
            if sys.__stdin__ is None:
                return False
            read = os.fstat(sys.__stdin__.fileno())
        else:
            read = source.stat()
        return stat.S_ISREG(read.st_mode) and os.path.samestat(read, written.stat())
    except OSError:
        return False  # one of them does not exist, or is not a file


def _descriptor(path: Path) -> int | None:
    """The number of the open stream that a name such as ``/dev/stdout`` stands for."""
    if path.as_posix() in _STANDARD_STREAMS:
        return _STANDARD_STREAMS[path.as_posix()]
    found = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d+)", path.as_posix())
    return int(found[1]) if found else None


def open_stream(path: Path) -> IO[bytes]:
    """Open a pipe or a device. An open stream is duplicated: opening it again would empty a file behind it."""
    descriptor = _descriptor(path)
    with naming_stream(str(path)):
        return path.open("wb") if descriptor is None else open(os.dup(descriptor), "wb")  # noqa: PTH123
