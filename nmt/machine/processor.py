"""The processor of this machine."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


def processor_name() -> str:
    """The name that its maker gave it."""
    return _described("model name") or _name_on_macos() or platform.processor() or platform.machine()


def processor_flags() -> list[str]:
    """The instruction-set flags; empty if the system does not list them."""
    return (_described("flags") or _described("Features")).split()


def _name_on_macos() -> str:
    if sys.platform != "darwin":
        return ""
    command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def _described(key: str) -> str:
    """What the system says of the first core; empty if nothing."""
    try:
        with _CPUINFO.open(encoding="ascii", errors="replace") as cpuinfo:
            lines = (line.partition(":") for line in cpuinfo)
            return next((value.strip() for name, _, value in lines if name.strip() == key), "")
    except OSError:
        return ""
