"""What ``nmt doctor`` does, in order: describe the machine, measure its rates, check its results."""

from __future__ import annotations

import datetime
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import nmt
from nmt.doctor.checks import Check, check_attention, check_gradients, check_steps
from nmt.doctor.gpu_checks import check_recorded_search, check_search_kernels, check_sentence_attention
from nmt.doctor.machine import examine_machine
from nmt.doctor.rank_checks import check_ranks
from nmt.doctor.rates import ROWS, ProductRate, memory_bandwidth, product_rates
from nmt.errors import ConfigError, NmtError
from nmt.kernels.int8 import fastest_int8_product
from nmt.machine.device import Hardware, bf16_speedup, choose_hardware
from nmt.machine.measured import forget_measurements
from nmt.table import Table
from nmt.training.ranks.exchange import is_launched

_CHECKS: dict[str, Callable[[Hardware], list[Check]]] = {
    "gradients": check_gradients,
    "attention": check_attention,
    "cached steps": check_steps,
    "ranks": check_ranks,
}
_GPU_CHECKS = {
    "attention over sentences": check_sentence_attention,
    "kernels of searches": check_search_kernels,
    "recorded searches": check_recorded_search,
}
_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Examination:
    """All that was found."""

    nmt_version: str
    date: str
    seconds: float
    machine: dict[str, str]
    """What the machine is, by subject."""
    hardware: str
    """The device, threads and precision that training would use, and why."""
    products: list[ProductRate]
    memory_bytes_per_second: float | None
    """None if it could not be measured."""
    checks: list[Check]

    @property
    def failed(self) -> list[Check]:
        """The checks that found something wrong."""
        return [check for check in self.checks if not check.passed]

    def tables(self) -> list[Table]:
        """All that was found, as text; a table without rows is left out."""
        machine, rate = self.machine | {"training computes on": self.hardware}, self.memory_bytes_per_second
        if rate is not None:
            machine["memory bandwidth"] = f"{rate / 1e9:,.1f} GB/s read and written, on all threads"
        checks = [[check.name, "right" if check.passed else "WRONG", check.detail] for check in self.checks]
        tables = [
            Table("Machine", [], [list(row) for row in machine.items()], numbers=()),
            Table("Checks", ["check", "result", "found"], checks, numbers=()),
            _table_of_rates(self.products),
        ]
        return [table for table in tables if table.rows]


def examine(*, report: Callable[[str], None] = lambda message: None) -> Examination:
    """Examine this machine, in about half a minute. A step that fails is a failed check, and the others go on.

    Args:
        report: called with a line before each step.

    Raises:
        ConfigError: a launcher started this process as one of several.
    """
    if is_launched():
        raise ConfigError(
            "nmt doctor examines a whole machine, and starts processes on all of its GPUs itself. Run it once, without "
            "torchrun."
        )
    begin, checks = time.monotonic(), list[Check]()

    def found_by(subject: str, step: Callable[[Hardware], _Found], otherwise: _Found) -> _Found:
        report(subject)
        try:
            return step(hardware)
        except Exception as error:
            reason = str(error) if isinstance(error, NmtError) else f"{type(error).__name__}: {error}"
            checks.append(Check(subject, False, reason))
        return otherwise

    report("the machine")
    machine = examine_machine()
    forget_measurements()
    bf16_speedup.cache_clear()
    fastest_int8_product.cache_clear()
    hardware = choose_hardware()
    products = found_by("the rate of matrix products", product_rates, list[ProductRate]())
    bandwidth = found_by("the bandwidth of memory", memory_bandwidth, None)
    for subject, check in (_CHECKS | (_GPU_CHECKS if hardware.device.type == "cuda" else {})).items():
        checks += found_by(subject, check, [])
    return Examination(
        nmt_version=nmt.__version__,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        seconds=time.monotonic() - begin,
        machine=machine,
        hardware=str(hardware),
        products=products,
        memory_bytes_per_second=bandwidth,
        checks=[Check(check.name, check.passed, _impersonal(check.detail)) for check in checks],
    )


def _impersonal(text: str) -> str:
    """A message without the paths that hold the user's name: the doctor's output is for bug reports."""
    names = {sys.executable: "python", tempfile.gettempdir(): "TMPDIR", str(Path.home()): "~"}
    for path, name in names.items():
        if len(path) > 1:
            text = text.replace(path, name)
    return text


def _table_of_rates(products: Sequence[ProductRate]) -> Table:
    """A row per precision and number of threads, a column per number of rows."""
    rows: dict[tuple[str, int], list[str]] = {}
    for rate in products:
        rows.setdefault((rate.precision, rate.threads), []).append(f"{rate.operations_per_second / 1e9:,.0f}")
    header = ["", "threads", *(f"{count:,} rows" for count in ROWS)]
    return Table(
        "Matrix products, GFLOP/s", header, [[name, str(threads), *rates] for (name, threads), rates in rows.items()]
    )
