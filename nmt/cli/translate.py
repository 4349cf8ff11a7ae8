"""``nmt translate``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from nmt.cli.options import Device, Engine, Threads, TranslationPrecision, Workers, option, with_options
from nmt.option_fields import FORMAT, STREAMS, flags_unused_in_scoring
from nmt.translation.options import TranslateOptions


@with_options(TranslateOptions)
def translate(
    ctx: typer.Context,
    text: Annotated[
        Path | None,
        typer.Argument(metavar="INPUT", help="The same as --input.", show_default=False, rich_help_panel=STREAMS),
    ] = None,
    model: Annotated[
        list[Path] | None,
        option("Run or bundle; several: ensemble.  [newest run]", "--model", "-m", metavar="PATH", group=STREAMS),
    ] = None,
    input: Annotated[
        Path | None,
        option("Text, one sentence per line.  [standard input]", "--input", "-i", metavar="PATH", group=STREAMS),
    ] = None,
    output: Annotated[
        Path,
        option(
            "File to write or resume.  [standard output]",
            "--output",
            "-o",
            metavar="PATH",
            group=STREAMS,
            show_default=False,
        ),
    ] = Path("-"),
    fresh: Annotated[bool, option("Start over in the next free file.", "--fresh", group=STREAMS)] = False,
    part: Annotated[
        str | None, option("Translate part K of N; the last joins them.", metavar="K/N", group=STREAMS)
    ] = None,
    prefix: Annotated[
        Path | None, option("Beginnings of the translations, line by line.", metavar="PATH", group=STREAMS)
    ] = None,
    score_target: Annotated[
        Path | None, option("Score these translations; translate nothing.", metavar="PATH", group=STREAMS)
    ] = None,
    interactive: Annotated[
        bool | None,
        option(
            "Answer line by line.  [on in a terminal]",
            "--interactive/--no-interactive",
            group=STREAMS,
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        bool, option("Resume an interrupted --output; a file always does.", "--resume", hidden=True)
    ] = False,
    invalid_utf8: Annotated[
        Literal["error", "replace"], option("What to do with bytes that are no UTF-8.", group=STREAMS)
    ] = "error",
    guard_report: Annotated[
        Path | None, option("Write translations that look wrong, as jsonl.", metavar="PATH", group=STREAMS)
    ] = None,
    input_format: Annotated[
        Literal["lines", "paragraphs"], option("paragraphs: wrapped text, separated by blank lines.", group=STREAMS)
    ] = "lines",
    format: Annotated[
        Literal["text", "jsonl", "tsv", "moses", "pharaoh"],
        option("tsv and moses: n-best lists with scores; pharaoh: word alignments.", group=FORMAT),
    ] = "text",
    engine: Engine = "torch",
    device: Device = "auto",
    precision: TranslationPrecision = "auto",
    threads: Threads = None,
    workers: Workers = None,
    *,
    options: dict[str, Any],
) -> None:
    """Translate lines of text: one line out for one line in, in the same order.

    With --nbest N, it writes N lines per input line. With --score-target FILE, it translates nothing, but scores the
    lines of FILE as translations.

    Example: nmt translate -m runs/toy-en-de-tiny input.txt > output.txt
    """
    import sys
    from dataclasses import replace

    from nmt.checkpoint.describing import describe_model
    from nmt.cli.console import notice, warn
    from nmt.errors import ConfigError
    from nmt.loading import NamedModels
    from nmt.text.lines import STDIN

    if score_target is not None:
        without_effect = {
            "--prefix": prefix,
            "--guard-report": guard_report,
            "--workers": workers,
        }
        _refuse(
            [
                *flags_unused_in_scoring(TranslateOptions, options),
                *(flag for flag, value in without_effect.items() if value is not None),
            ],
            "does not go with --score-target, which does not search",
        )
    if text is not None and input is not None:
        raise ConfigError(f"the input was given twice, as {text} and as --input {input}: give one.")
    input = text or input or Path(STDIN)
    _refuse([f"--format {format}"] if score_target and format in ("tsv", "moses") else [], "lists what a search finds")
    if format == "pharaoh":
        options["alignment"] = True
    asked = TranslateOptions(**options)
    alignment, nbest = asked.alignment, asked.nbest
    paragraphs = input_format == "paragraphs"
    of_lines = {
        "--prefix": prefix,
        "--score-target": score_target,
        "--resume": resume,
        f"--format {format}": format not in ("text", "jsonl"),
        "--alignment": alignment and format == "text",
        "--part": part is not None,
    }
    _refuse([name for name, value in of_lines.items() if value and paragraphs], "only goes with --input-format lines")
    _refuse(
        ["--nbest"] if paragraphs and nbest > 1 and format == "text" else [],
        "goes with --input-format paragraphs only if --format is jsonl",
    )
    models = NamedModels.of(model or [], engine)

    from nmt.cli.line_output import score_lines, translate_lines
    from nmt.cli.line_streams import Streams
    from nmt.translation.guard_report import GuardReport
    from nmt.translation.options import translate_options
    from nmt.translation.parts import Part
    from nmt.translation.target_scorer import TargetScorer
    from nmt.translation.translator import Translator

    if interactive is None:
        interactive = str(input) == STDIN and sys.stdin.isatty()
    beside = {"prefix": prefix, "score_target": score_target}
    streams = Streams(
        input,
        beside,
        output,
        resume,
        fresh,
        interactive,
        invalid_utf8,
        paragraphs,
        guard_report,
        part=None if part is None else Part.parsed(part),
    )
    streams = replace(ctx.with_resource(streams.claimed()), models=tuple(models.folders))
    report = ctx.with_resource(GuardReport(guard_report).claimed(fresh=fresh))
    if report.path != guard_report:
        notice(f"writing the guard report to {report.path}, since {guard_report} exists")

    for line in (f"model: {', '.join(map(describe_model, models.folders))}", *models.remarks):
        notice(line)
    loaded = models.load(device, precision, threads, begun_in=streams.begun_in, report=notice)
    # Several sentences are nothing unusual in a paragraph, so auto would not split it.
    if paragraphs and asked.split_sentences == "auto":
        options["split_sentences"] = "always"
    settings = translate_options(loaded.config.decoding, **options)
    window = 1 if interactive else 2_048
    if score_target is not None:
        scorer = TargetScorer(loaded, settings, window=window)
        score_lines(streams, scorer, streams.made_with(scorer.settings | {"format": format}), format)
        return
    translator = Translator(loaded, settings, window=window, workers=workers)
    for line in loaded.remarks(settings):
        notice(line)
    record = streams.made_with(translator.settings | {"format": format, "input_format": input_format})
    tally = translate_lines(streams, translator, record, nbest, format, report, alignment=alignment)
    for message in tally.notices(prefixed=prefix is not None):
        notice(message)
    for message in tally.warnings(translator.max_source_length, guard=settings.guard, prefixed=prefix is not None):
        warn(message)


def _refuse(flags: Iterable[str], why: str) -> None:
    from nmt.errors import ConfigError

    for flag in flags:
        raise ConfigError(f"{flag} {why}.")
