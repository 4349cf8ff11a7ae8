"""What is read of the machine."""

import pytest
import torch

from nmt.doctor import machine
from nmt.doctor.machine import examine_machine
from nmt.machine import processor


def test_this_machine_is_described(monkeypatch, tmp_path):
    """A compiler is named without its folder, which may be the user's."""
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = examine_machine()
    assert f"torch {torch.__version__}" in found["versions"]
    assert found["compiler"] == "g++"
    assert "OMP_NUM_THREADS=1" in found["variables"]
    compiler.unlink()
    assert examine_machine()["compiler"] == "none"


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
