"""What ``nmt doctor`` does, in order: describe the machine, measure its rates, check its results, measure its speed."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import nmt
from nmt.doctor.checks import Check, all_checks
from nmt.doctor.gpu_checks import gpu_checks
from nmt.doctor.machine import Machine, examine_machine
from nmt.doctor.rank_checks import check_ranks
from nmt.doctor.rates import ProductRate, memory_bandwidth, product_rates
from nmt.doctor.speeds import (
    COMPARED,
    PRESETS,
    Choice,
    TrainingSpeed,
    TranslatingSpeed,
    choices,
    hardware_of_preset,
    text_to_train_on,
    training_speed,
    translating_speeds,
)
from nmt.doctor.steps import Report, Steps
from nmt.errors import ConfigError
from nmt.io.writing import scratch_folder
from nmt.kernels.int8 import fastest_int8_product
from nmt.machine.device import bf16_speedup, choose_hardware
from nmt.machine.measured import forget_measurements
from nmt.option_fields import Precision
from nmt.training.ranks.exchange import is_launched

_PRESET_COMPILED = "base"
"""The preset whose training is also measured compiled, on a GPU."""
_SECONDS = 165.0


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
    checks: list[Check]
    choices: list[Choice]
    training: list[TrainingSpeed]
    translating: list[TranslatingSpeed]
    left_out: list[str]
    """What was not measured, and why."""

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(check.passed is not False for check in self.checks)

    def values(self) -> dict[str, Any]:
        """Everything as JSON values."""
        judged = [{**asdict(choice), "is_right": choice.is_right} for choice in self.choices]
        return {**asdict(self), "choices": judged}


def examine(*, with_speeds: bool = True, report: Report = lambda message: None) -> Examination:
    """Examine this machine. No step begins after three minutes.

    A step that fails is a finding, and the others go on.

    Args:
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
    products = steps.do("the rate of matrix products", partial(product_rates, hardware), list[ProductRate]())
    bandwidth = steps.do("the bandwidth of memory", partial(memory_bandwidth, hardware), None)
    checks: list[Check] = []
    for subject, check in (*all_checks(hardware), *gpu_checks(hardware)):
        checks += _checked(steps, subject, check)
    training, translating = list[TrainingSpeed](), list[TranslatingSpeed]()
    with scratch_folder() as scratch:
        data = steps.do("text to train on", partial(text_to_train_on, scratch / "text"), None)
        if data is not None:
            checks += _checked(steps, "ranks", partial(check_ranks, hardware, data, scratch))
        if with_speeds and data is not None:
            first, *others = _training_tasks(products)
            training = _training(data, [first], steps)
            measure = partial(translating_speeds, data, scratch, hardware, products)
            translating = steps.do("translating, base", measure, translating)
            training += _training(data, others, steps)
    made = choices(hardware_of_preset(COMPARED), hardware, training, translating)
    return Examination(
        nmt_version=nmt.__version__,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        seconds=steps.seconds,
        machine=machine,
        hardware=str(hardware),
        products=products,
        memory_bytes_per_second=bandwidth,
        checks=checks,
        choices=made,
        training=training,
        translating=translating,
        left_out=steps.left_out,
    )


def _checked(steps: Steps, subject: str, check: Callable[[], list[Check]]) -> list[Check]:
    return steps.do(f"check: {subject}", check, [], lambda reason: [Check(subject, False, reason)])


def _training_tasks(products: Sequence[ProductRate]) -> list[tuple[str, Precision, bool]]:
    """What is trained, the most telling first: preset, precision, whether compiled.

    Each preset as it would be trained; then one in the other precisions, and on a GPU compiled.
    """
    chosen = {preset: hardware_of_preset(preset) for preset in reversed(PRESETS)}
    tasks = [(preset, hardware.precision, False) for preset, hardware in chosen.items()]
    others: list[Precision] = ["fp32", "bf16"]
    multiplied = {rate.precision for rate in products} - {chosen[COMPARED].precision}
    tasks += [(COMPARED, precision, False) for precision in others if precision in multiplied]
    if chosen[_PRESET_COMPILED].device.type == "cuda":
        tasks.append((_PRESET_COMPILED, chosen[_PRESET_COMPILED].precision, True))
    return tasks


def _training(data: Path, tasks: Sequence[tuple[str, Precision, bool]], steps: Steps) -> list[TrainingSpeed]:
    speeds: list[TrainingSpeed] = []
    for preset, precision, compiled in tasks:
        subject = ", ".join(["training", preset, precision, *(["compiled"] if compiled else [])])
        measure = partial(training_speed, data, preset, precision, compiled=compiled)
        if found := steps.do(subject, measure, None):
            speeds.append(found)
    return speeds
