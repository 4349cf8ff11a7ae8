"""How long a GPU works on an update, measured without making the host wait for it."""

from __future__ import annotations

import torch


class DeviceClock:
    """Measures the work that is queued between :meth:`start` and :meth:`stop`."""

    def __init__(self, device: torch.device) -> None:
        """Prepare to measure the work of a GPU. The work of a CPU is measured by the host's clock."""
        self._is_started = False
        self._events: list[torch.cuda.Event] = []
        if device.type == "cuda":
            self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]  # type: ignore[no-untyped-call]

    def start(self) -> None:
        """Begin with the work that is queued from now on."""
        self._is_started = True
        if self._events:
            self._events[0].record()

    def stop(self) -> None:
        """End with the work that was queued until now."""
        if self._events:
            self._events[1].record()

    def seconds(self) -> float | None:
        """The time between both, 0 before the first start; None if the device is no CUDA GPU.

        Call it when the device has done the work.
        """
        if not self._events:
            return None
        if not self._is_started:
            return 0.0
        begin, end = self._events
        return float(begin.elapsed_time(end)) / 1_000
