"""What ``nmt doctor`` does, in order: describe the machine, measure its rates, check its results, measure its speed."""

from __future__ import annotations

import datetime
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import nmt
from nmt.device import Hardware, Precision, bf16_speedup, choose_hardware
from nmt.doctor.checks import Check, all_checks
from nmt.doctor.choices import Choice, choices
from nmt.doctor.generated_text import generated_data_set
from nmt.doctor.gpu_checks import check_gpu
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
    MODES,
    PEER_OF_TRAINING,
    PRESETS,
    Report,
    TrainingSpeed,
    TranslatingSpeed,
    hardware_of_preset,
    training_speed,
    translating_speeds,
)
from nmt.errors import ConfigError, NmtError
from nmt.kernels.int8 import fastest_int8_product
from nmt.measured import forget_measurements
from nmt.training.ranks.exchange import is_launched
from nmt.writing import scratch_folder

Peers = TypeVar("Peers")
Speed = TypeVar("Speed")

MARK = "nmt doctor"
"""What the JSON of an examination is recognised by."""
_VOCAB_SIZE = 8_000
_PRESET_OF_MODES = "base"
"""The preset whose training is also measured compiled, and recorded as CUDA graphs, on a GPU."""
# Other toolkits are left out if the checks took longer: the speeds would then take more than five minutes.
_SECONDS_BEFORE_PEERS = 120.0


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
    memory_bytes_per_second: float
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
    """Examine this machine. A part that fails is a finding, and the others go on.

    Args:
        peers: other toolkits to measure beside ours.
        with_speeds: also measure training and translating, which takes most of the time.
        report: called with a line before each part.

    Raises:
        ConfigError: a launcher started this process as one of several.
        WriteError: the system refused to write temporary files.
    """
    if is_launched():
        raise ConfigError(
            "nmt doctor examines a whole machine, and starts processes on all of its GPUs itself. Run it once, without "
            "torchrun."
        )
    begin = time.perf_counter()
    report("the machine")
    machine = examine_machine()
    forget_measurements()
    bf16_speedup.cache_clear()
    fastest_int8_product.cache_clear()
    hardware = choose_hardware()
    report("the rate of matrix products")
    products = product_rates(hardware)
    bandwidth = memory_bandwidth(hardware)
    training_attention, search_attention = training_attention_seconds(hardware), search_attention_seconds(hardware)
    attention_library = fused_attention_library(hardware)
    with scratch_folder() as scratch:
        data = generated_data_set(scratch / "text", _VOCAB_SIZE)
        checks = _checks(hardware, data, scratch, report)
        training: list[TrainingSpeed] = []
        translating: list[TranslatingSpeed] = []
        left_out: list[str] = []
        exchange = _exchange(hardware, report, left_out)
        scaling: list[ScalingSpeed] = []
        if with_speeds:
            # Before training on several GPUs, which takes minutes on a fast machine too.
            if peers and time.perf_counter() - begin > _SECONDS_BEFORE_PEERS:
                left_out.append(f"{', '.join(peers)}: this machine is too slow to measure them within five minutes")
                peers = ()
            scaling = _scaling(data, hardware, report, left_out)
            training = _training(data, products, peers, report, left_out)
            translating = _translating(data, scratch, hardware, products, peers, report, left_out)
    return Examination(
        nmt_version=nmt.__version__,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        seconds=time.perf_counter() - begin,
        machine=machine,
        hardware=str(hardware),
        products=products,
        memory_bytes_per_second=bandwidth,
        training_attention_seconds=training_attention,
        search_attention_seconds=search_attention,
        fused_attention_library=attention_library,
        exchange=exchange,
        checks=checks,
        choices=choices(
            hardware_of_preset(COMPARED), hardware, training_attention, search_attention, training, translating
        ),
        training=training,
        translating=translating,
        scaling=scaling,
        left_out=left_out,
    )


def _checks(hardware: Hardware, data: Path, scratch: Path, report: Report) -> list[Check]:
    done: list[Check] = []
    ranks = "ranks", partial(check_ranks, hardware, data, scratch)
    subjects: list[tuple[str, Callable[[], list[Check]]]] = [*all_checks(hardware, data, scratch), ranks]
    if hardware.device.type == "cuda":
        subjects.append(("the GPU", partial(check_gpu, hardware, data, scratch)))
    for subject, check in subjects:
        report(f"check: {subject}")
        try:
            done += check()
        except Exception as error:
            done.append(Check(subject, False, f"{type(error).__name__}: {error}"))
    return done


def _exchange(hardware: Hardware, report: Report, left_out: list[str]) -> list[ExchangeRate]:
    report("the exchange between ranks")
    try:
        return exchange_rates(hardware)
    except (NmtError, OSError, ValueError, subprocess.TimeoutExpired) as error:
        left_out.append(f"the exchange between ranks: {error}")
        return []


def _scaling(data: Path, hardware: Hardware, report: Report, left_out: list[str]) -> list[ScalingSpeed]:
    numbers = numbers_of_gpus(hardware)
    if not numbers:
        return []
    report(f"training on {', '.join(map(str, numbers))} GPUs")
    return scaling_speeds(data, numbers, left_out)


def _training(
    data: Path, products: Sequence[ProductRate], peers: Sequence[str], report: Report, left_out: list[str]
) -> list[TrainingSpeed]:
    multiplied = {rate.precision for rate in products}
    speeds: list[TrainingSpeed] = []
    for preset in PRESETS:
        chosen = hardware_of_preset(preset).precision
        others: list[Precision] = ["fp32", "bf16"] if preset == COMPARED else []
        for precision in dict.fromkeys([chosen, *(other for other in others if other in multiplied)]):
            against = PEER_OF_TRAINING if preset == "base" and PEER_OF_TRAINING in peers else None
            report(f"training, {preset}, {precision}")
            measure = partial(training_speed, data, preset, precision)
            speeds += _with_or_without(measure, against, f"training, {preset}, {precision}", left_out)
            if preset == _PRESET_OF_MODES and hardware_of_preset(preset).device.type == "cuda":
                for mode in MODES:
                    report(f"training, {preset}, {precision}, {mode}")
                    measure = partial(training_speed, data, preset, precision, mode=mode)
                    speeds += _with_or_without(measure, None, f"training, {preset}, {precision}, {mode}", left_out)
    return speeds


def _translating(
    data: Path,
    scratch: Path,
    hardware: Hardware,
    products: Sequence[ProductRate],
    peers: Sequence[str],
    report: Report,
    left_out: list[str],
) -> list[TranslatingSpeed]:
    report("translating, base")
    measure = partial(translating_speeds, data, scratch, hardware, products, report)
    return _with_or_without(measure, tuple(peers) or None, "translating, base", left_out)


def _with_or_without(
    measure: Callable[[Peers | None], list[Speed]], peers: Peers | None, what: str, left_out: list[str]
) -> list[Speed]:
    """Measure beside other toolkits; alone if that fails. What fails is noted."""
    for beside in dict.fromkeys([peers, None]):
        try:
            return measure(beside)
        except (NmtError, RuntimeError) as error:
            left_out.append(f"{what}{'' if beside is None else ' beside other toolkits'}: {error}")
    return []
