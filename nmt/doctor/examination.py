"""What ``nmt doctor`` does, in order: describe the machine, measure its rates, check its results, measure its speed."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import nmt
from nmt.device import Hardware, bf16_speedup, choose_hardware
from nmt.doctor.checks import Check, all_checks
from nmt.doctor.choices import Choice, choices
from nmt.doctor.generated_text import generated_data_set
from nmt.doctor.gpu_checks import gpu_checks
from nmt.doctor.machine import Machine, examine_machine
from nmt.doctor.rank_checks import ExchangeRate, check_ranks, exchange_rates
from nmt.doctor.rates import (
    ProductRate,
    fused_attention_library,
    memory_bandwidth,
    product_rates,
    search_attention_seconds,
    training_attention_seconds,
)
from nmt.doctor.scaling import ScalingSpeed, numbers_of_gpus, scaling_speeds
from nmt.doctor.speeds import (
    COMPARED,
    PEER_OF_TRAINING,
    PRESETS,
    TrainingSpeed,
    TranslatingSpeed,
    hardware_of_preset,
    training_speed,
    translating_speeds,
)
from nmt.doctor.steps import Report, Steps
from nmt.errors import ConfigError
from nmt.kernels.int8 import fastest_int8_product
from nmt.measured import forget_measurements
from nmt.option_fields import Precision
from nmt.training.ranks.exchange import is_launched
from nmt.writing import scratch_folder

MARK = "nmt doctor"
"""What the JSON of an examination is recognised by."""
_VOCAB_SIZE = 8_000
_PRESET_COMPILED = "base"
"""The preset whose training is also measured compiled, on a GPU."""
_SECONDS = 165.0
# Of the time that is left.
_SHARE_OF_CHECK, _SHARE_OF_RANKS, _SHARE_OF_TRAINING, _SHARE_OF_TRANSLATING = 0.1, 0.3, 0.4, 0.6


@dataclass(frozen=True)
class Examination:
    """All that was found."""

    nmt_version: str
    date: str
    seconds: float
    machine: Machine
    hardware: str
    """The device, threads and precision that training would use."""
    products: list[ProductRate]
    memory_bytes_per_second: float | None
    training_attention_seconds: dict[str, float]
    """Seconds of a batch, with its gradient, in each form of attention."""
    search_attention_seconds: dict[str, float]
    """Seconds of a step in each form of attention."""
    fused_attention_library: str
    """What torch's fused attention computes a padded training batch by."""
    exchange: list[ExchangeRate]
    """How fast ranks exchange gradients."""
    checks: list[Check]
    choices: list[Choice]
    training: list[TrainingSpeed]
    translating: list[TranslatingSpeed]
    scaling: list[ScalingSpeed]
    """Training on one GPU, on several and on all."""
    left_out: list[str]
    """What was not measured, and why."""

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(check.passed is not False for check in self.checks)

    def values(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {"examination": MARK, **asdict(self)}


def examine(
    *, peers: Sequence[str] = (), with_speeds: bool = True, report: Report = lambda message: None
) -> Examination:
    """Examine this machine within three minutes; training on several GPUs comes on top.

    A step that fails, or that does not fit into its share of the time, is a finding, and the others go on.

    Args:
        peers: other toolkits to measure beside ours.
        with_speeds: also measure training and translating, which takes most of the time.
        report: called with a line before each step.

    Raises:
        ConfigError: a launcher started this process as one of several.
        WriteError: the system refused to write temporary files.
    """
    if is_launched():
        raise ConfigError(
            "nmt doctor examines a whole machine, and starts processes on all of its GPUs itself. Run it once, without "
            "torchrun."
        )
    steps = Steps(_SECONDS, report)
    report("the machine")
    machine = examine_machine()
    forget_measurements()
    bf16_speedup.cache_clear()
    fastest_int8_product.cache_clear()
    hardware = choose_hardware()
    products = steps.do("the rate of matrix products", 0.2, partial(product_rates, hardware), list[ProductRate]())
    bandwidth = steps.do("the bandwidth of memory", 0.05, partial(memory_bandwidth, hardware), None)
    none = dict[str, float]()
    attention = steps.do("attention in training", 0.05, partial(training_attention_seconds, hardware), none)
    search_attention = steps.do("attention in a search", 0.05, partial(search_attention_seconds, hardware), none)
    library = steps.do("torch's fused attention", 0.05, partial(fused_attention_library, hardware), "")
    checks: list[Check] = []
    for subject, check in (*all_checks(hardware), *gpu_checks(hardware)):
        checks += _checked(steps, subject, check)
    exchange, training, translating, scaling = list[ExchangeRate](), list[TrainingSpeed](), [], []
    with scratch_folder() as scratch:
        make = partial(generated_data_set, scratch / "text", _VOCAB_SIZE)
        data = steps.do("text to train on", 0.2, make, None)
        if data is not None:
            checks += _checked(steps, "ranks", partial(check_ranks, hardware, data, scratch), share=_SHARE_OF_RANKS)
        exchange = steps.do("the exchange between ranks", 0.2, partial(exchange_rates, hardware), [])
        if with_speeds and data is not None:
            if peers and steps.is_late:
                steps.left_out.append(f"{', '.join(peers)}: the time does not suffice to measure them beside ours")
                peers = ()
            first, *others = _training_tasks(products, peers)
            training = _training(data, [first], steps)
            translating = _translating(data, scratch, hardware, products, peers, steps)
            training += _training(data, others, steps)
        chosen = partial(
            choices, hardware_of_preset(COMPARED), hardware, attention, search_attention, training, translating
        )
        made = steps.do("choices", 0.9, chosen, list[Choice]())
        if with_speeds and data is not None:  # last: it takes minutes, which come on top
            scaling = _scaling(data, hardware, report, steps.left_out)
    return Examination(
        nmt_version=nmt.__version__,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        seconds=steps.seconds,
        machine=machine,
        hardware=str(hardware),
        products=products,
        memory_bytes_per_second=bandwidth,
        training_attention_seconds=attention,
        search_attention_seconds=search_attention,
        fused_attention_library=library,
        exchange=exchange,
        checks=checks,
        choices=made,
        training=training,
        translating=translating,
        scaling=scaling,
        left_out=steps.left_out,
    )


def _checked(
    steps: Steps, subject: str, check: Callable[[], list[Check]], *, share: float = _SHARE_OF_CHECK
) -> list[Check]:
    return steps.do(f"check: {subject}", share, check, [], lambda reason: [Check(subject, False, reason)])


def _scaling(data: Path, hardware: Hardware, report: Report, left_out: list[str]) -> list[ScalingSpeed]:
    numbers = numbers_of_gpus(hardware)
    if not numbers:
        return []
    report(f"training on {', '.join(map(str, numbers))} GPUs")
    return scaling_speeds(data, numbers, left_out)


def _training_tasks(
    products: Sequence[ProductRate], peers: Sequence[str]
) -> list[tuple[str, Precision, bool, str | None]]:
    """What is trained, the most telling first: preset, precision, whether compiled, another toolkit beside it.

    Each preset as it would be trained; then one in the other precisions, and on a GPU compiled.
    """
    against = PEER_OF_TRAINING if PEER_OF_TRAINING in peers else None
    chosen = {preset: hardware_of_preset(preset) for preset in reversed(PRESETS)}
    tasks: list[tuple[str, Precision, bool, str | None]] = [
        (preset, hardware.precision, False, against if preset == "base" else None)
        for preset, hardware in chosen.items()
    ]
    others: list[Precision] = ["fp32", "bf16"]
    multiplied = {rate.precision for rate in products} - {chosen[COMPARED].precision}
    tasks += [(COMPARED, precision, False, None) for precision in others if precision in multiplied]
    if chosen[_PRESET_COMPILED].device.type == "cuda":
        tasks.append((_PRESET_COMPILED, chosen[_PRESET_COMPILED].precision, True, None))
    return tasks


def _training(
    data: Path, tasks: Sequence[tuple[str, Precision, bool, str | None]], steps: Steps
) -> list[TrainingSpeed]:
    speeds: list[TrainingSpeed] = []
    for preset, precision, compiled, peer in tasks:
        for beside in dict.fromkeys([peer, None]):
            how = "compiled" if compiled else None
            subject = ", ".join(filter(None, ["training", preset, precision, how, beside and f"beside {beside}"]))
            measure = partial(training_speed, data, preset, precision, beside, compiled=compiled)
            if found := steps.do(subject, _SHARE_OF_TRAINING, measure, list[TrainingSpeed]()):
                speeds += found
                break
    return speeds


def _translating(
    data: Path,
    scratch: Path,
    hardware: Hardware,
    products: Sequence[ProductRate],
    peers: Sequence[str],
    steps: Steps,
) -> list[TranslatingSpeed]:
    """With other toolkits if there are any; alone if that fails."""
    for beside in dict.fromkeys([tuple(peers), ()]):
        subject = ", ".join(["translating", "base", *([f"beside {' and '.join(beside)}"] if beside else [])])
        measure = partial(translating_speeds, data, scratch, hardware, products, lambda message: None, beside or None)
        if found := steps.do(subject, _SHARE_OF_TRANSLATING, measure, list[TranslatingSpeed]()):
            return found
    return []
