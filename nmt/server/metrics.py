"""What a server counts, for Prometheus. No label holds text, an address or a key."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from nmt.server.pool import Batch
from nmt.translation.guard import Finding

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter("nmt_requests", "Requests", ["dialect", "status"], registry=registry)
        self._seconds = Histogram("nmt_request_seconds", "Seconds per request", ["dialect"], registry=registry)
        self._waiting = Gauge("nmt_waiting_pieces", "Source pieces that wait for a batch", registry=registry)
        self._models = Gauge("nmt_models", "Models in memory", registry=registry)
        buckets = [2.0**power for power in range(2, 15)]
        self._pieces = Histogram("nmt_batch_pieces", "Source pieces per batch", buckets=buckets, registry=registry)
        self._batch_seconds = Histogram("nmt_batch_seconds", "Seconds per batch", registry=registry)
        self._lines = Counter("nmt_lines", "Translated lines", registry=registry)
        labels = ["problem", "repaired"]
        self._guard = Counter("nmt_guard_findings", "Problems of translations", labels, registry=registry)

    def answered(self, dialect: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(dialect, str(status)).inc()
        self._seconds.labels(dialect).observe(seconds)

    def searched(self, batch: Batch, seconds: float) -> None:
        """Count a batch."""
        self._pieces.observe(sum(len(place.segment.pieces) + 1 for _, place in batch))
        self._batch_seconds.observe(seconds)

    def translated(self, finding: Finding | None) -> None:
        """Count a line that was searched, and what the guard found in it."""
        self._lines.inc()
        if finding is not None:
            for problem in finding.problems:
                self._guard.labels(problem, str(finding.repaired).lower()).inc()

    def watch(self, waiting: Callable[[], int], models: Callable[[], int]) -> None:
        """Report what waits, and the models in memory, whenever the metrics are read."""
        self._waiting.set_function(waiting)
        self._models.set_function(models)

    def text(self) -> bytes:
        """All metrics in Prometheus's text format."""
        return generate_latest(self._registry)
