"""How long a GPU works on an update, measured without making the host wait for it."""

from __future__ import annotations

from collections.abc import Callable

import torch


def start_clock(device: torch.device) -> Callable[[], Callable[[], float | None]]:
    """Begin with the work that is queued from now on. The result ends with the work that was queued until it is called.

    Its own result is the seconds between both, to be asked for when the device has done the work; None if the device is
    no CUDA GPU: the work of a CPU is measured by the host's clock.
    """
    if device.type != "cuda":
        return lambda: lambda: None
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    begin.record()

    def stop() -> Callable[[], float]:
        end.record()
        return lambda: float(begin.elapsed_time(end)) / 1_000

    return stop
