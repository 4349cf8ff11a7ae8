"""``nmt translate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from nmt.cli.input_lines import (
    FreshFile,
    Input,
    InputArgument,
    Interactive,
    InvalidBytes,
    Models,
    Output,
    input_to_use,
    typed_lines,
)
from nmt.cli.options import Batches, Device, Engine, Precision, Threads, option, with_options
from nmt.cli.progress_lines import CONSOLE
from nmt.option_fields import FORMAT, STREAMS
from nmt.translation.options import TranslateOptions


@with_options(TranslateOptions)
def translate(
    text: InputArgument = None,
    model: Models = None,
    via: Annotated[
        str | None,
        option("Pivot language: models to it, then models from it.", metavar="CODE", group=STREAMS),
    ] = None,
    input: Input = None,
    output: Output = Path("-"),
    fresh: FreshFile = False,
    prefix: Annotated[
        Path | None, option("A file with the beginnings of the translations, line by line.", group=STREAMS)
    ] = None,
    interactive: Interactive = None,
    invalid_utf8: InvalidBytes = "error",
    input_format: Annotated[
        Literal["lines", "paragraphs"], option("paragraphs: wrapped text, separated by blank lines.", group=STREAMS)
    ] = "lines",
    format: Annotated[
        Literal["text", "jsonl", "tsv", "moses", "pharaoh"],
        option("jsonl: everything; tsv and moses: n-best lists with scores; pharaoh: word alignments.", group=FORMAT),
    ] = "text",
    engine: Engine = "torch",
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    batches: Batches = None,
    *,
    options: dict[str, Any],
) -> None:
    """Translate lines of text: one line out for one line in, in the same order.

    With --nbest N, it writes N lines per input line.

    Example: nmt translate -m runs/toy-en-de-tiny input.txt > output.txt
    """
    given = dict(locals())
    given |= {"input": input_to_use(given.pop("text"), input), **given.pop("options")}
    from nmt.api.files import translate_file

    translate_file(**given, typed=typed_lines, report=CONSOLE)
