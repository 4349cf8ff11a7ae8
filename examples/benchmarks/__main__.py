"""Speed of nmt on this machine, alone or beside other toolkits.

python examples/benchmarks table       training and translating, as a Markdown table
python examples/benchmarks train       beside other toolkits' models in a plain loop
python examples/benchmarks translate   beside CTranslate2 and transformers, with the same weights
python examples/benchmarks around      what nmt translate does before and after the search
python examples/benchmarks encode      beside SentencePiece alone
python examples/benchmarks serve       many clients of nmt serve, beside nmt translate and another server
python examples/benchmarks scaling     on one GPU, on several and on all
"""

import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from around_search import bench_around
from encoding import bench_encode
from scaling import UPDATES, numbers_of_gpus, scaling_speeds
from serving import bench_serving
from speed_table import speed_table
from training_peers import PEERS as TRAINING_PEERS
from training_peers import installed_peers as installed_training_peers
from training_peers import peer_programs
from training_speed import bench_train, config_to_train
from translating import PEERS, installed_peers, peer_settings, prepare
from translating_speed import bench_translate, our_settings, save_random_bundle
from turns import report_text

from nmt.checkpoint.describing import models_to_use
from nmt.data.manifest import newest_data_set
from nmt.errors import ConfigError, NmtError
from nmt.io.writing import scratch_folder
from nmt.machine.device import choose_hardware
from nmt.training.start.settings import resolve_config

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Speed of nmt on this machine, alone or beside other toolkits. All but `table` print JSON.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
Peer = StrEnum("Peer", {name.upper(): name for name in PEERS})
TrainingPeer = StrEnum("TrainingPeer", {name.upper(): name for name in TRAINING_PEERS})
EngineName = StrEnum("EngineName", {"TORCH": "torch", "CTRANSLATE2": "ctranslate2"})
Data = Annotated[Path | None, typer.Option(metavar="DIR", help="A data set.  [the newest below data/]")]
Preset = Annotated[str, typer.Option(metavar="NAME", help="tiny, small, base or big.")]
Rounds = Annotated[int, typer.Option(metavar="N", min=1, help="Rounds, in which each is measured once.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="K=V", help="Change a setting.")]
Alone = Annotated[bool, typer.Option("--alone", help="Measure no other toolkit.")]
Model = Annotated[Path | None, typer.Option("-m", "--model", metavar="PATH", help="A run or bundle.")]


def report(line: str) -> None:
    """Print a line of progress."""
    print(line, file=sys.stderr)


def bundle_to_measure(model: Path | None) -> Path:
    """The bundle of a model, by default of the newest run."""
    [bundle], _ = models_to_use([model] if model is not None else [])
    return bundle


@app.command()
def table() -> None:
    """Measure training and translating with generated text, and print Markdown: ten minutes at most."""
    print(speed_table(report=report))


@app.command()
def train(
    data: Data = None,
    preset: Preset = "base",
    against: Annotated[
        list[TrainingPeer] | None,
        typer.Option(metavar="TOOLKIT", help=f"{', '.join(TRAINING_PEERS)}; may be repeated.  [the installed ones]"),
    ] = None,
    alone: Alone = False,
    rounds: Rounds = 5,
    updates: Annotated[int, typer.Option(metavar="N", min=1, help="Updates per round.")] = 3,
    update_tokens: Annotated[int, typer.Option(metavar="N", min=1, help="Target tokens per update.")] = 3_600,
    device: Device = "auto",
    precision: Annotated[str, typer.Option(help="auto, fp32, bf16 or fp16.")] = "auto",
    set_: Settings = None,
) -> None:
    """Train the same updates as other toolkits' models in a plain loop: in fp32 on a CPU, in 16 bits on a GPU."""
    if alone and against:
        raise ConfigError("--alone and --against were both given: give one.")
    data = data or newest_data_set()
    settings = [f"training.device={device}", f"training.precision={precision}", *(set_ or [])]
    config = config_to_train(data, preset, update_tokens, settings)
    peers = [] if alone else [str(peer) for peer in against or installed_training_peers()]
    programs = peer_programs(peers, config.model)
    print(report_text(bench_train(data, config, peers=programs, rounds=rounds, updates=updates, report=report)), end="")


@app.command()
def translate(
    model: Model = None,
    preset: Annotated[str | None, typer.Option(metavar="NAME", help="Random weights of a preset's sizes.")] = None,
    data: Data = None,
    against: Annotated[
        list[Peer] | None,
        typer.Option(metavar="TOOLKIT", help=f"{', '.join(PEERS)}; may be repeated.  [all that are installed]"),
    ] = None,
    alone: Alone = False,
    engine: Annotated[
        list[EngineName] | None,
        typer.Option(metavar="NAME", help="Of nmt: torch, ctranslate2; may be repeated.  [torch]"),
    ] = None,
    precision: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Ours; may be repeated.  [auto]")] = None,
    rounds: Rounds = 5,
    sentences: Annotated[int, typer.Option(metavar="N", min=1, help="Sentences per round.")] = 128,
    beam: Annotated[int, typer.Option(metavar="N", min=1, help="Beam size; greedy search is measured anyway.")] = 4,
    length: Annotated[int, typer.Option(metavar="N", help="Target tokens per output when rates are measured.")] = 16,
    batch_tokens: Annotated[int, typer.Option(metavar="N", min=1, help="Maximum source pieces per batch.")] = 2_048,
    device: Device = "auto",
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="Threads of each toolkit.")] = None,
    set_: Settings = None,
) -> None:
    """Translate with the same weights, pieces and threads as other toolkits, and compare greedy outputs."""
    if model is not None and preset is not None:
        raise ConfigError("--model and --preset were both given: give one.")
    if set_ and preset is None:
        raise ConfigError("--set changes settings of a --preset: give one.")
    if alone and against:
        raise ConfigError("--alone and --against were both given: give one.")
    data = data or newest_data_set()
    hardware = [choose_hardware(device, word, threads) for word in precision or ["auto"]]
    here = hardware[0].device.type
    peers = [] if alone else [str(peer) for peer in against or installed_peers()]
    settings = our_settings([str(one) for one in engine or ["torch"]], [one.precision for one in hardware])
    settings += peer_settings(peers, [one.precision for one in hardware], here, hardware[0].threads)
    with scratch_folder() as folder:
        if preset is None:
            bundle = bundle_to_measure(model)
        else:
            bundle = folder / "random"
            config, _ = resolve_config([(data, 1.0)], preset=preset, settings=set_ or [])
            save_random_bundle(bundle, config, data)
        result = bench_translate(
            bundle, data, settings=settings, prepare=lambda work, read: prepare(work, read, peers), device=here,
            threads=hardware[0].threads, rounds=rounds, sentences=sentences, beam=beam, length=length,
            batch_tokens=batch_tokens, has_random_weights=preset is not None, report=report,
        )  # fmt: skip
    print(report_text(result), end="")


