"""``nmt bench``: how fast this machine trains, beside others' toolkits."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

bench = typer.Typer(help="Measure speed on this machine; prints JSON.", no_args_is_help=True)


@bench.callback()
def root() -> None:
    """Measure speed on this machine; prints JSON."""


class Peer(StrEnum):
    """Toolkits that can be measured beside ours."""

    TRANSFORMERS = "transformers"


@bench.command("train", short_help="Target tokens a second in training.")
def train(
    data: Annotated[Path | None, typer.Option(help="A prepared data set; the newest below data/ if left out.")] = None,
    preset: Annotated[str, typer.Option(help="tiny, small, base or big.")] = "base",
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting: training.threads=1.")
    ] = None,
    against: Annotated[Peer | None, typer.Option(help="Measure this peer too, in turn, on the same batches.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Each measures once a round; medians count.")] = 5,
    updates: Annotated[int, typer.Option(min=1, help="Updates of a round.")] = 3,
    update_tokens: Annotated[int, typer.Option(min=1, help="Target tokens of an update.")] = 3_600,
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where to compute.")] = "auto",
    precision: Annotated[
        Literal["auto", "fp32", "bf16", "fp16"], typer.Option(help="Ours; a peer trains in fp32.")
    ] = "auto",
) -> None:
    """Measure training, alone or in turn with a peer that trains a plain loop in fp32.

    Each runs in a process of its own on the same batches, one round after the other, since a machine's speed changes
    from minute to minute.

    Example: nmt bench train --preset base --against transformers
    """
    import sys

    from nmt.bench.train import bench_train, report_text
    from nmt.cli.console import notice
    from nmt.data.manifest import newest_data_set
    from nmt.training.setup import resolve_config

    if data is None:
        data = newest_data_set()
        notice(f"data: {data} (the newest)")
    settings = [
        f"batching.update_tokens={update_tokens}",
        f"batching.group_tokens={update_tokens}",
        f"training.device={device}",
        f"training.precision={precision}",
        *(set_ or []),
    ]
    config, _ = resolve_config([(data, 1.0)], preset=preset, settings=settings)
    peer = None if against is None else against.value
    result = bench_train(data, config, against=peer, rounds=rounds, updates=updates, told=notice)
    sys.stdout.write(report_text(result))
