"""``nmt translate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from nmt.api import files
from nmt.cli.console import notice
from nmt.cli.input_lines import INPUT, input_to_use, typed_lines
from nmt.cli.options import command
from nmt.cli.progress_lines import CONSOLE
from nmt.translation.options import TranslateOptions


@command(files.translate_file, TranslateOptions)
def translate(given: dict[str, Any], text: Annotated[Path | None, INPUT] = None) -> None:
    """With --nbest N, it writes N lines per input line.

    Example: nmt translate -m runs/toy-en-de-tiny input.txt > output.txt
    """
    given["input"] = input_to_use(text, given["input"])
    tally = files.translate_file(**given, typed=typed_lines, report=CONSOLE).tally
    if tally is not None and tally.doubtful and tally.unit == "lines" and given["format"] == "text":
        notice("--format jsonl says what was found in each line.")
