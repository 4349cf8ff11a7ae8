"""Translating files from Python, as ``nmt translate`` and ``nmt score-target`` do: the output resumes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Unpack

from pydantic import Field

from nmt.api.arguments import Paths, checked
from nmt.config.sections import DecodingConfig
from nmt.errors import ConfigError
from nmt.loading import NamedModels, load_hops
from nmt.option_fields import DeviceChoice, EngineName, PrecisionChoice, flag_of
from nmt.reporting import SILENT, Reporter
from nmt.text.lines import InvalidUtf8
from nmt.translation.formats import Form
from nmt.translation.jobs import Job, ScoringJob, TranslationJob
from nmt.translation.options import Options, ScoringOptions, TranslateOptions, translate_options
from nmt.translation.pivot import check_pivot, line_translator
from nmt.translation.streams import Streams
from nmt.translation.tally import Tally
from nmt.translation.target_scorer import TargetScorer
from nmt.translation.writing_lines import write_lines

Typed = Callable[[InvalidUtf8], Iterator[str]]


@dataclass(frozen=True)
class WrittenFile:
    """An output of lines."""

    output: Path
    """With ``fresh``, the name may differ from the one that was given."""
    entries: int
    """The number of lines or paragraphs of the input that it holds; 0 if it was up to date."""
    changed: bool
    """False if it was up to date."""
    tally: Tally | None = None
    """What was noticed about the lines that were translated by this call; None of scores."""


@checked
def translate_file(
    input: Path = Path("-"),
    output: Path = Path("-"),
    *,
    model: Paths = (),
    via: str | None = None,
    fresh: bool = False,
    prefix: Path | None = None,
    interactive: bool | None = None,
    invalid_utf8: InvalidUtf8 = "error",
    input_format: Literal["lines", "paragraphs"] = "lines",
    format: Form = "text",
    engine: EngineName = "torch",
    device: DeviceChoice = "auto",
    precision: PrecisionChoice = "auto",
    threads: Annotated[int, Field(ge=1)] | None = None,
    batches: Annotated[int, Field(ge=1)] | None = None,
    typed: Typed | None = None,
    report: Reporter = SILENT,
    **options: Unpack[Options],
) -> WrittenFile:
    """Translate a file, one line or paragraph at a time. The same call again resumes an interrupted output.

    Args:
        input: text, one sentence per line; ``-`` is standard input.
        output: the file to write or resume; ``-`` is standard output.
        model: a run or bundle, or several that form an ensemble; the newest run if none is given.
        via: the code of a pivot language: the models into it translate first, then those from it.
        fresh: start over in the next free file.
        prefix: a file with the beginnings of the translations, line by line.
        interactive: answer each line before the next one is read.
        invalid_utf8: what to do with bytes that are not UTF-8.
        input_format: ``paragraphs`` is wrapped text, separated by blank lines.
        format: ``jsonl`` has everything; ``tsv`` and ``moses`` are n-best lists; ``pharaoh`` is word alignments.
        engine, device, precision, threads: as of :func:`nmt.load`.
        batches: batches that are searched at once; one per thread on a CPU, and 1 on a GPU, if not given.
        typed: reads the lines that a person types at a terminal.
        report: hears notices, warnings and progress.
        options: those of :meth:`nmt.Model.translate`.

    Raises:
        ConfigError: options contradict each other, the model or the files.
        CheckpointError: a model does not exist or is damaged.
        DataError: a file cannot be used, or the output is not ours or was made differently.
        WriteError: the system refused to write.
    """
    if format == "pharaoh":
        options["alignment"] = True
    paragraphs = input_format == "paragraphs"
    known = _checked(options)
    _refuse_contradictions(known, prefix, format, paragraphs=paragraphs)
    if via is not None:
        check_pivot(known)
    streams = Streams(
        input,
        {"prefix": prefix},
        output,
        fresh=fresh,
        interactive=interactive,
        invalid_utf8=invalid_utf8,
        paragraphs=paragraphs,
        typed=typed,
        report=report,
    )
    # Several sentences are nothing unusual in a paragraph, so auto would not split it.
    if paragraphs and options.get("split_sentences") in (None, "auto"):
        options["split_sentences"] = "always"
    # All is checked, and what is written is locked, before a model is loaded.
    with _claimed(streams, model, engine, via) as (claimed, hops):
        loaded = load_hops(hops, device, precision, threads, begun_in=claimed.begun_in, report=report.notice)
        window = 1 if claimed.answers_each_line else None
        translator, settings = line_translator(loaded, via, called=flag_of, window=window, workers=batches, **options)
        for line in dict.fromkeys(line for each in loaded for line in each.remarks(settings)):
            report.notice(line)
        job = TranslationJob(
            translator, format, nbest=settings.nbest, alignment=settings.alignment, paragraphs=paragraphs
        )
        written = _write(claimed, job, job.tally)
    for message in job.tally.notices(prefixed=prefix is not None):
        report.notice(message)
    for message in job.tally.warnings(translator.max_source_length, guard=settings.guard, prefixed=prefix is not None):
        report.warn(message)
    return written


@checked
def score_target(
    input: Path = Path("-"),
    output: Path = Path("-"),
    *,
    target: Path,
    model: Paths = (),
    fresh: bool = False,
    interactive: bool | None = None,
    invalid_utf8: InvalidUtf8 = "error",
    format: Literal["text", "jsonl", "pharaoh"] = "text",
    engine: EngineName = "torch",
    device: DeviceChoice = "auto",
    precision: PrecisionChoice = "auto",
    threads: Annotated[int, Field(ge=1)] | None = None,
    typed: Typed | None = None,
    report: Reporter = SILENT,
    **options: Unpack[ScoringOptions],
) -> WrittenFile:
    """Score the lines of a file as translations of the input, without a search.

    Args:
        target: the file with one translation per line of the input.
        format: ``text`` is a score per line; ``jsonl`` has everything; ``pharaoh`` is word alignments.
        options: ``length_penalty``, ``length_normalization``, ``alignment`` and ``batch_tokens``, as of
            :meth:`nmt.Model.score`.
        input, output, model, fresh, interactive, invalid_utf8, engine, device, precision, threads, typed, report: as
            of :func:`nmt.translate_file`.

    Raises:
        NmtError: as :func:`nmt.translate_file` does.
    """
    if format == "pharaoh":
        options["alignment"] = True
    _checked(options)
    streams = Streams(
        input,
        {"target": target},
        output,
        fresh=fresh,
        interactive=interactive,
        invalid_utf8=invalid_utf8,
        typed=typed,
        report=report,
    )
    with _claimed(streams, model, engine) as (claimed, [models]):
        loaded = models.load(device, precision, threads, begun_in=claimed.begun_in, report=report.notice)
        settings = translate_options(loaded.config.decoding, called=flag_of, **options)
        scorer = TargetScorer(loaded, settings, window=1 if claimed.answers_each_line else None)
        return _write(claimed, ScoringJob(scorer, format))


@contextmanager
def _claimed(
    streams: Streams, named: Paths, engine: EngineName, via: str | None = None
) -> Iterator[tuple[Streams, list[NamedModels]]]:
    """Choose the models of each hop, and lock the output."""
    hops = NamedModels.hops(named, engine, via)
    with replace(streams, models=tuple(folder for models in hops for folder in models.folders)).claimed() as claimed:
        for models in hops:
            for line in models.notices:
                streams.report.notice(line)
        yield claimed, hops


def _write(streams: Streams, job: Job, tally: Tally | None = None) -> WrittenFile:
    entries = write_lines(streams, job)
    return WrittenFile(streams.output, entries or 0, entries is not None, tally)


def _checked(options: Mapping[str, Any]) -> TranslateOptions:
    """The options as far as they can be known before the model, whose settings are the defaults of some."""
    given = {name: value for name, value in options.items() if value is not None}
    if "beam" in given:
        return translate_options(DecodingConfig(), called=flag_of, **given)
    return TranslateOptions.checked(given, called=flag_of)


def _refuse_contradictions(options: TranslateOptions, prefix: Path | None, form: Form, *, paragraphs: bool) -> None:
    if not paragraphs:
        return
    of_lines = ["--prefix"] if prefix is not None else []
    of_lines += [f"--format {form}"] if form not in ("text", "jsonl") else []
    of_lines += ["--alignment"] if options.alignment and form == "text" else []
    for flag in of_lines:
        raise ConfigError(f"{flag} only goes with --input-format lines.")
    if options.nbest > 1 and form == "text":
        raise ConfigError("--nbest goes with --input-format paragraphs only if --format is jsonl.")
