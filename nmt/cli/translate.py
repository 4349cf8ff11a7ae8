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
    interactive: Annotated[
        bool, typer.Option("--interactive", help="Answer each line before reading the next.")
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
    import sys
    from typing import IO

    from nmt.checkpoint.run import bundle_to_use, newest_run
    from nmt.cli.console import is_terminal, notice, stderr, warn
    from nmt.decoding.output import formatted
    from nmt.decoding.translator import Translator
    from nmt.device import choose_hardware
    from nmt.errors import DataError
    from nmt.text import STDIN, completing, encode_line, read_lines

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
    )

    if str(output) != STDIN and not output.parent.is_dir():
        raise DataError(f"{output.parent}: there is no such folder to write to.")
    with contextlib.ExitStack() as stack:
        out: IO[bytes] = sys.stdout.buffer if str(output) == STDIN else stack.enter_context(completing(output))
        prompt = interactive and str(input) == STDIN and sys.stdin.isatty() and is_terminal()
        lines = read_lines(input, invalid=invalid_utf8)
        cut = 0
        if prompt:
            stderr().print("> ", end="")
        for number, translation in enumerate(translator.translate(lines), start=1):
            for line in formatted(translation, number, nbest, format):
                out.write(encode_line(line))
            if interactive:
                out.flush()
            cut += translation.was_cut
            if prompt:
                stderr().print("> ", end="")
    if cut:
        warn(f"lines longer than the model can read, and cut: {cut}. Split them into sentences.")