@app.command()
def around(
    source: Annotated[Path, typer.Argument(help="Lines to translate.")],
    reference: Annotated[Path, typer.Argument(help="Their translations, which stand for what a search finds.")],
    model: Model = None,
    rounds: Rounds = 5,
) -> None:
    """Prepare lines, and guard and join their translations, without a search: one thread's processor time per line."""
    print(report_text(bench_around(bundle_to_measure(model), source, reference, rounds=rounds)), end="")


@app.command()
def encode(
    pairs: Annotated[int, typer.Option(metavar="N", min=1, help="Generated pairs, 25 words a side.")] = 200_000,
    size: Annotated[int, typer.Option(metavar="N", min=300, help="Pieces of the vocabulary.")] = 32_000,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="Threads of each.  [all cores]")] = None,
    rounds: Rounds = 3,
) -> None:
    """Encode as build-vocab --vocab does, beside SentencePiece on lines in memory and in a loop over files."""
    print(report_text(bench_encode(pairs=pairs, size=size, threads=threads, rounds=rounds, report=report)), end="")


@app.command()
def serve(
    text: Annotated[Path, typer.Argument(metavar="TEXT", help="Lines to translate.")],
    model: Model = None,
    pair: Annotated[str, typer.Option(metavar="SRC-TGT", help="Source and target language.")] = "en-de",
    other: Annotated[
        str | None, typer.Option(metavar="URL", help="Another server with LibreTranslate's interface, in turn.")
    ] = None,
    clients: Annotated[int, typer.Option(metavar="N", min=1, help="Clients that ask at the same time.")] = 64,
    longest: Annotated[int, typer.Option(metavar="N", min=1, help="Requests have 1 to N lines, in turn.")] = 8,
    seconds: Annotated[float, typer.Option(metavar="X", min=1, help="Seconds of each measurement.")] = 120.0,
    rounds: Rounds = 3,
    option: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="Of both commands: --option=--beam=1.")
    ] = None,
) -> None:
    """Ask nmt serve from many clients, and translate the same text with nmt translate."""
    bundle = bundle_to_measure(model)
    source, _, target = pair.partition("-")
    lines = [line for line in text.read_text("utf-8").split("\n") if line.strip()]
    result = bench_serving(
        bundle, option or [], {"source": source, "target": target}, lines,
        other=other, clients=clients, longest=longest, seconds=seconds, rounds=rounds, report=report,
    )  # fmt: skip
    print(report_text({"benchmark": "serve", **result}), end="")


@app.command()
def scaling(
    data: Data = None,
    ranks: Annotated[
        list[int] | None, typer.Option(metavar="N", help="May be repeated; 1 first.  [1, 2, 4 … all GPUs]")
    ] = None,
    device: Annotated[str, typer.Option(help="cuda or cpu.")] = "cuda",
    preset: Annotated[list[str] | None, typer.Option(metavar="NAME", help="May be repeated.  [base, big]")] = None,
    update_tokens: Annotated[
        list[int] | None, typer.Option(metavar="N", help="Over all ranks; may be repeated.  [25,000 and 100,000]")
    ] = None,
    updates: Annotated[int, typer.Option(metavar="N", min=1, help="Timed updates.")] = UPDATES,
) -> None:
    """Train on several numbers of GPUs; efficiency is the speed per GPU over the speed of one."""
    numbers = ranks or numbers_of_gpus()
    if not numbers:
        raise ConfigError("this machine has no GPU that torch can use. Give --device cpu and --ranks.")
    presets, sizes = preset or ["base", "big"], update_tokens or [25_000, 100_000]
    tasks = [(name, tokens) for name in presets for tokens in sizes]
    speeds = scaling_speeds(
        data or newest_data_set(), numbers, device=device, updates=updates, tasks=tasks, report=report
    )
    print(report_text({"benchmark": "scaling", "speeds": [asdict(speed) for speed in speeds]}), end="")


if __name__ == "__main__":
    try:
        app()
    except NmtError as error:
        sys.exit(f"error: {error}")
