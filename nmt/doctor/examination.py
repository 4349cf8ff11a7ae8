"""What ``nmt doctor`` does, in order: describe the machine, measure its rates, check its results, measure its speed."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import nmt
from nmt.device import Hardware, choose_hardware
from nmt.doctor.checks import Check, all_checks
from nmt.doctor.choices import Choice, choices
from nmt.doctor.generated_text import generated_data_set
from nmt.doctor.machine import Machine, examine_machine
from nmt.doctor.rates import ProductRate, attention_seconds, memory_bandwidth, product_rates
from nmt.doctor.speeds import TrainingSpeed, TranslatingSpeed, training_speeds, translating_speeds
from nmt.measured import forget_measurements
from nmt.writing import scratch_folder

_VOCAB_SIZE = 8_000
# Other toolkits are left out if the rest took longer, so that the whole examination takes five minutes at most.
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
    attention_seconds: dict[str, float]
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
        return {"examination": "nmt doctor", **asdict(self)}


def examine(
    *, peers: Sequence[str] = (), with_speeds: bool = True, report: Callable[[str], None] = lambda message: None
) -> Examination:
    """Examine this machine.

    Args:
        peers: other toolkits to measure beside ours.
        with_speeds: also measure training and translating, which takes most of the time.
        report: called with a line before and after each part.

    Raises:
        NmtError: another toolkit is not installed, or a process that measures failed.
        WriteError: the system refused to write temporary files.
    """
    begin = time.perf_counter()
    report("the machine")
    machine = examine_machine()
    forget_measurements()
    hardware = choose_hardware()
    report("the rate of matrix products")
    products = product_rates(hardware)
    bandwidth, attention = memory_bandwidth(hardware), attention_seconds(hardware)
    with scratch_folder() as scratch:
        data = generated_data_set(scratch / "text", _VOCAB_SIZE)
        checks = _checks(hardware, data, scratch, report)
        training: list[TrainingSpeed] = []
        translating: list[TranslatingSpeed] = []
        left_out = []
        if with_speeds and peers and time.perf_counter() - begin > _SECONDS_BEFORE_PEERS:
            left_out.append(f"{', '.join(peers)}: this machine is too slow to measure them within five minutes")
            peers = ()
        if with_speeds:
            training = training_speeds(data, hardware, peers, report)
            translating = translating_speeds(data, scratch, hardware, products, peers, report)
    return Examination(
        nmt_version=nmt.__version__,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        seconds=time.perf_counter() - begin,
        machine=machine,
        hardware=str(hardware),
        products=products,
        memory_bytes_per_second=bandwidth,
        attention_seconds=attention,
        checks=checks,
        choices=choices(hardware, attention, training, translating),
        training=training,
        translating=translating,
        left_out=left_out,
    )


def _checks(hardware: Hardware, data: Path, scratch: Path, report: Callable[[str], None]) -> list[Check]:
    done: list[Check] = []
    for subject, check in all_checks(hardware, data, scratch):
        report(f"check: {subject}")
        done += check()
    return done
