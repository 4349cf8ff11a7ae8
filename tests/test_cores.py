"""How many cores this process may use."""

import os

import pytest

from nmt.cores import usable_cores


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine of so many cores, with the given files of control groups; the process is in ``membership``."""

    def make(cores: int, membership: str, files: dict[str, str]) -> None:
        for name, content in files.items():
            path = tmp_path / "cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        (tmp_path / "self").write_text(membership)
        monkeypatch.setattr("nmt.cores._CGROUPS", tmp_path / "cgroup")
        monkeypatch.setattr("nmt.cores._OWN_CGROUP", tmp_path / "self")
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
    monkeypatch.setattr("nmt.cores._OWN_CGROUP", tmp_path / "not-there")
    assert usable_cores() == 3
