"""The cores and the memory that control groups (containers, batch systems) let this process use."""

from __future__ import annotations

import math
import os
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")


def usable_cores() -> int:
    """The number of cores in this process's affinity, or its control group's quota (rounded up) if that is smaller."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min([cores, *map(_quota_of, control_groups("cpu"))])))


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
    """The CPU time that a control group grants, in cores; infinity without a limit.

    It is quota over period: one file in version 2 of control groups, two files in version 1.
    """
    try:
        if (folder / "cpu.max").is_file():
            quota, period = (folder / "cpu.max").read_text("ascii").split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text("ascii") for name in ("quota", "period"))
        return int(quota) / int(period) if int(quota) > 0 else math.inf
    except (OSError, ValueError):  # "max" is not a number: there is no limit.
        return math.inf


def bytes_in_proc(file: str, field: str) -> int | None:
    """The bytes that a field of a file below ``/proc`` states; None if the system has no such file or field."""
    try:
        lines = Path("/proc", file).read_text("ascii", "replace").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), None)


def grantable_memory() -> float:
    """The bytes that control groups still grant this process; infinity without a limit."""
    return min(map(_grantable_by, control_groups("memory")), default=math.inf)


def available_memory() -> int | None:
    """The bytes of main memory that this process can still take; None if unknown."""
    available = bytes_in_proc("meminfo", "MemAvailable")
    return None if available is None else int(min(available, grantable_memory()))


def _grantable_by(folder: Path) -> float:
    """What is left below the group's limit. The kernel frees cached files before it kills, so they count as free."""
    limit, used = _limit_of(folder), _number(folder, "memory.current", "memory.usage_in_bytes")
    if limit is None:
        return math.inf
    return max(0, limit - max(0, (used or 0) - _cached_files(folder)))


def _limit_of(folder: Path) -> int | None:
    return _number(folder, "memory.max", "memory.limit_in_bytes")


def _number(folder: Path, *names: str) -> int | None:
    """The number in the first of the files that exists: they are named by the versions of control groups."""
    for name in names:
        try:
            return int((folder / name).read_text("ascii"))
        except ValueError:  # "max" is not a number: there is no limit.
            return None
        except OSError:
            continue
    return None


def _cached_files(folder: Path) -> int:
    """The bytes of cached files, those of groups below included: only version 1 names these totals apart."""
    try:
        words = (line.split() for line in (folder / "memory.stat").read_text("ascii").splitlines())
        figures = {name: int(value) for name, value in words}
    except (OSError, ValueError):
        return 0
    return sum(figures.get(f"total_{name}", figures.get(name, 0)) for name in ("active_file", "inactive_file"))
