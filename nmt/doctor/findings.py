"""What an examination found, as tables of text."""

from __future__ import annotations

from collections.abc import Sequence

from nmt.doctor.examination import Examination
from nmt.doctor.machine import Machine
from nmt.doctor.rates import BEAM, ProductRate
from nmt.doctor.speeds import Choice
from nmt.table import Table

_ABSENT = "–"
# From this share of a core on, other processes make figures meaningless.
_BUSY = 0.2
_PASSED = {True: "right", False: "WRONG", None: "not possible here"}
_FASTEST = {True: "yes", False: "NO", None: "not compared"}


def tables(found: Examination) -> list[Table]:
    """All that was found; a table without rows is left out."""
    every = [
        Table("Machine", [], [list(row) for row in _machine(found)], numbers=()),
        Table(
            "Checks",
            ["check", "result", "found"],
            [[c.name, _PASSED[c.passed], c.detail] for c in found.checks],
            numbers=(),
        ),
        Table(
            "Choices",
            ["choice", "taken", "why", "measured", "fastest"],
            [[c.subject, c.taken, c.reason, _measured(c), _FASTEST[c.is_right]] for c in found.choices],
            numbers=(),
        ),
        _rates(found.products),
        Table(
            "Training",
            ["preset", "precision", "target tokens/s"],
            [[s.preset, s.precision, f"{s.tokens_per_second:,.0f}"] for s in found.training],
            numbers=range(2, 3),
        ),
        Table(
            "Translating, with the sizes of base",
            ["", f"beam {BEAM}, tokens/s", "greedy, tokens/s", "one sentence", "peak memory"],
            [
                [
                    s.engine,
                    f"{s.beam_tokens_per_second:,.0f}",
                    f"{s.greedy_tokens_per_second:,.0f}",
                    f"{s.latency_milliseconds:,.0f} ms",
                    _bytes(s.peak_memory_bytes),
                ]
                for s in found.translating
            ],
        ),
    ]
    return [each for each in every if each.rows]


def warnings(found: Examination) -> list[str]:
    """What makes the figures doubtful, and what is wrong."""
    machine = found.machine
    lines = [f"the check of {check.name} failed: {check.detail}" for check in found.checks if check.passed is False]
    lines += [
        f"{choice.subject}: {choice.taken} was taken, but is not the fastest here ({_measured(choice)})"
        for choice in found.choices
        if choice.is_right is False
    ]
    # On a larger machine of which only some cores may be used, others may be busy.
    if machine.busy_cores is not None and machine.busy_cores + machine.usable_cores > machine.cores + _BUSY:
        lines.append(
            f"other processes keep {machine.busy_cores:.1f} cores busy: every speed is lower than on a quiet machine"
        )
    return lines + [f"left out: {line}" for line in found.left_out]


def _machine(found: Examination) -> list[tuple[str, str]]:
    machine, rate = found.machine, found.memory_bytes_per_second
    busy = _ABSENT if machine.busy_cores is None else f"{machine.busy_cores:.1f} cores busy"
    limit = "" if machine.memory_limit is None else f", limit of the control group {_bytes(machine.memory_limit)}"
    return [
        ("processor", machine.processor),
        ("instructions", ", ".join(machine.instructions) or _ABSENT),
        ("cores", _cores(machine)),
        ("other load", busy),
        ("memory", f"{_bytes(machine.memory_bytes)}, for use {_bytes(machine.memory_for_use)}{limit}"),
        ("memory bandwidth", _ABSENT if rate is None else f"{rate / 1e9:,.1f} GB/s read and written, on all threads"),
        ("GPUs", ", ".join(machine.gpus) or "none"),
        ("training computes on", found.hardware),
        ("compiler", machine.compiler or "none"),
        ("system", machine.system),
        ("versions", ", ".join(f"{name} {version}" for name, version in machine.versions.items())),
        ("variables", ", ".join(f"{name}={value}" for name, value in machine.environment.items()) or "none set"),
    ]


def _rates(products: Sequence[ProductRate]) -> Table:
    """A row per precision and number of threads, a column per number of rows."""
    rows = sorted({rate.rows for rate in products})
    by_kind: dict[tuple[int, str], dict[int, str]] = {}
    for rate in products:
        by_kind.setdefault((rate.threads, rate.precision), {})[rate.rows] = _operations(rate.operations_per_second)
    return Table(
        "Matrix products",
        ["", "threads", *(f"{count:,} rows" for count in rows)],
        [
            [precision, str(threads), *(rates.get(count, _ABSENT) for count in rows)]
            for (threads, precision), rates in by_kind.items()
        ],
    )


def _measured(choice: Choice) -> str:
    figures = _series([(name, _figure(value)) for name, value in choice.measured.items()])
    return f"{figures} {choice.unit}" if figures else _ABSENT


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _series(pairs: Sequence[tuple[str, str]]) -> str:
    return " · ".join(f"{name} {value}" for name, value in pairs)


def _cores(machine: Machine) -> str:
    return f"{machine.usable_cores} of {machine.cores} cores"


def _bytes(count: int | None) -> str:
    return _ABSENT if count is None else f"{count / 1e9:,.1f} GB"


def _operations(rate: float) -> str:
    return f"{rate / 1e9:,.0f} GFLOP/s" if rate < 1e12 else f"{rate / 1e12:,.1f} TFLOP/s"
