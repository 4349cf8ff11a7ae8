"""The lines of ``nmt translate``: translated or scored, written, and resumed."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from nmt.cli.console import STANDARD_OUTPUT, is_terminal, naming_stream, notice, stderr
from nmt.cli.line_streams import Pairs, Streams, open_stream
from nmt.cli.progress_lines import progress_display
from nmt.io.writing import WriteError
from nmt.record import Record
from nmt.text.lines import STDIN, encode_line
from nmt.text.printable import printable
from nmt.translation.formats import Form, formatted, formatted_paragraph, formatted_score
from nmt.translation.guard_report import GuardReport
from nmt.translation.paragraphs import translate_paragraphs
from nmt.translation.parts import join_parts, refuse_different_parts
from nmt.translation.results import Translation
from nmt.translation.resuming import Begun, Note, OutputFile
from nmt.translation.tally import Tally
from nmt.translation.target_scorer import TargetScorer
from nmt.translation.translator import Translator

# A message lists no more parts than this.
_LISTED = 20

Work = Callable[[Pairs, Begun], Iterator[tuple[int, list[list[str]]]]]
"""Works on pairs of lines, window by window, after what is done. Yields how many lines are done then, and what to write
for each line or paragraph. Lines are counted from the beginning of the input, also in a part of it."""


def translate_lines(
    streams: Streams,
    translator: Translator,
    record: Record | None,
    nbest: int,
    form: Form,
    report: GuardReport,
    *,
    alignment: bool,
) -> Tally:
    """Write translations of the input; return the tally of findings.

    Args:
        record: of :meth:`Streams.record`.
        nbest: translations to write for each line.
        report: receives the findings of the guard.
        alignment: write alignments, which the translator must have computed.
    """
    tally = Tally("paragraphs" if streams.paragraphs else "lines", language_tags=translator.language_tags)

    def count(found: Iterable[tuple[int, Translation]]) -> None:
        for number, translation in found:
            tally.add(number, translation)
            report.add(number, translation)
        report.flush()

    def work_on_lines(pairs: Pairs, before: Begun) -> Iterator[tuple[int, list[list[str]]]]:
        done = before.lines
        for window in translator.translate_windows(pairs, done=done):
            found = list(enumerate(window, start=done + 1))
            count(found)
            done += len(window)
            yield (
                done,
                [formatted(translation, number, nbest, form, alignment=alignment) for number, translation in found],
            )

    def work_on_paragraphs(pairs: Pairs, before: Begun) -> Iterator[tuple[int, list[list[str]]]]:
        lines = (line for line, _ in pairs)
        for window in translate_paragraphs(translator, lines, done=before.entries, done_lines=before.lines):
            count((paragraph.number, translation) for paragraph, translation in window)
            yield (
                window[-1][0].last,
                [
                    formatted_paragraph(paragraph, translation, nbest, form, translator.target_lang)
                    for paragraph, translation in window
                ],
            )

    def work(pairs: Pairs, before: Begun) -> Iterator[tuple[int, list[list[str]]]]:
        tally.first_line = before.lines + 1 if before.lines > streams.first else 1
        report.begin(before.report_bytes)
        return (work_on_paragraphs if streams.paragraphs else work_on_lines)(pairs, before)

    with contextlib.closing(report):
        _write(streams, work, record, report, window=translator.window)
    if report.path is not None and not report.path.exists():
        notice(f"{report.path}: not written, since nothing was translated. Add --fresh to translate again.")
    return tally


def score_lines(streams: Streams, scorer: TargetScorer, record: Record | None, form: Form) -> None:
    """Write the scores of the lines parallel to the input, as its translations.

    Args:
        record: of :meth:`Streams.record`.
    """

    def work(pairs: Pairs, before: Begun) -> Iterator[tuple[int, list[list[str]]]]:
        done = before.lines
        for window in scorer.score_windows(pairs):
            scores = [formatted_score(scored, number, form) for number, scored in enumerate(window, start=done + 1)]
            done += len(window)
            yield done, scores

    _write(streams, work, record, GuardReport(None), window=scorer.window)


def _write(streams: Streams, work: Work, record: Record | None, report: GuardReport, *, window: int) -> None:
    """Write the results, window by window; write nothing if the output is up to date. Join parts when all are there.

    Args:
        window: lines that are read before the work on them begins.
    """
    if record is None or streams.part is None or streams.whole is None:
        _write_output(streams, work, record, report, window=window)
        return
    part, whole = streams.part, OutputFile(streams.whole)
    if whole.path.exists():
        join_parts(whole, record, part.count)
        notice(f"{whole.path}: up to date (same model, input and settings)")
        return
    refuse_different_parts(whole, record, part.count)
    _write_output(streams, work, part.record(record), report, window=window)
    if missing := join_parts(whole, record, part.count):
        notice(f"part {part} is complete; {len(missing)} of {part.count} parts are missing: {_listed(missing)}")
    else:
        notice(f"{whole.path}: all {part.count} parts are joined")


def _listed(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_LISTED]))
    return shown if len(numbers) <= _LISTED else f"{shown} …"


def _write_output(streams: Streams, work: Work, record: Record | None, report: GuardReport, *, window: int) -> None:
    before, output = Begun(), OutputFile(streams.output, is_part=streams.part is not None)
    if record is not None:
        if output.is_up_to_date(record):
            notice(f"{streams.output}: up to date (same model, input and settings)")
            return
        before = output.begun(record)
        if before.lines:
            notice(f"resuming after line {streams.first + before.lines:,} of {streams.input}")
    entries, total = before.entries, None if streams.lines is None else len(streams.lines)
    with contextlib.ExitStack() as stack:
        out: IO[bytes] = sys.stdout.buffer
        note: Note | None = None
        if record is not None:
            growing = output.growing(record, after=before, inputs=streams.inputs)
            out, noted = stack.enter_context(growing)
            note = noted if streams.can_be_resumed else None
            stack.enter_context(_reporting_the_rest(streams, output.partial, window))
        elif str(streams.output) != STDIN:
            out = stack.enter_context(open_stream(streams.output))
        # A progress bar would mix with translations on a terminal.
        shows = not streams.interactive and (streams.to_file or not sys.stdout.isatty())
        update = (
            stack.enter_context(progress_display())("paragraphs" if streams.paragraphs else "lines") if shows else None
        )
        if update:
            update("done", entries, total)
        if streams.is_typed and is_terminal():
            notice("one line at a time; Ctrl-D ends")
            stack.callback(stderr().print)  # start the next message on a new line
        read_whole = True

        def rest() -> Pairs:
            nonlocal read_whole
            try:
                yield from itertools.islice(streams.pairs(), before.lines, None)
            except Exception:
                read_whole = False
                raise

        for lines, written in work(rest(), replace(before, lines=streams.first + before.lines)):
            with naming_stream(STANDARD_OUTPUT if str(streams.output) == STDIN else str(streams.output)):
                # A model may write what its training text held, also sequences that control a terminal.
                shown = printable if out.isatty() else str
                out.writelines(encode_line(shown(line)) for entry in written for line in entry)
                out.flush()
            entries += len(written)
            # A window that a reading error cut short is made again, so that a resumed output has the same windows.
            if note and read_whole:
                note(lines - streams.first, entries, report.size)
            if update:
                update("done", entries, total)
    if not streams.to_file and streams.inputs is not None and (changed := streams.inputs.changed({})):
        raise streams.inputs.error(changed, "The output may lack lines. Run the same command again.")


@contextlib.contextmanager
def _reporting_the_rest(streams: Streams, partial: Path, window: int) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        if partial.stat().st_size:
            notice(f"interrupted: the finished part is in {partial}. {_how_to_resume(streams)}")
        else:
            notice(f"interrupted before the first {window:,} lines were finished: nothing was written.")
        raise
    except WriteError as error:
        if error.path in OutputFile(streams.output).names:
            raise error.changed(then=_how_to_resume(streams)) from error
        raise


def _how_to_resume(streams: Streams) -> str:
    if not streams.can_be_resumed:
        return "It cannot be resumed, since its input cannot be read again."
    if streams.fresh:
        return f"To resume, run the same command with --output {streams.output} and without --fresh."
    return "Run the same command to resume."
