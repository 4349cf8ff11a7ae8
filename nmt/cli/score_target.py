"""``nmt score-target``."""

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
from nmt.cli.options import Device, Engine, Precision, Threads, option, with_options
from nmt.cli.progress_lines import CONSOLE
from nmt.option_fields import FORMAT, STREAMS
from nmt.search.settings import BATCH_TOKENS
from nmt.translation.options import ScoringOptions, TranslateOptions


@with_options(
    TranslateOptions,
    only=tuple(ScoringOptions.__annotations__),
    meaning={"batch_tokens": f"Pieces of the longer side per batch, padding included.  [{BATCH_TOKENS}]"},
)
def score_target(
    text: InputArgument = None,
    *,
    target: Annotated[Path, option("Translations to score, one per line of the input.", group=STREAMS)],
    model: Models = None,
    input: Input = None,
    output: Output = Path("-"),
    fresh: FreshFile = False,
    interactive: Interactive = None,
    invalid_utf8: InvalidBytes = "error",
    format: Annotated[
        Literal["text", "jsonl", "pharaoh"],
        option("text: a score per line; jsonl: everything; pharaoh: word alignments.", group=FORMAT),
    ] = "text",
    engine: Engine = "torch",
    device: Device = "auto",
    precision: Precision = "auto",
    threads: Threads = None,
    options: dict[str, Any],
) -> None:
    """Score given translations: the log-probability of each by a model, without a search.

    Example: nmt score-target -m runs/toy-en-de-tiny --target hypothesis.de input.txt > scores.txt
    """
    given = dict(locals())
    given |= {"input": input_to_use(given.pop("text"), input), **given.pop("options")}
    from nmt.api.files import score_target

    score_target(**given, typed=typed_lines, report=CONSOLE)
