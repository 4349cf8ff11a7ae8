"""``nmt translate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

_STREAMS = "Input and output"
_SEARCH = "Search"
_SAMPLING = "Sampling"
_FORMAT = "Output format"
_HARDWARE = "Hardware"


def translate(
    ctx: typer.Context,
    text: Annotated[
        Path | None,
        typer.Argument(metavar="INPUT", help="The same as --input.", show_default=False, rich_help_panel=_STREAMS),
    ] = None,
    model: Annotated[
        list[Path] | None,
        typer.Option(
            "--model",
            "-m",
            metavar="PATH",
            help="Run or bundle; several make an ensemble.  [newest run]",
            rich_help_panel=_STREAMS,
        ),
    ] = None,
    input: Annotated[
        Path | None,
        typer.Option(
            "--input",
            "-i",
            metavar="PATH",
            help="Text, one sentence per line; may be compressed.  [standard input]",
            rich_help_panel=_STREAMS,
        ),
    ] = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="File to write; the same command resumes it.  [standard output]",
            show_default=False,
            rich_help_panel=_STREAMS,
        ),
    ] = Path("-"),
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Start over in the next free file beside --output.", rich_help_panel=_STREAMS),
    ] = False,
    prefix: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="What each translation begins with, line by line.", rich_help_panel=_STREAMS),
    ] = None,
    score_target: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Score these translations instead of searching for any.", rich_help_panel=_STREAMS
        ),
    ] = None,
    interactive: Annotated[
        bool | None,
        typer.Option(
            "--interactive/--no-interactive",
            help="Answer each line before reading the next.  [in a terminal]",
            show_default=False,
            rich_help_panel=_STREAMS,
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume an interrupted --output; a file always does.", hidden=True)
    ] = False,
    invalid_utf8: Annotated[
        Literal["error", "replace"],
        typer.Option(help="What to do with bytes that are not UTF-8.", rich_help_panel=_STREAMS),
    ] = "error",
    beam: Annotated[
        int | None,
        typer.Option(
            "--beam", "-b", metavar="N", min=1, help="Beam size; 1 is greedy.  [the model's]", rich_help_panel=_SEARCH
        ),
    ] = None,
    length_penalty: Annotated[
        float | None,
        typer.Option(metavar="X", min=0.0, help="alpha of the length penalty.  [the model's]", rich_help_panel=_SEARCH),
    ] = None,
    normalization: Annotated[
        Literal["paper", "length"],
        typer.Option(help="What scores are divided by: paper's penalty, length^alpha.", rich_help_panel=_SEARCH),
    ] = "paper",
    max_extra_length: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Maximum pieces of an output beyond its source's.  [50]",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    min_length: Annotated[
        int, typer.Option(metavar="N", min=0, help="Minimum pieces of an output.", rich_help_panel=_SEARCH)
    ] = 0,
    no_repeat_ngram: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Allow no n-gram of N pieces twice; 0 is off.", rich_help_panel=_SEARCH),
    ] = 0,
    diverse_groups: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Diverse beam search with N groups, which divide --beam.",
            rich_help_panel=_SEARCH,
        ),
    ] = 1,
    diversity: Annotated[
        float | None,
        typer.Option(metavar="X", help="Penalty on pieces that earlier groups took.  [0.5]", rich_help_panel=_SEARCH),
    ] = None,
    mbr: Annotated[
        Literal["chrf", "bleu"] | None,
        typer.Option(help="Rerank candidates by minimum Bayes risk with this metric.", rich_help_panel=_SEARCH),
    ] = None,
    max_source_length: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Split lines of more source pieces.  [maximum in training]",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    guard: Annotated[
        bool,
        typer.Option(help="Search again where a translation looks wrong.", rich_help_panel=_SEARCH),
    ] = True,
    guard_report: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Write translations that looked wrong here, as jsonl.", rich_help_panel=_STREAMS
        ),
    ] = None,
    split_sentences: Annotated[
        Literal["auto", "always", "never"],
        typer.Option(help="Split lines into sentences; auto: lines unlike training's.", rich_help_panel=_SEARCH),
    ] = "auto",
    copy_unknown: Annotated[
        bool | None,
        typer.Option(
            "--copy-unknown/--no-copy-unknown",
            help="Copy characters unseen in training from the source.  [on]",
            show_default=False,
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    input_format: Annotated[
        Literal["lines", "paragraphs"],
        typer.Option(help="paragraphs: wrapped text, separated by blank lines.", rich_help_panel=_STREAMS),
    ] = "lines",
    sample: Annotated[
        bool,
        typer.Option("--sample", help="Draw --beam translations at random instead.", rich_help_panel=_SAMPLING),
    ] = False,
    temperature: Annotated[
        float | None,
        typer.Option(metavar="X", help="Divides log-probabilities; below 1 is safer.  [1]", rich_help_panel=_SAMPLING),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Draw from the N likeliest pieces alone.", rich_help_panel=_SAMPLING),
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Nucleus sampling: smallest set of pieces with probability >= X.",
            rich_help_panel=_SAMPLING,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="The same seed draws the same.  [1]", rich_help_panel=_SAMPLING),
    ] = None,
    nbest: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Translations of each line, best first.", rich_help_panel=_FORMAT),
    ] = 1,
    format: Annotated[
        Literal["text", "jsonl", "tsv", "moses", "pharaoh"],
        typer.Option(
            help="tsv and moses: n-best lists with scores; pharaoh: word alignments.",
            rich_help_panel=_FORMAT,
        ),
    ] = "text",
    alignment: Annotated[
        bool,
        typer.Option("--alignment", help="Add alignments: pieces in jsonl, else words.", rich_help_panel=_FORMAT),
    ] = False,
    device: Annotated[
        Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where to compute.", rich_help_panel=_HARDWARE)
    ] = "auto",
    precision: Annotated[
        Literal["auto", "fp32", "bf16", "int8"],
        typer.Option(help="auto: bf16 where faster; int8: fastest on most CPUs.", rich_help_panel=_HARDWARE),
    ] = "auto",
    threads: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="CPU threads.  [all cores]", rich_help_panel=_HARDWARE)
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Batches searched at once.  [one per thread]", rich_help_panel=_HARDWARE),
    ] = None,
    batch_tokens: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Source pieces searched at once per worker.", rich_help_panel=_HARDWARE),
    ] = 2_048,
) -> None:
    """Translate lines of text: one line out for one line in, in the same order.

    With --nbest N there are N lines for each line in. With --score-target FILE nothing is translated: the lines of
    FILE are scored as translations.

    Example: nmt translate -m runs/toy-en-de-tiny input.txt > output.txt
    """
    import sys

    from nmt.checkpoint.bundle_files import Verification
    from nmt.checkpoint.describing import describe_model, models_to_use
    from nmt.cli.console import notice, warn
    from nmt.errors import ConfigError
    from nmt.text import STDIN

    drawing = {"--temperature": temperature, "--top-k": top_k, "--top-p": top_p, "--seed": seed}
    searching = {
        "--sample": sample,
        "--mbr": mbr,
        "--prefix": prefix,
        "--nbest": nbest > 1,
        "--diverse-groups": diverse_groups > 1,
        "--beam": beam,
        "--min-length": min_length,
        "--max-extra-length": max_extra_length is not None,
        "--no-repeat-ngram": no_repeat_ngram,
        "--max-source-length": max_source_length,
        "--split-sentences": split_sentences != "auto",
        "--no-guard": not guard,
        "--copy-unknown" if copy_unknown else "--no-copy-unknown": copy_unknown is not None,
        "--guard-report": guard_report is not None,
        "--workers": workers,
    }
    _refuse([name for name, value in drawing.items() if value is not None and not sample], "only goes with --sample")
    _refuse(
        [name for name, value in searching.items() if value and score_target],
        "does not go with --score-target, which searches for nothing",
    )
    if text is not None and input is not None:
        raise ConfigError(f"the input was given twice, as {text} and as --input {input}: give one of them.")
    input = text or input or Path(STDIN)
    _refuse([f"--format {format}"] if score_target and format in ("tsv", "moses") else [], "lists what a search finds")
    alignment = alignment or format == "pharaoh"
    paragraphs = input_format == "paragraphs"
    of_lines = {
        "--prefix": prefix,
        "--score-target": score_target,
        "--resume": resume,
        f"--format {format}": format not in ("text", "jsonl"),
        "--alignment": alignment and format == "text",
    }
    _refuse([name for name, value in of_lines.items() if value and paragraphs], "only goes with --input-format lines")
    _refuse(
        ["--nbest"] if paragraphs and nbest > 1 and format == "text" else [],
        "goes with --input-format paragraphs only if --format is jsonl",
    )
    folders, remarks = models_to_use(model or [])
    # Goes on while torch is imported by what follows, and is over before that is.
    verification = Verification(folders)

    from nmt.cli.line_output import Streams, score_lines, translate_lines
    from nmt.device import choose_hardware
    from nmt.evaluation.pairwise import pairwise
    from nmt.search.extensions import Sampling
    from nmt.search.settings import search_settings
    from nmt.translation.ensemble import load_ensemble, product_sizes
    from nmt.translation.guard_report import GuardReport
    from nmt.translation.resuming import OutputFile
    from nmt.translation.target_scorer import TargetScorer
    from nmt.translation.translator import Translator

    if interactive is None:
        interactive = str(input) == STDIN and sys.stdin.isatty()
    beside = {"prefix": prefix, "score_target": score_target}
    claim = Streams(input, beside, output, resume, fresh, interactive, invalid_utf8, paragraphs, guard_report).claimed()
    streams = ctx.with_resource(claim)
    report = ctx.with_resource(GuardReport(guard_report).claimed(fresh=fresh))
    if report.path != guard_report:
        notice(f"writing the guard report to {report.path}, since {guard_report} exists")

    begun_in = OutputFile(streams.output).precision if streams.to_file else None
    hardware = choose_hardware(device, precision, threads, product=product_sizes(folders[0]), begun_in=begun_in)
    for line in (f"model: {', '.join(map(describe_model, folders))}", *remarks):
        notice(line)
    ensemble = load_ensemble(folders, hardware, verification)
    settings = search_settings(
        ensemble.config.decoding,
        beam=beam,
        length_penalty=length_penalty,
        max_extra_length=max_extra_length,
        min_length=min_length,
        nbest=nbest,
        normalization=normalization,
        no_repeat_ngram=no_repeat_ngram,
        sampling=Sampling(1.0 if temperature is None else temperature, top_k, top_p, 1 if seed is None else seed)
        if sample
        else None,
        diverse_groups=diverse_groups,
        diversity=diversity,
    )
    window = 1 if interactive else 2_048
    if score_target is not None:
        scorer = TargetScorer(
            ensemble, settings, hardware, batch_tokens=batch_tokens, window=window, alignment=alignment
        )
        score_lines(streams, scorer, streams.made_with(folders, scorer.settings | {"format": format}), format)
        return
    translator = Translator(
        ensemble,
        settings,
        hardware,
        batch_tokens=batch_tokens,
        window=window,
        max_source_length=max_source_length,
        # Several sentences are what a paragraph consists of, not what is unusual about it.
        split_sentences="always" if paragraphs and split_sentences == "auto" else split_sentences,
        guard=guard,
        utility=pairwise(mbr, target_lang=ensemble.config.data.target_lang) if mbr else None,
        alignment=alignment,
        copy_unknown=copy_unknown,
        workers=workers,
    )
    record = streams.made_with(
        folders, translator.settings | {"format": format, "input_format": input_format, "mbr": mbr}
    )
    tally = translate_lines(streams, translator, record, nbest, format, report, alignment=alignment)
    for message in tally.notices(prefixed=prefix is not None):
        notice(message)
    for message in tally.warnings(translator.max_source_length, guard=guard, prefixed=prefix is not None):
        warn(message)


def _refuse(options: list[str], why: str) -> None:
    from nmt.errors import ConfigError

    if options:
        raise ConfigError(f"{options[0]} {why}.")
