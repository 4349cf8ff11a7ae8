"""Translations and scores of lines: written window by window, and resumed."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from nmt.io.streams import STANDARD_OUTPUT, naming_stream
from nmt.io.writing import WriteError
from nmt.text.lines import STDIN, encode_line
from nmt.text.printable import printable
from nmt.translation.found_batches import FoundBatches
from nmt.translation.jobs import Job, Pairs, entries_of
from nmt.translation.resuming import Begun, Note, OutputFile
from nmt.translation.streams import Streams, open_stream


def write_lines(streams: Streams, job: Job, known: FoundBatches | None = None) -> int | None:
    """Write what a job makes of the input.

    Args:
        known: what the job finds for lines that are not written yet.

    Returns:
        The number of translations or scores in the output; None if it was up to date.
    """
    record, report = streams.record(job.settings), streams.report
    unit = entries_of(streams.input_format)
    before, output, known = Begun(), OutputFile(streams.output), known or FoundBatches()
    if record is not None:
        if output.is_up_to_date(record):
            report.notice(f"{streams.output}: up to date (same model, input and settings)")
            return None
        before = output.begun(record)
        known.stored.update(before.found)
        further = f"; {min(known.segments, job.window):,} further {unit} were searched" if known.stored else ""
        if before.lines or before.found:
            of_one = "text" if unit == "texts" else "line"
            report.notice(f"resuming after {of_one} {before.lines:,} of {streams.input}{further}")
    entries, total = before.entries, streams.line_count
    with contextlib.ExitStack() as stack:
        out: IO[bytes] = sys.stdout.buffer
        note: Note | None = None
        if record is not None:
            kept = known if streams.can_be_resumed else None
            growing = output.growing(record, after=before, inputs=streams.inputs, known=kept)
            out, noted = stack.enter_context(growing)
            note = noted if streams.can_be_resumed else None
            stack.enter_context(_reporting_the_rest(streams, output.partial, known))
        elif str(streams.output) != STDIN:
            out = stack.enter_context(open_stream(streams.output))
        # A progress bar would mix with translations on a terminal.
        shows = not streams.answers_each_line and (streams.to_file or not sys.stdout.isatty())
        update = stack.enter_context(report.progress())(unit) if shows else None
        read_whole = True

        def show() -> None:
            if update:
                ahead = min(known.segments, job.window)
                update("done", entries + (ahead if total is None else min(ahead, total - entries)), total)

        known.listeners.append(show)
        show()

        def rest() -> Pairs:
            nonlocal read_whole
            try:
                yield from itertools.islice(streams.pairs(), before.lines, None)
            except Exception:
                read_whole = False
                raise

        for lines, written in job.windows(rest(), before):
            with naming_stream(STANDARD_OUTPUT if str(streams.output) == STDIN else str(streams.output)):
                # A model may write what its training text held, also sequences that control a terminal.
                shown = printable if out.isatty() else str
                out.writelines(
                    part if isinstance(part, bytes) else encode_line(shown(part)) for entry in written for part in entry
                )
                out.flush()
            entries += len(written)
            known.stored.clear()
            # A window that a reading error cut short is made again, so that a resumed output has the same windows.
            if note and read_whole:
                note(lines, entries)
            show()
            if doubt := job.doubt(at_end=False):
                report.warn(doubt)
        with naming_stream(STANDARD_OUTPUT if str(streams.output) == STDIN else str(streams.output)):
            out.write(job.ending)
            out.flush()
        if doubt := job.doubt(at_end=True):
            report.warn(doubt)
    if not streams.to_file and streams.inputs is not None and (changed := streams.inputs.changed({})):
        raise streams.inputs.error(changed, "The output may lack lines. Run the same command again.")
    return entries


@contextlib.contextmanager
def _reporting_the_rest(streams: Streams, partial: Path, known: FoundBatches) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        if partial.stat().st_size or (streams.can_be_resumed and known.stored):
            streams.report.notice(f"interrupted: the finished part is in {partial}. {_how_to_resume(streams)}")
        else:
            streams.report.notice("interrupted before anything was finished: nothing is kept.")
        raise
    except WriteError as error:
        if error.path in OutputFile(streams.output).names:
            error.advise(_how_to_resume(streams))
        raise


def _how_to_resume(streams: Streams) -> str:
    if not streams.can_be_resumed:
        return "It cannot be resumed, since its input cannot be read again."
    if streams.fresh:
        return f"To resume, run the same command with --output {streams.output} and without --fresh."
    return "Run the same command to resume."
