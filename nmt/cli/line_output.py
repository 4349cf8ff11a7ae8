"""The output of ``nmt translate``: written window by window, and resumed."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from nmt.cli.console import STANDARD_OUTPUT, is_terminal, naming_stream, notice, stderr, warn
from nmt.cli.line_streams import Streams, open_stream
from nmt.cli.progress_lines import progress_display
from nmt.io.writing import WriteError
from nmt.text.lines import STDIN, encode_line
from nmt.text.printable import printable
from nmt.translation.jobs import Job, Pairs
from nmt.translation.resuming import Begun, Note, OutputFile


def write_lines(streams: Streams, job: Job) -> None:
    """Write what a job makes of the input; nothing if the output is up to date."""
    record = streams.record(job.settings)
    before, output = Begun(), OutputFile(streams.output)
    if record is not None:
        if output.is_up_to_date(record):
            notice(f"{streams.output}: up to date (same model, input and settings)")
            return
        before = output.begun(record)
        if before.lines:
            notice(f"resuming after line {before.lines:,} of {streams.input}")
    entries, total = before.entries, streams.line_count
    with contextlib.ExitStack() as stack:
        out: IO[bytes] = sys.stdout.buffer
        note: Note | None = None
        if record is not None:
            growing = output.growing(record, after=before, inputs=streams.inputs)
            out, noted = stack.enter_context(growing)
            note = noted if streams.can_be_resumed else None
            stack.enter_context(_reporting_the_rest(streams, output.partial, job.window))
        elif str(streams.output) != STDIN:
            out = stack.enter_context(open_stream(streams.output))
        # A progress bar would mix with translations on a terminal.
        shows = not streams.answers_each_line and (streams.to_file or not sys.stdout.isatty())
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

        for lines, written in job.windows(rest(), before):
            with naming_stream(STANDARD_OUTPUT if str(streams.output) == STDIN else str(streams.output)):
                # A model may write what its training text held, also sequences that control a terminal.
                shown = printable if out.isatty() else str
                out.writelines(encode_line(shown(line)) for entry in written for line in entry)
                out.flush()
            entries += len(written)
            # A window that a reading error cut short is made again, so that a resumed output has the same windows.
            if note and read_whole:
                note(lines, entries)
            if update:
                update("done", entries, total)
            if doubt := job.doubt(at_end=False):
                warn(doubt)
        if doubt := job.doubt(at_end=True):
            warn(doubt)
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
            error.advise(_how_to_resume(streams))
        raise


def _how_to_resume(streams: Streams) -> str:
    if not streams.can_be_resumed:
        return "It cannot be resumed, since its input cannot be read again."
    if streams.fresh:
        return f"To resume, run the same command with --output {streams.output} and without --fresh."
    return "Run the same command to resume."
