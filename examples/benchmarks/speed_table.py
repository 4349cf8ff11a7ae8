"""Speeds of this machine as Markdown: training with three presets, and translating in several precisions."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

PRESETS = ("small", "base", "big")
"""The presets whose training is measured."""
BASE = "base"
"""The preset of translating."""
_ROUNDS, _BEAM = 3, 4


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    pairs: int
    vocab_size: int
    update_tokens: int
    updates: int
    """Per round."""
    sentences: int
    batch_tokens: int
    presets: tuple[str, ...] = PRESETS


# Both take less than ten minutes. On a GPU, updates and vocabulary are the paper's.
_ON_CPU = Sizes(10_000, 8_000, update_tokens=2_000, updates=1, sentences=64, batch_tokens=2_048)
_ON_GPU = Sizes(60_000, 37_000, update_tokens=25_000, updates=10, sentences=1_000, batch_tokens=16_384)


def speed_table(*, report: Callable[[str], None], sizes: Sizes | None = None) -> str:
    """Measure nmt alone on its best device. A preset that fails is reported and left out.

    Args:
        sizes: how much is measured; by default, what suits the device.
        report: called with lines of progress.
    """
    hardware = choose_hardware()
    is_gpu = hardware.device.type == "cuda"
    sizes = sizes or (_ON_GPU if is_gpu else _ON_CPU)
    training = Table("", ["training", "precision", "compiled", "target tokens/s"])
    translating = Table(
        "", [f"translating, `{BASE}`", f"beam {_BEAM}, target tokens/s", "greedy", "one sentence", "peak memory"]
    )
    with scratch_folder() as folder:
        report("generating text")
        data = generate_pairs(folder / "data", sizes.pairs)
        build_vocabulary([data], VocabularySettings(size=sizes.vocab_size))
        for preset in sizes.presets:
            report(f"training, {preset}")
            try:
                training.add(*_training(data, preset, sizes, is_gpu, report))
            except NmtError as error:
                report(f"left out: {error}")
        report(f"translating, {BASE}")
        for row in _translating(data, folder / "random", sizes, hardware, report):
            translating.add(*row)
    device = torch.cuda.get_device_name() if is_gpu else f"{hardware.threads} threads"
    title = (
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {processor_name()}, {device}, torch {torch.__version__}, "
        f"nmt {nmt.__version__}: `make bench`. Updates of {sizes.update_tokens:,} target tokens, "
        f"{sizes.vocab_size:,} pieces, generated text, random weights; medians of {_ROUNDS} rounds."
    )
    return "\n\n".join([title, training.markdown(), translating.markdown()])


def _training(data: Path, preset: str, sizes: Sizes, is_gpu: bool, report: Callable[[str], None]) -> list[str]:
    config = config_to_train(data, preset, sizes.update_tokens, [f"training.compile={str(is_gpu).lower()}"])
    ours = bench_train(data, config, rounds=_ROUNDS, updates=sizes.updates, report=report)["nmt"]
    return [
        f"`{preset}`",
        ours["precision"],
        "yes" if ours["compiled"] else "no",
        f"{ours['target_tokens_per_second']:,.0f}",
    ]


def _translating(
    data: Path, bundle: Path, sizes: Sizes, hardware: Hardware, report: Callable[[str], None]
) -> list[list[str]]:
    save_random_bundle(bundle, config_to_train(data, BASE, sizes.update_tokens, []), data)
    precisions: list[Precision] = ["fp32", hardware.precision]
    if hardware.device.type == "cpu":
        precisions.append("int8")
    result: dict[str, Any] = bench_translate(
        bundle, data, settings=our_settings(["torch"], precisions), device=hardware.device.type,
        threads=hardware.threads, rounds=_ROUNDS, sentences=sizes.sentences, beam=_BEAM,
        batch_tokens=sizes.batch_tokens, has_random_weights=True, report=report,
    )  # fmt: skip
    return [
        [
            name.removeprefix("nmt "),
            f"{values['beam']['target_tokens_per_second']:,.0f}",
            f"{values['greedy']['target_tokens_per_second']:,.0f}",
            f"{values['latency']['median_milliseconds']:,.0f} ms",
            f"{values['peak_memory_bytes'] / 1e9:.1f} GB",
        ]
        for name, values in result["contestants"].items()
    ]
