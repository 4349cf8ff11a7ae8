"""Which device, which precision, how many threads, and why."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from typing import Literal

import torch

from nmt.errors import ConfigError

DeviceChoice = Literal["auto", "cpu", "cuda", "mps"]
PrecisionChoice = Literal["auto", "fp32", "bf16"]


@dataclass(frozen=True)
class Hardware:
    """What a command computes on."""

    device: torch.device
    precision: Literal["fp32", "bf16"]
    threads: int
    reason: str
    """Why this precision, for people."""

    def __str__(self) -> str:
        threads = f", {self.threads} threads" if self.device.type == "cpu" else ""
        return f"{self.device}{threads}, {self.precision} ({self.reason})"


def choose_hardware(
    device: DeviceChoice = "auto", precision: PrecisionChoice = "auto", threads: int | None = None
) -> Hardware:
    """Settle device, precision and threads, and set the process up for them.

    Raises:
        ConfigError: the device that was asked for is not there.
    """
    found = _choose_device(device)
    chosen, reason = _choose_precision(found, precision)
    if threads is not None:
        torch.set_num_threads(threads)
    if found.type == "cpu":
        _keep_freed_memory()
    return Hardware(found, chosen, torch.get_num_threads(), reason)


def _choose_device(device: DeviceChoice) -> torch.device:
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        return torch.device(next(name for name in ("cuda", "mps", "cpu") if available[name]))
    if not available[device]:
        there = ", ".join(name for name, is_there in available.items() if is_there)
        raise ConfigError(f"device {device!r} is not available here; available: {there}. Use --device auto to choose.")
    return torch.device(device)


def _choose_precision(device: torch.device, precision: PrecisionChoice) -> tuple[Literal["fp32", "bf16"], str]:
    if precision != "auto":
        return precision, "as asked"
    if device.type == "cuda":
        if torch.cuda.get_device_capability(device)[0] >= 8:
            return "bf16", "this GPU has it in hardware"
        return "fp32", "this GPU has no bf16 in hardware"
    if device.type == "cpu":
        if _cpu_has_fast_bf16():
            return "bf16", "this processor has AMX"
        return "fp32", "this processor has no AMX: bf16 would be slower"
    return "fp32", "the safe choice on this device"


def _cpu_has_fast_bf16() -> bool:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as cpuinfo:  # noqa: PTH123
            return any(line.startswith("flags") and " amx_bf16" in line for line in cpuinfo)
    except OSError:
        return False


def _keep_freed_memory() -> None:
    """Tell glibc to keep freed memory instead of handing it back to the system.

    Every update frees and takes the same large tensors. By default glibc maps and unmaps them each time, and the
    kernel zeroes their pages anew, which costs up to a quarter of the training time.
    """
    if not sys.platform.startswith("linux") or "MALLOC_TRIM_THRESHOLD_" in os.environ:
        return
    m_trim_threshold, m_mmap_threshold = -1, -3  # from malloc.h
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(m_mmap_threshold, 1 << 30)
        libc.mallopt(m_trim_threshold, (1 << 31) - 1)
    except (OSError, AttributeError):
        return  # another C library, without these settings
