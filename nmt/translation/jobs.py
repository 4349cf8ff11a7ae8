"""What is done with the lines of a file: they are translated, or given translations of them are scored.

A job takes pairs of lines and yields what is written, window by window. :mod:`nmt.translation.writing_lines` writes it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from nmt.documents.document import Document
from nmt.documents.formats import InputFormat
from nmt.reporting import Unit
from nmt.translation.formats import formatted, formatted_paragraph, formatted_score
from nmt.translation.input_language import InputLanguage
from nmt.translation.line_translator import LineTranslator
from nmt.translation.options import Form
from nmt.translation.paragraphs import translate_paragraphs
from nmt.translation.results import Translation
from nmt.translation.resuming import Begun
from nmt.translation.segment import Line
from nmt.translation.tally import Tally
from nmt.translation.target_scorer import TargetScorer

Pairs = Iterable[tuple[str, str]]
"""Lines, each with its parallel line: the beginning of its translation, or a translation to score."""
Written = tuple[int, Sequence[Sequence[str | bytes]]]
"""How many lines or texts of the input are done, and what is written for each entry of a window: lines, or bytes."""


class Job(Protocol):
    """Works on pairs of lines."""

    @property
    def window(self) -> int:
        """The number of lines that are read before the work on them begins."""

    @property
    def settings(self) -> dict[str, object]:
        """The settings that the output depends on."""

    @property
    def ending(self) -> bytes:
        """What the output ends with, behind all that is written for windows."""

    def windows(self, pairs: Pairs, before: Begun) -> Iterator[Written]:
        """Work on the lines after those that are done.

        Args:
            before: what is done.
        """

    def doubt(self, *, at_end: bool) -> str:
        """What seems to be wrong with the input so far; empty if nothing does, or if it was said before."""


class TranslationJob:
    """Translates lines, paragraphs of wrapped text, or the texts of a document; counts what the guard found."""

    def __init__(
        self,
        translator: LineTranslator,
        form: Form,
        *,
        nbest: int = 1,
        alignment: bool = False,
        input_format: InputFormat = "lines",
        document: Document | None = None,
        of_document: Mapping[str, object] | None = None,
    ) -> None:
        """Prepare to translate.

        Args:
            nbest: translations to write for each line.
            alignment: write alignments, which the translator must have computed.
            document: what is translated, if that is a document; the lines of the input are not read then.
            of_document: the options with which the document was read.
        """
        self._translator = translator
        self._form = form
        self._nbest = nbest
        self._alignment = alignment
        self._input_format = input_format
        self._document = document
        self._of_document = of_document or {}
        self._language = InputLanguage(translator.source_lang, translator.target_lang)
        self.tally = Tally(entries_of(input_format), language_tags=translator.language_tags)

    @property
    def window(self) -> int:
        """As :attr:`Job.window`."""
        return self._translator.window

    @property
    def settings(self) -> dict[str, object]:
        """As :attr:`Job.settings`."""
        of_job: dict[str, object] = {"format": self._form, "input_format": self._input_format, **self._of_document}
        return self._translator.settings | of_job

    @property
    def ending(self) -> bytes:
        """As :attr:`Job.ending`."""
        document = self._document
        return b"" if document is None else next(iter(document.parts([], len(document.units))))

    def windows(self, pairs: Pairs, before: Begun) -> Iterator[Written]:
        """As :meth:`Job.windows`."""
        self.tally.first_line = before.lines + 1
        if self._document is not None:
            return self._translate_document(self._document, before.lines)
        if self._input_format == "paragraphs":
            return self._translate_paragraphs(pairs, before)
        return self._translate(pairs, before.lines)

    def _translate_document(self, document: Document, done: int) -> Iterator[Written]:
        units, numbers = document.units, document.lines
        lines = (Line(unit.text, number=number, spans=unit.spans) for number, unit in enumerate(units[done:], done))
        for window in self._translator.translate_windows(lines):
            self._count(zip(numbers[done:], window, strict=False))
            texts = [
                translation.placed(unit, document.escape)
                for unit, translation in zip(units[done:], window, strict=False)
            ]
            parts = itertools.islice(document.parts(texts, done), len(window))
            yield done + len(window), [[part] for part in parts]
            done += len(window)

    def _translate(self, pairs: Pairs, done: int) -> Iterator[Written]:
        lines = (Line(*pair, number) for number, pair in enumerate(pairs, start=done))
        for window in self._translator.translate_windows(lines):
            found = list(enumerate(window, start=done + 1))
            self._count(found)
            done += len(window)
            yield (
                done,
                [
                    formatted(translation, number, self._nbest, self._form, alignment=self._alignment)
                    for number, translation in found
                ],
            )

    def _translate_paragraphs(self, pairs: Pairs, before: Begun) -> Iterator[Written]:
        lines = (line for line, _ in pairs)
        language = self._translator.target_lang
        for window in translate_paragraphs(self._translator, lines, done=before.entries, done_lines=before.lines):
            self._count((paragraph.number, translation) for paragraph, translation in window)
            yield (
                window[-1][0].last,
                [
                    formatted_paragraph(paragraph, translation, self._nbest, self._form, language)
                    for paragraph, translation in window
                ],
            )

    def _count(self, found: Iterable[tuple[int, Translation]]) -> None:
        for number, translation in found:
            text = functools.reduce(str.removeprefix, self.tally.language_tags, translation.source.strip())
            self._language.add(number, text, translation)
            self.tally.add(number, translation)

    def doubt(self, *, at_end: bool) -> str:
        """As :meth:`Job.doubt`: whether text is in another language than the model's source."""
        return self._language.doubt(at_end=at_end)


def entries_of(input_format: InputFormat) -> Unit:
    """What an input of a format consists of, in the words of messages."""
    return input_format if input_format in ("lines", "paragraphs") else "texts"


class ScoringJob:
    """Scores the lines parallel to the input, as its translations."""

    def __init__(self, scorer: TargetScorer, form: Form) -> None:
        self._scorer = scorer
        self._form = form

    @property
    def window(self) -> int:
        """As :attr:`Job.window`."""
        return self._scorer.window

    @property
    def settings(self) -> dict[str, object]:
        """As :attr:`Job.settings`."""
        return self._scorer.settings | {"format": self._form}

    @property
    def ending(self) -> bytes:
        """As :attr:`Job.ending`: nothing."""
        return b""

    def windows(self, pairs: Pairs, before: Begun) -> Iterator[Written]:
        """As :meth:`Job.windows`."""
        done = before.lines
        for window in self._scorer.score_windows(pairs):
            numbered = enumerate(window, start=done + 1)
            done += len(window)
            yield done, [formatted_score(scored, number, self._form) for number, scored in numbered]

    def doubt(self, *, at_end: bool) -> str:
        """As :meth:`Job.doubt`: a low score says enough."""
        return ""
