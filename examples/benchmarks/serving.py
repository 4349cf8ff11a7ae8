"""Requests per second of ``nmt serve`` beside ``nmt translate`` of the same text, and beside another server."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PAIR = dict[str, str]
_OK = 200


@contextmanager
def our_server(words: Sequence[str]) -> Iterator[tuple[str, int]]:
    """``nmt serve``: its address and its process id."""
    command = [sys.executable, "-m", "nmt", "serve", "--port", "0", *words]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
        process = subprocess.Popen(command, stderr=log)
        try:
            while "http://" not in (said := _content(log)):
                if process.poll() is not None:
                    raise SystemExit(said)
                time.sleep(0.2)
            yield "http://" + said.partition("http://")[2].split("/")[0], process.pid
        finally:
            process.terminate()
            process.wait()


def _content(log: Any) -> str:
    log.seek(0)
    return log.read()


def translate_rate(words: Sequence[str], lines: Sequence[str]) -> float:
    """Lines per second of ``nmt translate``, without its start: from the difference between few lines and all."""
    few = max(1, len(lines) // 10)
    seconds = [_seconds(words, part) for part in (lines[:few], lines)]
    return (len(lines) - few) / (seconds[1] - seconds[0])


def _seconds(words: Sequence[str], lines: Sequence[str]) -> float:
    began = time.monotonic()
    text = "".join(f"{line}\n" for line in lines).encode()
    command = [sys.executable, "-m", "nmt", "translate", "--quiet", *words]
    subprocess.run(command, input=text, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def recombined(lines: Sequence[str]) -> Iterator[str]:
    """Lines of thirds of three lines. None comes twice: a server may remember it."""
    words, chosen, seen = [line.split() for line in lines], random.Random(0), set[str]()
    for _ in range(len(lines) ** 3):
        thirds = enumerate(chosen.choices(words, k=3))
        line = " ".join(word for part, of in thirds for word in of[part * len(of) // 3 : (part + 1) * len(of) // 3])
        if line not in seen:
            seen.add(line)
            yield line
    raise SystemExit("The text has too few lines.")


def load(
    address: str, pair: PAIR, lines: Iterator[str], clients: int, seconds: float, *, longest: int = 1
) -> dict[str, Any]:
    """Send lines from many clients, each its next request when it has the answer.

    Args:
        longest: requests have 1 to so many lines, in turn.
    """
    return asyncio.run(_load(address, pair, lines, clients, seconds, longest))


async def _load(
    address: str, pair: PAIR, lines: Iterator[str], clients: int, seconds: float, longest: int
) -> dict[str, Any]:
    counts = itertools.cycle(range(1, longest + 1))
    times: list[float] = []
    translated = refused = 0
    began = time.monotonic()

    async def ask() -> None:
        nonlocal translated, refused
        client = await _Client.connected(address)
        while time.monotonic() - began < seconds:
            count, sent = next(counts), time.monotonic()
            text = "\n".join(itertools.islice(lines, count))
            status = await client.post("/translate", {"q": text, **pair})
            if status == _OK:
                times.append(time.monotonic() - sent)
                translated += count
            else:
                refused += 1
        client.close()

    await asyncio.gather(*(ask() for _ in range(clients)))
    elapsed = time.monotonic() - began
    by_share = statistics.quantiles(times, n=100)
    return {
        "lines_per_second": round(translated / elapsed, 2),
        "requests": len(times),
        "refused": refused,
        "median_ms": round(1_000 * by_share[49]),
        "p99_ms": round(1_000 * by_share[98]),
    }


class _Client:
    """A connection that is kept. It does no more than it must: the clients share the machine with the server."""

    def __init__(self, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._host, self._reader, self._writer = host, reader, writer

    @staticmethod
    async def connected(address: str) -> _Client:
        parts = urlsplit(address)
        return _Client(parts.netloc, *await asyncio.open_connection(parts.hostname, parts.port))

    async def post(self, path: str, document: dict[str, Any]) -> int:
        """Send JSON, read the answer, and return its status."""
        body = json.dumps(document).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        status, *headers = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        [length] = [header.partition(":")[2] for header in headers if header.lower().startswith("content-length:")]
        await self._reader.readexactly(int(length))
        return int(status.split()[1])

    def close(self) -> None:
        self._writer.close()


def anonymous_megabytes(process: int) -> float:
    """The anonymous memory (RssAnon) of a process and those that it started; what they share counts once for each."""
    status = Path(f"/proc/{process}/status").read_text("ascii")
    own = int(status.partition("RssAnon:")[2].split()[0]) / 1_000
    started = Path(f"/proc/{process}/task/{process}/children").read_text("ascii").split()
    return round(own + sum(map(anonymous_megabytes, map(int, started))), 1)


def bench_serving(
    model: Path,
    options: Sequence[str],
    pair: PAIR,
    lines: Sequence[str],
    *,
    other: str | None,
    clients: int,
    longest: int,
    seconds: float,
    rounds: int,
    report: Callable[[str], None],
) -> dict[str, Any]:
    """Measure all in turn.

    Args:
        options: of both commands.
        other: the address of another server that speaks LibreTranslate's dialect.
        longest: requests have 1 to so many lines.
    """
    new = recombined(lines)
    results: list[dict[str, Any]] = []
    with our_server([str(model), *options]) as (ours, process):
        load(ours, pair, new, clients, min(10.0, seconds), longest=longest)
        for number in range(1, rounds + 1):
            found: dict[str, Any] = {}
            for name, address in {"server": ours, **({"other": other} if other else {})}.items():
                found[name] = load(address, pair, new, clients, seconds, longest=longest)
                found[f"{name}_one_client"] = load(address, pair, new, 1, seconds / 4)
            found["anonymous_megabytes"] = anonymous_megabytes(process)
            count = max(200, round(found["server"]["lines_per_second"] * seconds))
            rate = translate_rate(["--model", str(model), *options], list(itertools.islice(new, count)))
            found["translate"] = {"lines_per_second": round(rate, 2)}
            found["server_over_translate"] = round(found["server"]["lines_per_second"] / rate, 3)
            report(f"round {number}: {found}")
            results.append(found)
    return {"clients": clients, "longest": longest, "seconds": seconds, "rounds": results}
