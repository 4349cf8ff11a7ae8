"""What is read of the machine."""

import json
import subprocess
import sys
from dataclasses import asdict

import pytest
import torch

from nmt.doctor import machine
from nmt.doctor.machine import examine_machine
from nmt.machine import processor


def test_this_machine_is_described():
    found = examine_machine()
    assert 1 <= found.usable_cores <= found.cores
    assert found.versions["torch"] == torch.__version__
    assert found.memory_bytes is None or found.memory_bytes > 1 << 28
    assert json.loads(json.dumps(asdict(found)))["processor"] == found.processor


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("flags\t\t: fpu avx2 avx512f avx512_bf16 amx_bf16 amx_tile", ["AVX2", "AVX-512", "AVX-512 bf16", "AMX bf16"]),
        ("Features\t: fp asimd bf16", ["NEON", "bf16"]),
        ("flags\t\t: fpu xavx2x", []),
    ],
)
def test_instructions_are_named_as_their_makers_do(monkeypatch, tmp_path, line, names):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(
        f"processor\t: 0\nmodel name\t: A processor\n{line}\n\nprocessor\t: 1\n{line.split(':')[0]}: sve\n"
    )
    monkeypatch.setattr(processor, "_CPUINFO", cpuinfo)
    assert machine._instructions() == names
    assert processor.processor_name() == "A processor"
    monkeypatch.setattr(processor, "_CPUINFO", tmp_path / "missing")
    assert machine._instructions() == []
    assert processor.processor_name()


def test_a_busy_process_is_seen(monkeypatch):
    if machine._seconds_of_cores() is None:
        pytest.skip("this system does not tell how busy its cores are")
    worker = subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE)
    try:
        worker.stdout.readline()
        monkeypatch.setattr(machine, "_WATCHED", 1.0)
        assert machine._busy_cores() > 0.3
    finally:
        worker.kill()
        worker.communicate()


@pytest.mark.parametrize(("limit", "shown"), [(None, None), (400, 400), (999, 999), (1_000, None), (2_000, None)])
def test_the_limit_of_the_control_groups_counts_if_it_is_below_the_memory(monkeypatch, limit, shown):
    monkeypatch.setattr(machine, "_total_memory", lambda: 1_000)
    monkeypatch.setattr(machine, "memory_limit", lambda: limit)
    assert machine._memory_limit() == shown


def test_a_compiler_is_named_without_its_folder(monkeypatch, tmp_path):
    compiler = tmp_path / "home" / "g++"
    compiler.parent.mkdir()
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(compiler.parent))
    assert examine_machine().compiler == "g++"
    compiler.unlink()
    assert examine_machine().compiler is None
