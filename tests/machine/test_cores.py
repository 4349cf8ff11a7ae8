"""The cores and the memory that this process may use."""

import os
from math import inf

import pytest
import torch

from nmt.machine.cores import grantable_memory, usable_cores
from nmt.machine.device import memory_for_use, memory_in_use


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine of so many cores, with the given files of control groups; the process is in ``membership``."""

    def make(cores: int, membership: str, files: dict[str, str]) -> None:
        for name, content in files.items():
            path = tmp_path / "cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        (tmp_path / "self").write_text(membership)
        monkeypatch.setattr("nmt.machine.cores._CGROUPS", tmp_path / "cgroup")
        monkeypatch.setattr("nmt.machine.cores._OWN_CGROUP", tmp_path / "self")
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)), raising=False)

    return make


def version_1(folder: str, quota: str) -> dict[str, str]:
    return {f"{folder}/cpu.cfs_quota_us": quota, f"{folder}/cpu.cfs_period_us": "100000\n"}


@pytest.mark.parametrize(
    ("membership", "files", "cores"),
    [
        ("0::/\n", {}, 8),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 8),
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 1),
        # A limit above the own group holds too; a larger one than the affinity changes nothing.
        ("0::/a/b\n", {"a/cpu.max": "300000 100000\n", "a/b/cpu.max": "max 100000\n"}, 3),
        ("0::/a\n", {"a/cpu.max": "6400000 100000\n"}, 8),
        # Version 1, as an older container sees it: its path is the host's, its limit lies at the root.
        ("2:memory:/x\n1:cpu,cpuacct:/docker/1\n", version_1("cpu,cpuacct", "400000\n"), 4),
        ("1:cpu:/\n", version_1("cpu", "-1\n"), 8),
        ("1:cpu:/\n", version_1("cpu", "damaged"), 8),
    ],
)  # fmt: skip
def test_affinity_and_control_groups_limit_the_cores(machine, membership, files, cores):
    machine(8, membership, files)
    assert usable_cores() == cores


def test_without_control_groups_the_affinity_counts(machine, monkeypatch, tmp_path):
    machine(3, "", {})
    monkeypatch.setattr("nmt.machine.cores._OWN_CGROUP", tmp_path / "not-there")
    assert usable_cores() == 3


def memory_2(
    folder: str, limit: str, used: int, *, active: int = 0, inactive: int = 0, anon: int = 0
) -> dict[str, str]:
    stat = f"anon {anon}\nactive_anon 5000\ninactive_file {inactive}\nactive_file {active}\n"
    names = {"memory.max": f"{limit}\n", "memory.current": f"{used}\n", "memory.stat": stat}
    return {f"{folder}/{name}".lstrip("/"): content for name, content in names.items()}


def memory_1(folder: str, limit: int, used: int, *, cached: int = 0, below: int = 0) -> dict[str, str]:
    stat = (
        f"cache 9\ninactive_file {cached}\nactive_file 0\ntotal_inactive_file {cached + below}\ntotal_active_file 0\n"
    )
    names = {"limit_in_bytes": f"{limit}\n", "usage_in_bytes": f"{used}\n", "stat": stat}
    return {f"memory/{folder}/memory.{name}": content for name, content in names.items()}


UNLIMITED_1 = 9223372036854771712


@pytest.mark.parametrize(
    ("membership", "files", "left"),
    [
        ("0::/\n", {}, inf),
        ("0::/\n", memory_2("", "max", 700), inf),
        ("0::/\n", memory_2("", "1000", 700), 300),
        # Cached files can be reclaimed; anonymous memory cannot.
        ("0::/\n", memory_2("", "1000", 700, active=100, inactive=250, anon=350), 650),
        ("0::/\n", memory_2("", "1000", 1200), 0),
        # Nested: the smallest limit is not always where least is left.
        ("0::/a/b\n", memory_2("a", "1000", 990) | memory_2("a/b", "500", 100), 10),
        ("0::/a/b\n", memory_2("a", "2000", 300) | memory_2("a/b", "max", 100), 1700),
        ("0::/a\n", memory_2("a", "1000", 100) | memory_2("b", "10", 10), 900),
        # Without a figure of what is used, the limit itself is left.
        ("0::/\n", {"memory.max": "1000\n"}, 1000),
        # Version 1: the total of the groups below counts; an older container sees the host's path.
        ("4:memory:/x\n0::/\n", memory_1("x", 1000, 800, cached=100, below=200), 500),
        ("4:memory:/docker/1\n", memory_1("", 1000, 800), 200),
        ("4:memory:/x/y\n", memory_1("", UNLIMITED_1, 9) | memory_1("x", 600, 50) | memory_1("x/y", 800, 9), 550),
        ("2:cpu:/\n", memory_1("", 1000, 800), inf),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": "damaged"}, inf),
    ],
)  # fmt: skip
def test_control_groups_limit_the_memory(machine, monkeypatch, membership, files, left):
    machine(8, membership, files)
    assert grantable_memory() == left


def test_memory_for_use_is_what_control_groups_grant_beside_the_memory_in_use(machine):
    cpu = torch.device("cpu")
    machine(8, "0::/\n", memory_2("", str(1 << 60), 0))
    free = memory_for_use(cpu)
    machine(8, "0::/\n", memory_2("", "500000000", 200000000))
    assert free > memory_for_use(cpu)
    assert memory_for_use(cpu) - memory_in_use(cpu) == pytest.approx(300_000_000, abs=1 << 24)
