"""How many cores this process may use, and how OpenMP's threads wait."""

import os
import subprocess
import sys

import pytest

from nmt import processor
from nmt.processor import spin_briefly, usable_cores


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine of so many cores, with the given files of control groups; the process is in ``membership``."""

    def make(cores: int, membership: str, files: dict[str, str]) -> None:
        for name, content in files.items():
            path = tmp_path / "cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        (tmp_path / "self").write_text(membership)
        monkeypatch.setattr(processor, "_CGROUPS", tmp_path / "cgroup")
        monkeypatch.setattr(processor, "_OWN_CGROUP", tmp_path / "self")
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
    monkeypatch.setattr(processor, "_OWN_CGROUP", tmp_path / "not-there")
    assert usable_cores() == 3


@pytest.mark.parametrize("own", [{"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "ACTIVE"}])
def test_a_users_own_setting_of_openmp_wins(monkeypatch, own):
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    spin_briefly()
    assert dict(os.environ) == before


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="another OpenMP library")
@pytest.mark.parametrize(
    "program",
    [
        "import sys; from nmt.cli.app import main; sys.argv[1:] = ['--version']\ntry: main()\nexcept SystemExit: pass",
        "import nmt; nmt.load",
    ],
)
def test_threads_spin_briefly_before_torch_is_there(program):
    """OpenMP's library says at its start what it was told."""
    script = f"{program}\nimport torch, os\nprint(os.environ['GOMP_SPINCOUNT'])"
    environment = {name: value for name, value in os.environ.items() if "OMP_" not in name}
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
        env=environment | {"OMP_DISPLAY_ENV": "VERBOSE"},
    )  # fmt: skip
    assert f"GOMP_SPINCOUNT = '{processor._SPIN_COUNT}'" in found.stderr
    assert found.stdout.endswith(f"{processor._SPIN_COUNT}\n")
