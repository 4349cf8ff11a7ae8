"""Servers that the tests ask: one without a model, and the command with one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import httpx
import pytest

from nmt.server.exchange import Limits
from tests.commands import Process, start_python
from tests.processes import SECONDS
from tests.server.doubles import Running, serving

BUNDLE = Path(__file__).parents[1] / "bundles" / "0.1.0"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A server of a double that translates English to German."""
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def small() -> Iterator[Running]:
    """As ``server``, for few characters."""
    with serving(limits=Limits(max_characters=100)) as running:
        yield running


@dataclass
class Command:
    """``nmt serve`` in a process of its own."""

    process: Process
    errors: BinaryIO
    port: int
    """None of its lines came if it is 0."""
    notices: str

    def rest(self) -> str:
        """What else it writes on stderr, until its end."""
        with self.errors:
            return self.errors.read().decode()


@contextmanager
def serve_command(*words: object, environment: dict[str, str] | None = None) -> Iterator[Command]:
    """Start ``nmt serve``, and wait until it answers or has ended."""
    process, errors = start_python(["-m", "nmt", "serve", "--port", 0, *words], environment=environment or {})
    try:
        notices, port = "", 0
        for line in errors:
            notices += line.decode()
            if found := re.search(r"http://\S+:(\d+)/", notices):
                port = int(found[1])
                break
        yield Command(process, errors, port, notices)
    finally:
        process.kill()
        process.wait(SECONDS)
        errors.close()


@pytest.fixture(scope="session", params=["torch", "ctranslate2"])
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of the command with a small model of the toy pair, by either engine."""
    if request.param == "ctranslate2":
        pytest.importorskip("ctranslate2")
    environment = {"XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}
    words = [BUNDLE, "--engine", request.param, "--precision", "fp32", "--threads", 2]
    with (
        serve_command(*words, environment=environment) as command,
        httpx.Client(base_url=f"http://127.0.0.1:{command.port}", timeout=SECONDS) as client,
    ):
        yield client
