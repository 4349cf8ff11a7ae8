"""``nmt translate``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from nmt.cli.options import Device, Engine, Threads, TranslationPrecision, Workers, with_options
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
        typer.Option(
            "--model",
            "-m",
            metavar="PATH",
            help="Run or bundle; several: ensemble.  [newest run]",
            rich_help_panel=STREAMS,
        ),
    ] = None,
    input: Annotated[
        Path | None,
        typer.Option(
            "--input",
            "-i",
            metavar="PATH",
            help="Text, one sentence per line.  [standard input]",
            rich_help_panel=STREAMS,
        ),
    ] = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="File to write or resume.  [standard output]",
            show_default=False,
            rich_help_panel=STREAMS,
        ),
    ] = Path("-"),
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Start over in the next free file.", rich_help_panel=STREAMS),
    ] = False,
    part: Annotated[
        str | None,
        typer.Option(metavar="K/N", help="Translate part K of N; the last joins them.", rich_help_panel=STREAMS),
    ] = None,
    prefix: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Beginnings of the translations, line by line.", rich_help_panel=STREAMS),
    ] = None,
    score_target: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Score these translations; translate nothing.", rich_help_panel=STREAMS),
    ] = None,
    interactive: Annotated[
        bool | None,
        typer.Option(
            "--interactive/--no-interactive",
            help="Answer line by line.  [on in a terminal]",
            show_default=False,
            rich_help_panel=STREAMS,
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume an interrupted --output; a file always does.", hidden=True)
    ] = False,
    invalid_utf8: Annotated[
        Literal["error", "replace"],
        typer.Option(help="What to do with bytes that are no UTF-8.", rich_help_panel=STREAMS),
    ] = "error",
    guard_report: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Write translations that look wrong, as jsonl.", rich_help_panel=STREAMS),
    ] = None,
    input_format: Annotated[
        Literal["lines", "paragraphs"],
        typer.Option(help="paragraphs: wrapped text, separated by blank lines.", rich_help_panel=STREAMS),
    ] = "lines",
    format: Annotated[
        Literal["text", "jsonl", "tsv", "moses", "pharaoh"],
        typer.Option(
            help="tsv and moses: n-best lists with scores; pharaoh: word alignments.",
            rich_help_panel=FORMAT,
        ),
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
    alignment = options.get("alignment", TranslateOptions.alignment)
    nbest = options.get("nbest", TranslateOptions.nbest)
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
    if paragraphs and options.get("split_sentences", TranslateOptions.split_sentences) == "auto":
        options["split_sentences"] = "always"
    settings = translate_options(loaded.config.decoding, **options)
    window = 1 if interactive else 2_048
    if score_target is not None:
        scorer = TargetScorer(loaded, settings, window=window)
        score_lines(streams, scorer, streams.record(scorer.settings | {"format": format}), format)
        return
    translator = Translator(loaded, settings, window=window, workers=workers)
    for line in loaded.remarks(settings):
        notice(line)
    record = streams.record(translator.settings | {"format": format, "input_format": input_format})
    tally = translate_lines(streams, translator, record, nbest, format, report, alignment=alignment)
    for message in tally.notices(prefixed=prefix is not None):
        notice(message)
    for message in tally.warnings(translator.max_source_length, guard=settings.guard, prefixed=prefix is not None):
        warn(message)


def _refuse(flags: Iterable[str], why: str) -> None:
    from nmt.errors import ConfigError

    for flag in flags:
        raise ConfigError(f"{flag} {why}.")
