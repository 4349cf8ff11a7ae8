"""``nmt bench``: how fast this machine trains and translates."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from nmt.bench.turns import report_text
from nmt.cli.console import notice, write_stdout
from nmt.cli.options import (
    Changes,
    CommandGroup,
    DataSet,
    Device,
    GroupedCommand,
    Model,
    Threads,
    data_set_to_use,
    model_to_use,
    option,
    with_quiet,
    yaml_names,
)
from nmt.errors import ConfigError
from nmt.io.writing import scratch_folder
from nmt.option_fields import EngineName, TrainingPrecision, TranslationPrecision

bench = typer.Typer(
    cls=CommandGroup,
    help="Measure speed on this machine; prints JSON.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


Rounds = Annotated[int, option("Rounds, in which each is measured once; medians are reported.", min=1)]


@bench.command("train", cls=GroupedCommand, short_help="Target tokens per second in training.")
@with_quiet
def train(
    data: DataSet = None,
    preset: Annotated[
        str, option("tiny, small, base or big.", metavar="NAME", autocompletion=yaml_names("presets"))
    ] = "base",
    set_: Changes = None,
    rounds: Rounds = 5,
    updates: Annotated[int, option("Updates per round.", min=1)] = 3,
    update_tokens: Annotated[int, option("Target tokens per update.", min=1)] = 3_600,
    device: Device = "auto",
    precision: Annotated[TrainingPrecision, option("Of matrix products.")] = "auto",
) -> None:
    """Measure training: target tokens per second, and their share of what matrix products alone would reach.

    It trains in a process of its own, on other batches in each round.

    Example: nmt bench train --preset base
    """
    from nmt.bench.training_speed import bench_train
    from nmt.training.start.setup import resolve_config

    data = data_set_to_use(data)
    settings = [
        f"batching.update_tokens={update_tokens}",
        f"batching.group_tokens={update_tokens}",
        f"training.device={device}",
        f"training.precision={precision}",
        *(set_ or []),
    ]
    config, _ = resolve_config([(data, 1.0)], preset=preset, settings=settings)
    write_stdout(report_text(bench_train(data, config, rounds=rounds, updates=updates, report=notice)))


@bench.command(
    "translate", cls=GroupedCommand, short_help="Target tokens per second, latency and memory in translating."
)
@with_quiet
def translate(
    model: Model = None,
    preset: Annotated[str | None, option("Use random weights of this preset's sizes.", metavar="NAME")] = None,
    set_: Changes = None,
    data: DataSet = None,
    engine: Annotated[list[EngineName] | None, option("Engine of nmt; may be repeated.  [torch]")] = None,
    rounds: Rounds = 5,
    sentences: Annotated[int, option("Sentences of the test set per round.", min=1)] = 128,
    beam: Annotated[int, option("Beam size; greedy search is measured anyway.", min=1)] = 4,
    length: Annotated[int, option("Target tokens per output when rates are measured.")] = 16,
    batch_tokens: Annotated[int, option("Maximum source pieces searched at once.", min=1)] = 2_048,
    threads: Threads = None,
    device: Annotated[Literal["auto", "cpu", "cuda"], option("Where to compute.")] = "auto",
    precision: Annotated[list[TranslationPrecision] | None, option("Ours; may be repeated.  [auto]")] = None,
) -> None:
    """Measure translating in each engine and precision, in turn, each in a process of its own.

    Measures target tokens per second with a beam and greedily at a forced length, the latency of single sentences,
    memory, and the time to the first output. Compares greedy outputs.

    Example: nmt bench translate --model runs/toy-en-de-tiny --precision fp32 --precision int8
    """
    from nmt.bench.translating_speed import bench_translate, our_settings, save_random_bundle
    from nmt.machine.device import choose_hardware
    from nmt.training.start.setup import resolve_config

    if model is not None and preset is not None:
        raise ConfigError("--model and --preset were both given: give one.")
    if set_ and preset is None:
        raise ConfigError("--set changes settings of a --preset: give one.")
    data = data_set_to_use(data)
    hardware = [choose_hardware(device, word, threads) for word in precision or ["auto"]]
    settings = our_settings(engine or ["torch"], [one.precision for one in hardware])
    with scratch_folder() as folder:
        if preset is None:
            bundle = model_to_use(model)
        else:
            bundle = folder / "random"
            config, _ = resolve_config([(data, 1.0)], preset=preset, settings=set_ or [])
            save_random_bundle(bundle, config, data)
        result = bench_translate(
            bundle,
            data,
            settings=settings,
            device=hardware[0].device.type,
            threads=hardware[0].threads,
            rounds=rounds,
            sentences=sentences,
            beam=beam,
            length=length,
            batch_tokens=batch_tokens,
            has_random_weights=preset is not None,
            report=notice,
        )
    write_stdout(report_text(result))
