"""The number of cores that this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")


def usable_cores() -> int:
    """The number of cores in this process's affinity, or its control group's quota (rounded up) if that is smaller."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, _cpu_quota())))


def _cpu_quota() -> float:
    """The CPU time that control groups grant this process, in cores; infinity without a limit."""
    return min((_quota_of(folder) for folder in control_groups("cpu")), default=math.inf)


def control_groups(controller: str) -> list[Path]:
    """The folders of this process's control groups that limit something, and of their parents, whose limits also apply.

    Args:
        controller: what they limit: ``cpu`` or ``memory``.
    """
    try:
        memberships = _OWN_CGROUP.read_text("utf-8").splitlines()
    except OSError:
        return []
    folders = []
    for membership in memberships:
        _, controllers, path = membership.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = _CGROUPS / controllers  # Version 2 has one tree and names no controllers.
        own = root / path.lstrip("/")
        folders += [folder for folder in (own, *own.parents) if folder.is_relative_to(root)]
    return folders


def _quota_of(folder: Path) -> float:
    """Quota over period: one file in version 2 of control groups, two files in version 1."""
    try:
        if (folder / "cpu.max").is_file():
            quota, period = (folder / "cpu.max").read_text("ascii").split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text("ascii") for name in ("quota", "period"))
        return int(quota) / int(period) if int(quota) > 0 else math.inf
    except (OSError, ValueError):  # "max" is not a number: there is no limit.
        return math.inf
