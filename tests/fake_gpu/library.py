"""The C++ side of the fake GPU, compiled and loaded before torch is imported."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("device.cpp")


def compiler() -> str | None:
    """The C++ compiler of this machine, if there is one."""
    return next((found for name in ("c++", "g++", "clang++") if (found := shutil.which(name))), None)


def compile_library(folder: Path) -> Path:
    """Compile the library for the installed torch."""
    torch, library = _torch_folder(), folder / "fake_gpu.so"
    found = compiler()
    assert found is not None
    command = [found, "-std=c++20", "-fPIC", "-shared", f"-I{torch / 'include'}", str(_SOURCE), "-o", str(library)]
    subprocess.run([*command, f"-L{torch / 'lib'}", "-lc10", "-ltorch_cpu"], check=True)
    return library


def load_library(library: Path) -> None:
    """Load the library into this process, which must not have imported torch."""
    ctypes.CDLL(str(_torch_folder() / "lib" / "libtorch_cpu.so"), ctypes.RTLD_GLOBAL)
    ctypes.CDLL(str(library))


def _torch_folder() -> Path:
    found = importlib.util.find_spec("torch")  # without importing it
    assert found is not None and found.origin is not None
    return Path(found.origin).parent
