"""How long a GPU works on an update, measured without making the host wait for it."""

from __future__ import annotations

from collections.abc import Callable

import torch


def start_clock(device: torch.device) -> Callable[[], Callable[[], float | None]]:
    """Measure the work that is queued from now on.

    Returns:
        A function that stops the clock. It returns a function that reads the seconds once the device has done the work;
        these are None on other devices than CUDA GPUs, where the host's clock measures.
    """
    if device.type != "cuda":
        return lambda: lambda: None
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    begin.record()

    def stop() -> Callable[[], float]:
        end.record()
        return lambda: float(begin.elapsed_time(end)) / 1_000

    return stop
