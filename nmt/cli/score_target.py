"""``nmt score-target``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from nmt.api import files
from nmt.cli.input_lines import INPUT, input_to_use, typed_lines
from nmt.cli.options import command
from nmt.cli.progress_lines import CONSOLE
from nmt.search.settings import BATCH_TOKENS
from nmt.translation.options import ScoringOptions, TranslateOptions


@command(
    files.score_target,
    TranslateOptions,
    only=tuple(ScoringOptions.__annotations__),
    meaning={"batch_tokens": f"Pieces of the longer side per batch, padding included.  [{BATCH_TOKENS}]"},
)
def score_target(given: dict[str, Any], text: Annotated[Path | None, INPUT] = None) -> None:
    """Example: nmt score-target -m runs/toy-en-de-tiny --target hypothesis.de input.txt > scores.txt"""
    given["input"] = input_to_use(text, given["input"])
    files.score_target(**given, typed=typed_lines, report=CONSOLE)
