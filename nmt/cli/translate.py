"""``nmt translate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def translate(
    model: Annotated[
        list[Path] | None,
        typer.Option(help="A run or bundle; several make an ensemble. The newest run if left out."),
    ] = None,
    input: Annotated[Path, typer.Option(help="Text to translate, a line a sentence; plain, .gz or .xz.")] = Path("-"),
    output: Annotated[Path, typer.Option(help="Where to write; standard output if left out.")] = Path("-"),
    beam: Annotated[
        int | None, typer.Option(min=1, help="Width of the beam; 1 is greedy.  [the model's, mostly 4]")
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(min=0.0, help="alpha of the length penalty.  [the model's, mostly 0.6]")
    ] = None,
    max_extra_length: Annotated[
        int | None, typer.Option(min=0, help="Pieces that an output may have more than its source.  [50]")
    ] = None,
    nbest: Annotated[int, typer.Option(min=1, help="Translations to write for each line, best first.")] = 1,
    format: Annotated[Literal["text", "jsonl"], typer.Option(help="jsonl has scores and pieces.")] = "text",
    batch_tokens: Annotated[int, typer.Option(min=1, help="Source pieces that are searched at once.")] = 2_048,
    max_source_length: Annotated[
        int | None,
        typer.Option(min=1, help="Translate longer lines in parts of so many pieces.  [256, or the model's positions]"),
    ] = None,
    guard: Annotated[
        bool, typer.Option(help="Search again for what came out empty, looping, copied or of an odd length.")
    ] = True,
    interactive: Annotated[
        bool | None,
        typer.Option(
            "--interactive/--no-interactive",
            help="Answer each line before reading the next; so it is in a terminal.",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an --output that was interrupted, rather than begin anew.")
    ] = False,
    invalid_utf8: Annotated[
        Literal["error", "replace"], typer.Option(help="What to do with bytes that are not UTF-8.")
    ] = "error",
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where to compute.")] = "auto",
    precision: Annotated[
        Literal["auto", "fp32", "bf16"], typer.Option(help="auto takes bf16 where the hardware has it.")
    ] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads; all cores if left out.")] = None,
) -> None:
    """Translate lines of text: one line out for one line in, in the same order.

    With --nbest N there are N lines for each line in.

    Example: nmt translate --model runs/toy-en-de-tiny < input.txt > output.txt
    """
    import contextlib
    import itertools
    import sys
    from typing import IO

    from nmt.checkpoint.run import bundle_to_use, newest_run
    from nmt.cli.console import is_terminal, notice, stderr, warn
    from nmt.cli.progress import progress_display
    from nmt.decoding.output import formatted
    from nmt.decoding.resuming import Begun, begun, growing, made_with
    from nmt.decoding.tally import Tally
    from nmt.decoding.translator import Translator
    from nmt.device import choose_hardware
    from nmt.errors import ConfigError, DataError
    from nmt.text import STDIN, can_be_read_again, count_lines, encode_line, read_lines

    from_file, to_file = can_be_read_again(input), str(output) != STDIN
    if resume and not (from_file and to_file):
        raise ConfigError("--resume needs an --input FILE that can be read again, and the --output FILE to go on with.")
    if to_file and not output.parent.is_dir():
        raise DataError(f"{output.parent}: there is no such folder to write to.")
    converses = str(input) == STDIN and sys.stdin.isatty()
    if interactive is None:
        interactive = converses

    hardware = choose_hardware(device, precision, threads)
    folders = [bundle_to_use(path) for path in model or [newest_run()]]
    notice("model: " + ", ".join(map(str, folders)))
    translator = Translator.load(
        folders,
        hardware,
        beam=beam,
        length_penalty=length_penalty,
        max_extra_length=max_extra_length,
        nbest=nbest,
        batch_tokens=batch_tokens,
        window=1 if interactive else 2_048,
        max_source_length=max_source_length,
        guard=guard,
    )

    record, done = None, Begun()
    if from_file and to_file:
        record = made_with(folders, input, translator.settings | {"format": format, "invalid_utf8": invalid_utf8})
    if resume and record is not None:
        before = read_lines(input, invalid=invalid_utf8)
        output_lines = nbest if format == "text" else 1
        done = begun(output, record, before, window=translator.window, output_lines=output_lines)
        notice(f"going on behind line {done.lines:,} of {input}")

    tally = Tally()
    with contextlib.ExitStack() as stack:
        out: IO[bytes] = sys.stdout.buffer
        if to_file:
            out = stack.enter_context(growing(output, record, keep=done.bytes))
        prompts = interactive and converses and is_terminal()
        number, total = done.lines, count_lines(input)
        # A bar among the translations would be in the way.
        shows = not interactive and (to_file or not sys.stdout.isatty())
        update = stack.enter_context(progress_display())("lines") if shows else None
        lines = itertools.islice(read_lines(input, invalid=invalid_utf8), done.lines, None)
        if update:
            update("translated", number, total)
        if prompts:
            stderr().print("> ", end="")
        for window in translator.translate_windows(lines):
            for translation in window:
                number += 1
                out.writelines(encode_line(line) for line in formatted(translation, number, nbest, format))
                tally.add(translation)
            out.flush()
            if update:
                update("translated", number, total)
            if prompts:
                stderr().print("> ", end="")
    for remark in tally.remarks(translator.max_source_length, guard=guard):
        warn(remark)
