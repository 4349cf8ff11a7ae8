"""``nmt doctor`` without what it measures."""

from __future__ import annotations

import pytest

from nmt.doctor import examination


def measure_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the measurements and checks of ``nmt doctor --quick``."""
    monkeypatch.setattr(examination, "product_rates", lambda hardware: [])
    monkeypatch.setattr(examination, "memory_bandwidth", lambda hardware: 1e9)
    monkeypatch.setattr(examination, "text_to_train_on", lambda folder: folder)
    monkeypatch.setattr(examination, "all_checks", lambda *arguments: [])
    monkeypatch.setattr(examination, "gpu_checks", lambda *arguments: [])
    monkeypatch.setattr(examination, "check_ranks", lambda *arguments: [])
