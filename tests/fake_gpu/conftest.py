"""A GPU for each test; the process must have been started by ``python -m tests.fake_gpu``."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def gpu() -> Iterator[Any]:
    from tests.fake_gpu.gpu import FakeGpu

    with FakeGpu().installed() as gpu:
        yield gpu
