"""Speeds of this machine as Markdown: training with some presets, and translating."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from generated_pairs import generate_pairs
from training_speed import bench_train, config_to_train
from translating_speed import bench_translate, our_settings, save_random_bundle

import nmt
from nmt.data.build import build_vocabulary
from nmt.data.vocab_record import VocabularySettings
from nmt.errors import NmtError
from nmt.io.writing import scratch_folder
from nmt.machine.device import Hardware, choose_hardware
from nmt.machine.processor import processor_name
from nmt.option_fields import Precision
from nmt.table import Table

_ROUNDS, _BEAM = 3, 4
Report = Callable[[str], None]


@dataclass(frozen=True)
class Updates:
    """Updates of a preset, which are measured."""

    preset: str
    pieces: int
    tokens: int
    count: int
    """Per round."""


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    pairs: int
    updates: tuple[Updates, ...]
    sentences: int
    length: int
    """Pieces of an output."""
    batch_tokens: tuple[int, ...]
    """Source pieces that are searched at once."""
    precisions: tuple[Precision, ...]
    """Of translating, beside the one that suits the device."""
    translating: str = "base"
    """The preset of translating; the first updates have its vocabulary."""


# Both take less than ten minutes.
_ON_CPU = Sizes(
    10_000,
    tuple(Updates(preset, 8_000, 2_000, 1) for preset in ("small", "base", "big")),
    sentences=64, length=16, batch_tokens=(2_048,), precisions=("fp32", "int8"),
)  # fmt: skip
# The rows of docs/benchmarks.md: updates of the paper, one GPU's share of eight, and updates for a small corpus.
_ON_GPU = Sizes(
    60_000,
    (
        Updates("base", 37_000, 25_000, 10), Updates("big", 37_000, 25_000, 10),
        Updates("base", 37_000, 3_125, 80), Updates("small", 8_000, 1_000, 250),
    ),
    sentences=3_000, length=32, batch_tokens=(4_096, 16_384, 65_536), precisions=(),
)  # fmt: skip


def speed_table(*, report: Report, sizes: Sizes | None = None) -> str:
    """Measure nmt alone on its best device. What fails is reported and left out.

    Args:
        sizes: how much is measured; by default, what suits the device.
        report: called with lines of progress, and with each row once it is measured.
    """
    hardware = choose_hardware()
    is_gpu = hardware.device.type == "cuda"
    sizes = sizes or (_ON_GPU if is_gpu else _ON_CPU)
    training = Table("", ["training", "pieces", "tokens of an update", "precision", "compiled", "target tokens/s"])
    translating = Table(
        "",
        [
            f"translating, `{sizes.translating}`", "source pieces of a batch", f"beam {_BEAM}, target tokens/s",
            "greedy", "one sentence", "peak memory",
        ],
    )  # fmt: skip
    with scratch_folder() as folder:
        data = {}
        for pieces in {updates.pieces: None for updates in sizes.updates}:
            report(f"generating text, {pieces:,} pieces")
            data[pieces] = generate_pairs(folder / f"data-{pieces}", sizes.pairs)
            build_vocabulary([data[pieces]], VocabularySettings(size=pieces))
        for compiles in [True, False] if is_gpu else [False]:  # what matters more comes first
            for updates in sizes.updates:
                with _left_out_if_it_fails(report):
                    _add(training, _training(data[updates.pieces], updates, report, compiles=compiles), report)
        of_translating = data[sizes.updates[0].pieces]
        for tokens in sizes.batch_tokens:
            with _left_out_if_it_fails(report):
                for row in _translating(of_translating, folder / f"random-{tokens}", sizes, tokens, hardware, report):
                    _add(translating, row, report)
    device = torch.cuda.get_device_name() if is_gpu else f"{hardware.threads} threads"
    title = (
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {processor_name()}, {device}, torch {torch.__version__}, "
        f"nmt {nmt.__version__}: `make bench`. Generated text, random weights, outputs of {sizes.length} pieces; "
        f"medians of {_ROUNDS} rounds."
    )
    return "\n\n".join([title, training.markdown(), translating.markdown()])


@contextmanager
def _left_out_if_it_fails(report: Report) -> Iterator[None]:
    try:
        yield
    except NmtError as error:
        report(f"left out: {error}")


def _add(table: Table, row: list[str], report: Report) -> None:
    """Add a row, and report it: if the time is too short for the others, it is not lost."""
    table.add(*row)
    report(" | ".join(row))


def _training(data: Path, updates: Updates, report: Report, *, compiles: bool) -> list[str]:
    report(f"training, {updates.preset}")
    config = config_to_train(data, updates.preset, updates.tokens, [f"training.compile={str(compiles).lower()}"])
    ours = bench_train(data, config, rounds=_ROUNDS, updates=updates.count, report=report)["nmt"]
    return [
        f"`{updates.preset}`",
        f"{updates.pieces:,}",
        f"{updates.tokens:,}",
        ours["precision"],
        "yes" if ours["compiled"] else "no",
        f"{ours['target_tokens_per_second']:,.0f}",
    ]


def _translating(
    data: Path, bundle: Path, sizes: Sizes, batch_tokens: int, hardware: Hardware, report: Report
) -> list[list[str]]:
    report(f"translating, {sizes.translating}")
    save_random_bundle(bundle, config_to_train(data, sizes.translating, sizes.updates[0].tokens, []), data)
    result = bench_translate(
        bundle, data, settings=our_settings(["torch"], [*sizes.precisions, hardware.precision]),
        device=hardware.device.type, threads=hardware.threads, rounds=_ROUNDS, sentences=sizes.sentences, beam=_BEAM,
        length=sizes.length, batch_tokens=batch_tokens, tries_smaller_batches=hardware.device.type == "cpu",
        has_random_weights=True, compares_outputs=False, report=report,
    )  # fmt: skip
    return [
        [
            name.removeprefix("nmt "),
            f"{batch_tokens:,}",
            f"{values['beam']['target_tokens_per_second']:,.0f}",
            f"{values['greedy']['target_tokens_per_second']:,.0f}",
            f"{values['latency']['median_milliseconds']:,.0f} ms",
            f"{values['peak_memory_bytes'] / 1e9:.1f} GB",
        ]
        for name, values in result["contestants"].items()
    ]
