"""What this machine is: processor, cores, memory, other load, and the versions of what computes."""

from __future__ import annotations

import os
import platform
import shutil
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import torch

from nmt.machine.cores import memory_limit, usable_cores
from nmt.machine.device import memory_for_use
from nmt.machine.measured import VARIABLES
from nmt.machine.processor import processor_flags, processor_name

_PACKAGES = ("torch", "numpy", "sentencepiece", "sacrebleu", "safetensors", "ctranslate2", "transformers", "triton")
_COMPILERS = ("c++", "g++", "clang++")
# How long other processes are watched, in seconds.
_WATCHED = 0.5
# Flags that decide how fast products are, and their usual names.
_INSTRUCTIONS = {
    "avx2": "AVX2",
    "avx512f": "AVX-512",
    "avx512_bf16": "AVX-512 bf16",
    "avx512_vnni": "AVX-512 VNNI",
    "avx_vnni": "AVX VNNI",
    "amx_bf16": "AMX bf16",
    "amx_int8": "AMX int8",
    "asimd": "NEON",
    "bf16": "bf16",
    "i8mm": "int8 products",
    "sve": "SVE",
}
_VARIABLES = (
    *VARIABLES,
    "OMP_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "GOMP_SPINCOUNT",
    "MKL_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
)


@dataclass(frozen=True)
class Machine:
    """A machine, and what is installed on it."""

    system: str
    processor: str
    instructions: list[str]
    """The sets of instructions that matter for matrix products; empty if the system does not name them."""
    cores: int
    usable_cores: int
    """The cores that this process may use: its affinity and its control group limit them."""
    busy_cores: float | None
    """The cores that other processes kept busy before the examination; None if unknown."""
    memory_bytes: int | None
    memory_for_use: int | None
    """Bytes that this process could still use."""
    memory_limit: int | None
    """The limit of the control group, in bytes; None if there is none."""
    gpus: list[str]
    compiler: str | None
    """A C++ compiler, which ``torch.compile`` needs; None if there is none."""
    versions: dict[str, str]
    environment: dict[str, str]
    """Variables that change what computes: threads and how they wait, instructions, GPUs."""


def examine_machine() -> Machine:
    """Describe this machine; takes half a second, in which other processes are watched."""
    return Machine(
        system=platform.platform(),
        processor=processor_name(),
        instructions=_instructions(),
        cores=os.cpu_count() or 1,
        usable_cores=usable_cores(),
        busy_cores=_busy_cores(),
        memory_bytes=_total_memory(),
        memory_for_use=memory_for_use(torch.device("cpu")),
        memory_limit=_memory_limit(),
        gpus=_gpus(),
        compiler=next(filter(shutil.which, _COMPILERS), None),
        versions={"python": platform.python_version()} | _versions(),
        environment={name: os.environ[name] for name in _VARIABLES if name in os.environ},
    )


def _gpus() -> list[str]:
    apple = ["Apple (mps)"] if torch.backends.mps.is_available() else []
    return apple + [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]


def _instructions() -> list[str]:
    flags = processor_flags()
    return [name for flag, name in _INSTRUCTIONS.items() if flag in flags]


def _busy_cores() -> float | None:
    """The cores that were busy while this process slept."""
    before = _seconds_of_cores()
    time.sleep(_WATCHED)
    after = _seconds_of_cores()
    if before is None or after is None:
        return None
    return max(0.0, after - before) / _WATCHED


def _seconds_of_cores() -> float | None:
    """The time that all cores have worked since the system started."""
    try:
        # user, nice, system, idle, iowait, irq, softirq, steal
        ticks = [int(word) for word in Path("/proc/stat").read_text("ascii").split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def _total_memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def _memory_limit() -> int | None:
    """The least limit of this process's control groups that is below the memory."""
    least, total = memory_limit(), _total_memory()
    return None if least is None or (total is not None and least >= total) else least


def _versions() -> dict[str, str]:
    found = {}
    for name in ("nmt-toolkit", *_PACKAGES):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
