"""Measurements of this machine, remembered from one command to the next.

Each kind of machine has a file of its own below the cache folder, so a home folder that machines share never passes on
the figures of one of them to another. The kind is the processor, its cores, the version of torch, and the variables
below.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch

from nmt.io.files import replacing
from nmt.io.writing import WriteError
from nmt.machine.cache_folder import default_cache
from nmt.machine.cores import usable_cores
from nmt.machine.processor import processor_flags, processor_name

VARIABLES = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
"""Environment variables that keep libraries from using some instructions."""
_LARGEST_FILE = 1 << 16
# So many trials at least, and so many seconds: short computations are disturbed more.
_TRIALS, _SECONDS = 5, 0.03
_DECIDED = 10
"""A factor between two computations that no other load explains: one trial of some length is enough."""


def remembered(name: str, measure: Callable[[], float]) -> float:
    """A positive figure of this machine, measured only if no earlier command has measured it.

    A file that cannot be read or written is no error: the figure is measured again.
    """
    values = _values()
    if name not in values:
        values[name] = measure()
        _write(values)
    return values[name]


def speedup(slower: Callable[[], object], faster: Callable[[], object]) -> float:
    """How many times as fast as one computation another one is, on one thread.

    The fastest of several alternating trials count, so that other load matters little. Far slower computations are
    tried once: a library without a kernel for this processor may take seconds.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        slower(), faster()  # Warm-up: the first product of each kind is compiled.
        seconds = [(_seconds(slower), _seconds(faster))]
        while len(seconds) < _TRIALS or sum(map(sum, seconds)) < _SECONDS:
            if sum(seconds[0]) > _SECONDS and max(seconds[0]) > _DECIDED * min(seconds[0]):
                break
            seconds.append((_seconds(slower), _seconds(faster)))
    finally:
        torch.set_num_threads(threads)
    return min(slow for slow, _ in seconds) / min(fast for _, fast in seconds)


def _seconds(compute: Callable[[], object]) -> float:
    begin = time.perf_counter()
    compute()
    return time.perf_counter() - begin


def forget_measurements() -> None:
    """Let everything be measured again."""
    with suppress(OSError, RuntimeError):
        _path().unlink()


def _machine() -> dict[str, str]:
    """What the figures depend on."""
    return {
        "processor": processor_name(),
        "flags": " ".join(processor_flags()),
        "cores": str(usable_cores()),
        "torch": torch.__version__,
        **{name: os.environ.get(name, "") for name in VARIABLES},
    }


def _path() -> Path:
    """The file of this machine's figures.

    Raises:
        RuntimeError: the user has no home folder.
    """
    digest = hashlib.sha256(json.dumps(_machine()).encode()).hexdigest()
    return default_cache() / "measured" / f"{digest[:16]}.json"


def _values() -> dict[str, float]:
    try:
        with _path().open("rb") as stream:
            values = json.loads(stream.read(_LARGEST_FILE))["values"]
        return {name: value for name, value in values.items() if _is_figure(value)}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RuntimeError):
        return {}


def _is_figure(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value) and value > 0


def _write(values: dict[str, float]) -> None:
    with suppress(OSError, WriteError, RuntimeError):
        path = _path()
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as stream:
            stream.write(json.dumps({"machine": _machine(), "values": values}).encode())
