"""What this machine is: processor, cores, memory, load, and the versions of what computes."""

from __future__ import annotations

import os
import platform
import shutil
from importlib import metadata

import torch

from nmt.machine.cores import usable_cores
from nmt.machine.device import memory_for_use
from nmt.machine.measured import VARIABLES
from nmt.machine.processor import processor_flags, processor_name

_PACKAGES = ("torch", "numpy", "sentencepiece", "sacrebleu", "safetensors", "ctranslate2", "transformers", "triton")
_COMPILERS = ("c++", "g++", "clang++")
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
# They change what computes: threads and how they wait, instructions, GPUs.
_VARIABLES = (
    *VARIABLES, "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES",
)  # fmt: skip


def examine_machine() -> dict[str, str]:
    """Describe this machine: a text by the name of each subject."""
    memory = memory_for_use(torch.device("cpu"))
    return {
        "processor": processor_name(),
        "instructions": ", ".join(_instructions()) or "unknown",
        "cores": f"{usable_cores()} of {os.cpu_count()} for use, load {os.getloadavg()[0]:.1f}",
        "memory": "unknown" if memory is None else f"{memory / 1e9:,.1f} GB for use",
        "GPUs": ", ".join(_gpus()) or "none",
        "compiler": next(filter(shutil.which, _COMPILERS), "none"),  # torch.compile needs one
        "system": platform.platform(),
        "versions": ", ".join(f"{name} {version}" for name, version in _versions().items()),
        "variables": ", ".join(f"{name}={os.environ[name]}" for name in _VARIABLES if name in os.environ) or "none set",
    }


def _gpus() -> list[str]:
    apple = ["Apple (mps)"] if torch.backends.mps.is_available() else []
    return apple + [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]


def _instructions() -> list[str]:
    flags = processor_flags()
    return [name for flag, name in _INSTRUCTIONS.items() if flag in flags]


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("nmt-toolkit", *_PACKAGES):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
