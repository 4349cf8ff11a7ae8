"""Translating files from Python, as ``nmt translate`` and ``nmt score-target`` do: the output resumes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack

from annotated_types import Ge

from nmt.api.arguments import BATCHES, DEVICE, ENGINE, PRECISION, THREADS, Paths, checked
from nmt.config.sections import DecodingConfig
from nmt.documents.document import Reading
from nmt.documents.formats import InputFormat, format_of
from nmt.errors import ConfigError
from nmt.option_fields import FORMAT, STREAMS, DeviceChoice, EngineName, Option, TranslationPrecision, flag_of
from nmt.reporting import SILENT, Reporter
from nmt.text.lines import InvalidUtf8
from nmt.translation.options import Form, Options, ScoringOptions, TranslateOptions, translate_options

if TYPE_CHECKING:
    from nmt.loading import NamedModels
    from nmt.translation.found_batches import FoundBatches
    from nmt.translation.jobs import Job
    from nmt.translation.streams import Streams
    from nmt.translation.tally import Tally

Typed = Callable[[InvalidUtf8], Iterator[str]]

INPUT = Option("Text, one sentence per line.", STREAMS, unset="standard input", letter="i")
OUTPUT = Option("File to write or resume.", STREAMS, unset="standard output", letter="o")
MODEL = Option("Run or bundle; several: ensemble.", STREAMS, unset="newest run", letter="m")
FRESH = Option("Start over in the next free file.", STREAMS)
INTERACTIVE = Option("Answer each line before the next is read.", STREAMS, unset="on in a terminal")
INVALID_UTF8 = Option("What to do with bytes that are not UTF-8.", STREAMS)


@dataclass(frozen=True)
class WrittenFile:
    """An output of lines."""

    output: Path
    """With ``fresh``, the name may differ from the one that was given."""
    entries: int
    """The number of lines, paragraphs or texts of the input that it holds; 0 if it was up to date."""
    changed: bool
    """False if it was up to date."""
    tally: Tally | None = None
    """What was noticed about the lines that were translated by this call; None of scores."""


@checked
def translate_file(
    input: Annotated[Path, INPUT] = Path("-"),
    output: Annotated[Path, OUTPUT] = Path("-"),
    *,
    model: Annotated[Paths, MODEL] = (),
    via: Annotated[
        str | None, Option("Pivot language: models to it, then models from it.", STREAMS, metavar="CODE")
    ] = None,
    fresh: Annotated[bool, FRESH] = False,
    prefix: Annotated[
        Path | None, Option("A file with the beginnings of the translations, line by line.", STREAMS)
    ] = None,
    glossary: Annotated[
        Path | None, Option("A file with terms and their translations, a tab between them.", STREAMS, metavar="TSV")
    ] = None,
    interactive: Annotated[bool | None, INTERACTIVE] = None,
    invalid_utf8: Annotated[InvalidUtf8, INVALID_UTF8] = "error",
    input_format: Annotated[
        InputFormat | None,
        Option(
            "lines, paragraphs (of wrapped text), html, json, markdown, po, properties, subtitles or xliff.",
            STREAMS,
            metavar="FORMAT",
            unset="by the file's name, or lines",
        ),
    ] = None,
    retranslate: Annotated[bool, Option("Also texts that the document has a translation of.", STREAMS)] = False,
    format: Annotated[
        Form, Option("jsonl: everything; tsv and moses: n-best lists with scores; pharaoh: word alignments.", FORMAT)
    ] = "text",
    engine: Annotated[EngineName, ENGINE] = "torch",
    device: Annotated[DeviceChoice, DEVICE] = "auto",
    precision: Annotated[TranslationPrecision, PRECISION] = "auto",
    threads: Annotated[int | None, Ge(1), THREADS] = None,
    batches: Annotated[int | None, Ge(1), BATCHES] = None,
    typed: Typed | None = None,
    report: Reporter = SILENT,
    **options: Unpack[Options],
) -> WrittenFile:
    """Translate lines of text, one line out for one line in, in the same order; or the texts of a document.

    The same call again resumes an interrupted output.

    Args:
        own options: listed by ``help(nmt.translate_file)``.
        options: those of :meth:`nmt.Model.translate`.
        typed: reads the lines that a person types at a terminal.
        report: hears notices, warnings and progress.

    Raises:
        ConfigError: options contradict each other, the model or the files.
        CheckpointError: a model does not exist or is damaged.
        DataError: a file cannot be used, or the output is not ours or was made differently.
        WriteError: the system refused to write.
    """
    from nmt.loading import load_hops
    from nmt.spans.terms import Glossary
    from nmt.translation.found_batches import FoundBatches
    from nmt.translation.glossary import check_glossary
    from nmt.translation.jobs import TranslationJob
    from nmt.translation.pivot import check_pivot, line_translator
    from nmt.translation.streams import Streams

    if format == "pharaoh":
        options["alignment"] = True
    given, input_format = input_format, input_format or format_of(input) or "lines"
    known = _checked(options)
    _refuse_contradictions(known, prefix, format, input_format, retranslate=retranslate)
    if via is not None:
        check_pivot(known)
    terms = None if glossary is None else Glossary.read(glossary)
    if terms is not None:
        check_glossary(known)
    streams = Streams(
        input,
        {"prefix": prefix},
        output,
        fresh=fresh,
        interactive=interactive,
        invalid_utf8=invalid_utf8,
        input_format=input_format,
        is_chosen=given is not None,
        glossary=glossary,
        typed=typed,
        report=report,
    )
    # Several sentences are nothing unusual in a paragraph, so auto would not split it.
    if input_format != "lines" and options.get("split_sentences") in (None, "auto"):
        options["split_sentences"] = "always"
    # All is checked, and what is written is locked, before a model is loaded.
    with _claimed(streams, model, engine, via) as (claimed, hops):
        loaded = load_hops(hops, device, precision, threads, begun_in=claimed.begun_in, report=report.notice)
        window = 1 if claimed.answers_each_line else None
        searched = FoundBatches()
        translator, settings = line_translator(
            loaded, via, called=flag_of, glossary=terms, window=window, workers=batches, known=searched, **options
        )
        for line in dict.fromkeys(line for each in loaded for line in each.remarks(settings)):
            report.notice(line)
        job = TranslationJob(
            translator,
            format,
            nbest=settings.nbest,
            alignment=settings.alignment,
            input_format=input_format,
            document=claimed.document(Reading(translator.source_lang, translator.target_lang, retranslate)),
            retranslate=retranslate,
        )
        written = _write(claimed, job, job.tally, searched)
    for message in job.tally.notices(prefixed=prefix is not None):
        report.notice(message)
    for message in job.tally.warnings(translator.max_source_length, guard=settings.guard, prefixed=prefix is not None):
        report.warn(message)
    return written


@checked
def score_target(
    input: Annotated[Path, INPUT] = Path("-"),
    output: Annotated[Path, OUTPUT] = Path("-"),
    *,
    target: Annotated[Path, Option("Translations to score, one per line of the input.", STREAMS)],
    model: Annotated[Paths, MODEL] = (),
    fresh: Annotated[bool, FRESH] = False,
    interactive: Annotated[bool | None, INTERACTIVE] = None,
    invalid_utf8: Annotated[InvalidUtf8, INVALID_UTF8] = "error",
    format: Annotated[
        Literal["text", "jsonl", "pharaoh"],
        Option("text: a score per line; jsonl: everything; pharaoh: word alignments.", FORMAT),
    ] = "text",
    engine: Annotated[EngineName, ENGINE] = "torch",
    device: Annotated[DeviceChoice, DEVICE] = "auto",
    precision: Annotated[TranslationPrecision, PRECISION] = "auto",
    threads: Annotated[int | None, Ge(1), THREADS] = None,
    typed: Typed | None = None,
    report: Reporter = SILENT,
    **options: Unpack[ScoringOptions],
) -> WrittenFile:
    """Score given translations: the log-probability of each by a model, without a search.

    Args:
        own options: listed by ``help(nmt.score_target)``.
        options: ``length_penalty``, ``length_normalization``, ``alignment`` and ``batch_tokens``, as of
            :meth:`nmt.Model.score`.
        typed: reads the lines that a person types at a terminal.
        report: hears notices, warnings and progress.

    Raises:
        NmtError: as :func:`nmt.translate_file` does.
    """
    from nmt.translation.jobs import ScoringJob
    from nmt.translation.streams import Streams
    from nmt.translation.target_scorer import TargetScorer

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
    from nmt.loading import NamedModels

    hops = NamedModels.hops(named, engine, via)
    with replace(streams, models=tuple(folder for models in hops for folder in models.folders)).claimed() as claimed:
        for models in hops:
            for line in models.notices:
                streams.report.notice(line)
        yield claimed, hops


def _write(streams: Streams, job: Job, tally: Tally | None = None, known: FoundBatches | None = None) -> WrittenFile:
    from nmt.translation.writing_lines import write_lines

    entries = write_lines(streams, job, known)
    return WrittenFile(streams.output, entries or 0, entries is not None, tally)


def _checked(options: Mapping[str, Any]) -> TranslateOptions:
    """The options as far as they can be known before the model, whose settings are the defaults of some."""
    given = {name: value for name, value in options.items() if value is not None}
    if "beam" in given:
        return translate_options(DecodingConfig(), called=flag_of, **given)
    return TranslateOptions.checked(given, called=flag_of)


def _refuse_contradictions(
    options: TranslateOptions, prefix: Path | None, form: Form, input_format: InputFormat, *, retranslate: bool
) -> None:
    is_document = input_format not in ("lines", "paragraphs")
    if retranslate and not is_document:
        raise ConfigError("--retranslate only goes with documents that have translations, such as those of gettext.")
    if input_format == "lines":
        return
    of_lines = ["--prefix"] if prefix is not None else []
    of_lines += [f"--format {form}"] if form not in ("text", "jsonl") or (is_document and form != "text") else []
    of_lines += ["--alignment"] if options.alignment and form == "text" else []
    for flag in of_lines:
        raise ConfigError(f"{flag} only goes with --input-format lines.")
    if options.nbest > 1 and is_document:
        raise ConfigError("--nbest only goes with --input-format lines or paragraphs.")
    if options.nbest > 1 and form == "text":
        raise ConfigError("--nbest goes with --input-format paragraphs only if --format is jsonl.")
