"""How fast training and translating are on this machine.

The figures show whether the precisions that the program chooses are the fastest.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.bench.generated_pairs import generate_pairs
from nmt.bench.training_speed import bench_train
from nmt.bench.translating_speed import bench_translate, our_settings, save_random_bundle
from nmt.config import load_preset, parse_config
from nmt.data.build import build_vocabulary
from nmt.data.vocab_record import VocabularySettings
from nmt.doctor.rates import BEAM, ProductRate
from nmt.machine.device import Hardware, choose_hardware
from nmt.option_fields import EngineName, Precision
from nmt.training.start.setup import resolve_config

_ROUNDS = 2
_SENTENCES, _LATENCY_SENTENCES = 32, 16
_LENGTH = 16
# Target tokens per update of each preset.
_UPDATE_TOKENS = {"tiny": 2_000, "small": 1_000, "base": 3_600}
PRESETS = tuple(_UPDATE_TOKENS)
COMPARED = "small"
"""The preset whose training is measured in each precision, to see whether the right one is chosen."""
_PAIRS, _VOCAB_SIZE = 4_000, 8_000
# A choice within this share of the fastest one is right: repeated measurements differ by as much.
_AS_FAST = 0.9


@dataclass(frozen=True)
class TrainingSpeed:
    """Target tokens per second in training."""

    preset: str
    precision: str
    tokens_per_second: float


@dataclass(frozen=True)
class TranslatingSpeed:
    """Target tokens per second, and milliseconds per sentence, in translating with the sizes of ``base``."""

    engine: str
    """As ``nmt bench translate`` names it, with its precision."""
    precision: str
    beam_tokens_per_second: float
    greedy_tokens_per_second: float
    latency_milliseconds: float
    """The median over single sentences, with a beam."""
    peak_memory_bytes: int


def text_to_train_on(folder: Path) -> Path:
    """Make a data set of generated pairs with its vocabulary and shards."""
    data = generate_pairs(folder, _PAIRS)
    build_vocabulary([data], VocabularySettings(size=_VOCAB_SIZE))
    return data


def hardware_of_preset(preset: str) -> Hardware:
    """What training with a preset chooses on this machine."""
    model = parse_config(load_preset(preset), name=f"preset {preset}").model
    return choose_hardware(product=(model.d_model, model.d_ff))


def training_speed(data: Path, preset: str, precision: Precision, *, compiled: bool = False) -> TrainingSpeed:
    """Training with a preset in one precision.

    Args:
        compiled: with ``training.compile``, which may be faster on a GPU.

    Raises:
        NmtError: a process that measures failed.
    """
    size = _UPDATE_TOKENS[preset]
    settings = [
        f"batching.update_tokens={size}", f"batching.group_tokens={size}", f"training.precision={precision}",
        f"training.compile={compiled}",
    ]  # fmt: skip
    config, _ = resolve_config([(data, 1.0)], preset=preset, settings=settings)
    updates = 1 if preset == "base" else 3
    ours = bench_train(data, config, rounds=_ROUNDS, updates=updates)["nmt"]
    return TrainingSpeed(
        f"{preset}, compiled" if ours["compiled"] else preset,
        ours["precision"],
        ours["target_tokens_per_second"],
    )


def translating_speeds(
    data: Path, scratch: Path, hardware: Hardware, products: Sequence[ProductRate]
) -> list[TranslatingSpeed]:
    """Translating with random weights of the sizes of ``base``, in each precision that the device multiplies.

    CTranslate2 is measured too if it is installed.

    Raises:
        NmtError: a process that measures failed.
    """
    config, _ = resolve_config([(data, 1.0)], preset="base")
    bundle = scratch / "random"
    if not bundle.exists():
        save_random_bundle(bundle, config, data)
    engines: list[EngineName] = ["torch", "ctranslate2"] if importlib.util.find_spec("ctranslate2") else ["torch"]
    result = bench_translate(
        bundle,
        data,
        settings=our_settings(engines, list(dict.fromkeys(rate.precision for rate in products))),
        device=hardware.device.type,
        threads=hardware.threads,
        rounds=_ROUNDS,
        sentences=_SENTENCES,
        latency_sentences=_LATENCY_SENTENCES,
        beam=BEAM,
        length=_LENGTH,
        has_random_weights=True,
    )
    return [
        TranslatingSpeed(
            engine=name,
            precision=values["precision"],
            beam_tokens_per_second=values["beam"]["target_tokens_per_second"],
            greedy_tokens_per_second=values["greedy"]["target_tokens_per_second"],
            latency_milliseconds=values["latency"]["median_milliseconds"],
            peak_memory_bytes=values["peak_memory_bytes"],
        )
        for name, values in result["contestants"].items()
    ]


@dataclass(frozen=True)
class Choice:
    """A precision that the program chooses, why, and what was measured."""

    subject: str
    taken: str
    reason: str
    measured: dict[str, float]
    """What each of the possible choices reached; more is better."""
    unit: str

    @property
    def is_right(self) -> bool | None:
        """Whether what is taken is the fastest, or as fast; None if there was nothing to compare."""
        if self.taken not in self.measured or len(self.measured) < 2:
            return None
        return self.measured[self.taken] >= _AS_FAST * max(self.measured.values())


def choices(
    small: Hardware, base: Hardware, training: Sequence[TrainingSpeed], translating: Sequence[TranslatingSpeed]
) -> list[Choice]:
    """The precisions that are chosen, with what was measured of each.

    Args:
        small, base: what the program chooses for models of these sizes.
    """
    return [
        Choice(
            "precision of training",
            small.precision,
            small.reason,
            {speed.precision: speed.tokens_per_second for speed in training if speed.preset == COMPARED},
            f"target tokens/s, {COMPARED}",
        ),
        Choice(
            "precision of translating",
            base.precision,
            f"{base.reason}; int8 rounds more, so it is used only if asked for",
            {
                speed.precision: speed.beam_tokens_per_second
                for speed in translating
                if speed.engine.startswith("nmt ") and speed.precision != "int8"
            },
            f"target tokens/s, base, beam {BEAM}",
        ),
    ]
