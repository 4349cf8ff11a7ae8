"""The processor of this machine."""

from __future__ import annotations

import platform
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


def processor_name() -> str:
    """The name that its maker gave it."""
    return _described("model name") or platform.processor() or platform.machine()


def processor_flags() -> list[str]:
    """The flags of what it can do, as the system names them; empty if the system does not tell."""
    return (_described("flags") or _described("Features")).split()


def _described(key: str) -> str:
    """What the system says of the first core; empty if nothing."""
    try:
        with _CPUINFO.open(encoding="ascii", errors="replace") as cpuinfo:
            lines = (line.partition(":") for line in cpuinfo)
            return next((value.strip() for name, _, value in lines if name.strip() == key), "")
    except OSError:
        return ""
