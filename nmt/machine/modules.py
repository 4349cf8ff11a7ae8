"""Modules of this program, run in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def start_module(
    module: str, arguments: Sequence[object] = (), *, environment: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[bytes]:
    """Start ``python -m module``.

    The process imports from where this one imports, and not from its working directory. It is in a session of its own,
    so the signals of a terminal reach it only through this process. multiprocessing would run the caller's main module
    again.

    Args:
        environment: its environment variables; default: those of this process.
        options: further arguments of :class:`subprocess.Popen`.
    """
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *map(str, arguments)],
        env={**(os.environ if environment is None else environment), "PYTHONPATH": path},
        start_new_session=True,
        **options,
    )
