"""How long a GPU works on an update, measured without making the host wait for it."""

from __future__ import annotations

import torch


class DeviceClock:
    """Measures the work that is queued between :meth:`start` and :meth:`stop`."""

    def __init__(self, device: torch.device) -> None:
        """Measure on a GPU; on other devices the host's clock does."""
        self._events: list[torch.cuda.Event] = []
        if device.type == "cuda":
            self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]  # type: ignore[no-untyped-call]

    def start(self) -> None:
        """Begin with the work that is queued from now on."""
        for event in self._events[:1]:
            event.record()

    def stop(self) -> None:
        """End with the work that was queued until now."""
        for event in self._events[1:]:
            event.record()

    def seconds(self) -> float | None:
        """The time between both; None if the host's clock measures it. Call it when the device has done the work."""
        if not self._events:
            return None
        begin, end = self._events
        return float(begin.elapsed_time(end)) / 1_000
