"""``nmt translate``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from nmt.cli.console import notice, warn
from nmt.cli.options import Device, Engine, Threads, TranslationPrecision, Workers, option, print_models, with_options
from nmt.errors import ConfigError
from nmt.option_fields import FORMAT, STREAMS, flag_of, flags_unused_in_scoring
from nmt.text.lines import STDIN, InvalidUtf8
from nmt.translation.options import TranslateOptions

if TYPE_CHECKING:
    from nmt.cli.line_streams import Streams
    from nmt.translation.engine import Engine as LoadedEngine
    from nmt.translation.formats import Form


@with_options(TranslateOptions)
def translate(
    text: Annotated[
        Path | None,
        typer.Argument(metavar="INPUT", help="The same as --input.", show_default=False, rich_help_panel=STREAMS),
    ] = None,
    model: Annotated[
        list[Path] | None, option("Run or bundle; several: ensemble.  [newest run]", "--model", "-m", group=STREAMS)
    ] = None,
    input: Annotated[
        Path | None, option("Text, one sentence per line.  [standard input]", "--input", "-i", group=STREAMS)
    ] = None,
    output: Annotated[
        Path, option("File to write or resume.  [standard output]", "--output", "-o", group=STREAMS)
    ] = Path("-"),
    fresh: Annotated[bool, option("Start over in the next free file.", group=STREAMS)] = False,
    prefix: Annotated[Path | None, option("Beginnings of the translations, line by line.", group=STREAMS)] = None,
    score_target: Annotated[Path | None, option("Score these translations; translate nothing.", group=STREAMS)] = None,
    interactive: Annotated[
        bool | None, option("Answer line by line.  [on in a terminal]", "--interactive/--no-interactive", group=STREAMS)
    ] = None,
    invalid_utf8: Annotated[InvalidUtf8, option("What to do with bytes that are no UTF-8.", group=STREAMS)] = "error",
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
    from nmt.loading import NamedModels

    if text is not None and input is not None:
        raise ConfigError(f"the input was given twice, as {text} and as --input {input}: give one.")
    if text is not None and " " in str(text) and not os.path.lexists(text):
        raise ConfigError(f'{text}: there is no such file. To translate a sentence: echo "{text}" | nmt translate')
    if format == "pharaoh":
        options["alignment"] = True
    given = {"--prefix": prefix, "--workers": workers, "--score-target": score_target}
    _refuse_contradictions(given, options, format, paragraphs=input_format == "paragraphs")
    models = NamedModels.of(model or [], engine)

    from nmt.cli.line_streams import Streams

    streams = Streams(
        text or input or Path(STDIN),
        {"prefix": prefix, "score_target": score_target},
        output,
        fresh=fresh,
        interactive=interactive,
        invalid_utf8=invalid_utf8,
        paragraphs=input_format == "paragraphs",
        models=tuple(models.folders),
    )
    # All is checked, and what is written is locked, before a model is loaded.
    with streams.claimed() as claimed:
        print_models(models.folders, models.remarks)
        loaded = models.load(device, precision, threads, begun_in=claimed.begun_in, report=notice)
        if score_target is None:
            _translate(claimed, loaded, options, format, workers)
        else:
            _score(claimed, loaded, options, format)


def _translate(
    streams: Streams,
    engine: LoadedEngine,
    options: dict[str, Any],
    form: Form,
    workers: int | None,
) -> None:
    from nmt.cli.line_output import write_lines
    from nmt.translation.jobs import TranslationJob
    from nmt.translation.options import translate_options
    from nmt.translation.translator import Translator

    # Several sentences are nothing unusual in a paragraph, so auto would not split it.
    if streams.paragraphs and options.get("split_sentences", "auto") == "auto":
        options["split_sentences"] = "always"
    settings = translate_options(engine.config.decoding, called=flag_of, **options)
    translator = Translator(engine, settings, window=1 if streams.answers_each_line else None, workers=workers)
    for line in engine.remarks(settings):
        notice(line)
    job = TranslationJob(
        translator,
        form,
        nbest=settings.nbest,
        alignment=settings.alignment,
        paragraphs=streams.paragraphs,
    )
    write_lines(streams, job)
    prefixed = streams.beside["prefix"] is not None
    for message in job.tally.notices(prefixed=prefixed):
        notice(message)
    for message in job.tally.warnings(translator.max_source_length, guard=settings.guard, prefixed=prefixed):
        warn(message)


def _score(streams: Streams, engine: LoadedEngine, options: dict[str, Any], form: Form) -> None:
    from nmt.cli.line_output import write_lines
    from nmt.translation.jobs import ScoringJob
    from nmt.translation.options import translate_options
    from nmt.translation.target_scorer import TargetScorer

    settings = translate_options(engine.config.decoding, called=flag_of, **options)
    write_lines(
        streams, ScoringJob(TargetScorer(engine, settings, window=1 if streams.answers_each_line else None), form)
    )


def _refuse_contradictions(
    given: Mapping[str, object], options: dict[str, Any], form: Form, *, paragraphs: bool
) -> None:
    if given["--score-target"] is not None:
        without_effect = [flag for flag in ("--prefix", "--workers") if given[flag] is not None]
        without_effect = flags_unused_in_scoring(TranslateOptions, options) + without_effect
        _refuse(without_effect, "does not go with --score-target, which does not search")
        _refuse([f"--format {form}"] if form in ("tsv", "moses") else [], "lists what a search finds")
    if paragraphs:
        asked = TranslateOptions(**options)
        of_lines = [flag for flag in ("--prefix", "--score-target") if given[flag] is not None]
        of_lines += [f"--format {form}"] if form not in ("text", "jsonl") else []
        of_lines += ["--alignment"] if asked.alignment and form == "text" else []
        _refuse(of_lines, "only goes with --input-format lines")
        several = asked.nbest > 1 and form == "text"
        _refuse(["--nbest"] if several else [], "goes with --input-format paragraphs only if --format is jsonl")


def _refuse(flags: Iterable[str], why: str) -> None:
    for flag in flags:
        raise ConfigError(f"{flag} {why}.")
