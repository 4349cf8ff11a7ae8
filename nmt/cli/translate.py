"""``nmt translate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def translate(
    model: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="A run or bundle; several make an ensemble. The newest run if left out."),
    ] = None,
    input: Annotated[
        Path,
        typer.Option(
            metavar="PATH",
            help="Text to translate, a line a sentence; plain, .gz or .xz; standard input if left out.",
            show_default=False,
        ),
    ] = Path("-"),
    output: Annotated[
        Path,
        typer.Option(
            metavar="PATH",
            help="Where to write, over what is there; standard output if left out.",
            show_default=False,
        ),
    ] = Path("-"),
    beam: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Width of the beam; 1 is greedy.  [the model's, mostly 4]")
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(metavar="X", min=0.0, help="alpha of the length penalty.  [the model's, mostly 0.6]")
    ] = None,
    max_extra_length: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Pieces that an output may have more than its source.  [50]")
    ] = None,
    normalization: Annotated[
        Literal["paper", "length"],
        typer.Option(help="What scores are divided by: the paper's penalty, or the length to the power of alpha."),
    ] = "paper",
    min_length: Annotated[int, typer.Option(metavar="N", min=0, help="Pieces that an output has at least.")] = 0,
    no_repeat_ngram: Annotated[
        int, typer.Option(metavar="N", min=0, help="No run of N pieces comes twice in an output; 0 allows all.")
    ] = 0,
    prefix: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="A file parallel to the input: what each translation begins with."),
    ] = None,
    diverse_groups: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="Groups of the beam that keep away from each other; they divide --beam evenly."
        ),
    ] = 1,
    diversity: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="With --diverse-groups: how much it costs to take a piece that another group takes.  [0.5]",
        ),
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw translations at random, --beam of them, rather than search.")
    ] = False,
    temperature: Annotated[
        float | None, typer.Option(metavar="X", help="With --sample: below 1 likely pieces become likelier.  [1]")
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="With --sample: draw from the N likeliest pieces alone."),
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(metavar="X", help="With --sample: draw from the fewest pieces whose probabilities come to X."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="With --sample: the same seed draws the same.  [1]")
    ] = None,
    mbr: Annotated[
        Literal["chrf", "bleu"] | None,
        typer.Option(help="Put the candidate first that is most like all, by this metric (minimum Bayes risk)."),
    ] = None,
    nbest: Annotated[
        int, typer.Option(metavar="N", min=1, help="Translations to write for each line, best first.")
    ] = 1,
    score_target: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Search for nothing: score the lines of this file, parallel to the input."),
    ] = None,
    format: Annotated[Literal["text", "jsonl"], typer.Option(help="jsonl has scores and pieces.")] = "text",
    alignment: Annotated[
        bool,
        typer.Option("--alignment", help="With jsonl: what source piece each piece belongs to, and how likely it was."),
    ] = False,
    batch_tokens: Annotated[
        int, typer.Option(metavar="N", min=1, help="Source pieces that are searched at once.")
    ] = 2_048,
    max_source_length: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Translate longer lines in parts of N pieces.  [256, or the model's positions]",
        ),
    ] = None,
    guard: Annotated[
        bool, typer.Option(help="Search again for what came out empty, looping, copied or of an odd length.")
    ] = True,
    interactive: Annotated[
        bool | None,
        typer.Option(
            "--interactive/--no-interactive",
            help="Answer each line before reading the next; so it is in a terminal.",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an --output that was interrupted, rather than begin anew.")
    ] = False,
    invalid_utf8: Annotated[
        Literal["error", "replace"], typer.Option(help="What to do with bytes that are not UTF-8.")
    ] = "error",
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where to compute.")] = "auto",
    precision: Annotated[
        Literal["auto", "fp32", "bf16", "int8"],
        typer.Option(
            help="auto takes bf16 where the hardware has it; int8 is the fastest on most CPUs, and rounds most."
        ),
    ] = "auto",
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="CPU threads; all cores if left out.")] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Batches searched at once, each by its share of the threads.  [one a thread]"
        ),
    ] = None,
) -> None:
    """Translate lines of text: one line out for one line in, in the same order.

    With --nbest N there are N lines for each line in. With --score-target FILE nothing is translated: it tells how
    likely the lines of FILE are as translations.

    Example: nmt translate --model runs/toy-en-de-tiny < input.txt > output.txt
    """
    import sys

    from nmt.checkpoint.describing import describe_model, models_to_use
    from nmt.checkpoint.files import Verification
    from nmt.cli.console import notice, warn
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
        "--no-guard": not guard,
        "--workers": workers,
    }
    _refuse([name for name, value in drawing.items() if value is not None and not sample], "only goes with --sample")
    _refuse(
        [name for name, value in searching.items() if value and score_target],
        "does not go with --score-target, which searches for nothing",
    )
    _refuse(["--alignment"] if alignment and format == "text" else [], "only goes with --format jsonl")
    folders, remarks = models_to_use(model or [])
    # Goes on while torch is imported by what follows, and is over before that is.
    verification = Verification(folders)

    from nmt.cli.line_output import Streams, score_lines, translate_lines
    from nmt.decoding.extensions import Sampling
    from nmt.decoding.loading import load_ensemble
    from nmt.decoding.options import search_settings
    from nmt.decoding.target_scorer import TargetScorer
    from nmt.decoding.translator import Translator
    from nmt.device import choose_hardware
    from nmt.evaluation.pairwise import pairwise

    if interactive is None:
        interactive = str(input) == STDIN and sys.stdin.isatty()
    beside = {"prefix": prefix, "score_target": score_target}
    streams = Streams(input, beside, output, resume, interactive, invalid_utf8)
    streams.check()

    hardware = choose_hardware(device, precision, threads)
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
        guard=guard,
        utility=pairwise(mbr, target_lang=ensemble.config.data.target_lang) if mbr else None,
        alignment=alignment,
        workers=workers,
    )
    record = streams.made_with(folders, translator.settings | {"format": format, "mbr": mbr})
    tally = translate_lines(streams, translator, record, nbest, format)
    for remark in tally.remarks(translator.max_source_length, guard=guard, prefixed=prefix is not None):
        warn(remark)


def _refuse(options: list[str], why: str) -> None:
    from nmt.errors import ConfigError

    if options:
        raise ConfigError(f"{options[0]} {why}.")
