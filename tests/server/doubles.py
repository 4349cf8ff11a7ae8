"""A server without a model: its translator writes in capitals, and waits where a test wants it to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette

from nmt.server.access import Access
from nmt.server.app import application
from nmt.server.detection import Detector
from nmt.server.exchange import Limits, Server
from nmt.server.loader import Loader
from nmt.server.metrics import Metrics
from nmt.server.models import Models
from nmt.server.pool import Pool
from nmt.server.running import bound, server_config
from nmt.server.service import Service
from nmt.translation.guard import Finding
from nmt.translation.results import TranslatedText, Translation
from nmt.translation.segment import Line, Segment, TranslatedSegment
from nmt.translation.workers import AbandonedError

SECONDS = 60.0
"""Many times what anything here takes."""


@dataclass(eq=False)
class Capitals:
    """A translator double: one segment per line, one piece per word."""

    candidates: int = 1
    split: str | None = None
    source_lang: str = "en"
    target_lang: str = "de"
    mark: str = ""
    """What outputs begin with."""
    batch_tokens: int = 40
    worker_count: int = 1
    gate: threading.Event = field(default_factory=threading.Event)
    """Searches wait for it."""
    batches: list[list[str]] = field(default_factory=list)
    """The texts of each batch that was searched."""

    def __post_init__(self) -> None:
        self.gate.set()

    window = max_source_length = 1
    language_tags = ()

    @staticmethod
    def split_tag(line: str) -> tuple[str, str]:
        """The tag of a line, and the rest."""
        tag, end, rest = line.partition("<< ")
        return (tag + end.strip(), rest) if end else ("", line)

    def prepare(self, lines: Sequence[Line]) -> list[list[Segment]]:
        """Lines with spans are aligned.

        A line ``fail`` fails, here for ``fail early`` and otherwise when it is searched.
        """
        if any(line.text == "fail early" for line in lines):
            raise ZeroDivisionError
        return [
            [Segment(line.text, list(range(len(line.text.split()))), is_aligned=bool(line.spans))] for line in lines
        ]

    def search(self, segments: Sequence[Segment]) -> list[TranslatedSegment]:
        """Write the texts in capitals."""
        self.batches.append([segment.text for segment in segments])
        assert self.gate.wait(SECONDS)
        if any(segment.text == "abandon" for segment in segments):
            raise AbandonedError
        if any(segment.text.rstrip(".") == "fail" for segment in segments):
            raise ZeroDivisionError
        return list(map(self._translated, segments))

    def _translated(self, segment: Segment) -> TranslatedSegment:
        texts = [self.mark + segment.text.upper() + "'" * rank for rank in range(self.candidates)]
        alignment = tuple(range(len(segment.text.split()))) if segment.is_aligned else None
        return TranslatedSegment(
            segment, tuple(TranslatedText(text, pieces_of(text), 0.0, 0.0, alignment=alignment) for text in texts)
        )

    def joined(self, line: str, parts: Sequence[TranslatedSegment]) -> Translation:
        """The translation of a line, in which the guard finds something wrong if the line says so."""
        finding = Finding(("number",), repaired="repaired" in line) if "wrong" in line else None
        return Translation(line, parts[0].candidates, pieces_of(line), guard=finding)


def pieces_of(text: str) -> tuple[str, ...]:
    """One piece per word."""
    return tuple(f"▁{word}" for word in text.split())


class Model:
    """A model double, which translates from one language to one or several. With several, outputs name theirs."""

    max_candidates = 3
    version = 0

    def __init__(self, source: str, *targets: str) -> None:
        self.source, self.targets = source, targets
        self.name = f"{source} to {' '.join(targets)}"
        self.translators: dict[tuple[str, int, str | None], Capitals] = {}
        self.loads: list[str] = []
        """``load`` and ``unload``, in order."""
        self.gate = threading.Event()
        """Loading waits for it."""
        self.gate.set()
        self.unloading = threading.Event()
        """The end of unloading waits for it."""
        self.unloading.set()
        self.error: Exception | None = None
        """Why it cannot be loaded."""

    def directions(self) -> list[tuple[str, str]]:
        """All of its directions."""
        return [(self.source, target) for target in self.targets]

    @property
    def parts(self) -> list[Model]:
        """Itself."""
        return [self]

    def load(self) -> int:
        """Load it, with one worker."""
        self.loads.append("load")
        assert self.gate.wait(SECONDS)
        if self.error is not None:
            raise self.error
        self.version += 1
        return 1

    def unload(self) -> None:
        """Unload it."""
        self.loads.append("unload")
        assert self.unloading.wait(SECONDS)

    def watch(self, lost: Callable[[Exception], object]) -> None:
        """Remember what is called when it is lost."""
        self.lost = lost

    def translator(self, source: str = "", target: str = "", candidates: int = 1, split: str | None = None) -> Capitals:
        """The translator with these settings; by default to the first target language."""
        target = target or self.targets[0]
        mark = f"{target}:" if len(self.targets) > 1 else ""
        made = Capitals(candidates, split, self.source, target, mark)
        return self.translators.setdefault((target, candidates, split), made)


class KnownWords(Detector):
    """A text is in the language that it names, or in the first."""

    def ranked(self, text: str) -> list[tuple[str, float]]:
        """The languages."""
        return sorted(((tag, 1.0 if tag in text.split() else 0.5) for tag in self._languages), key=lambda one: -one[1])

    def other(self, text: str, language: str) -> str | None:
        """The language that the text is surely in: ``surely fr``; ``surely ?`` has its script alone."""
        found = text.partition("surely ")[2][:2]
        return None if found in ("", language) else found.strip("?")


def wait_for(what: Callable[[], Any]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < end, what
        time.sleep(0.005)


@dataclass
class Running:
    """A server that answers at an address."""

    client: httpx.Client
    service: Service
    models: Sequence[Model]
    port: int
    server: uvicorn.Server

    def translate(self, q: object, **more: object) -> httpx.Response:
        """LibreTranslate's request."""
        return self.client.post("/translate", json={"q": q, "source": "en", "target": "de", **more})

    def metrics(self) -> dict[str, float]:
        """Each sample of ``/metrics`` by its name and labels."""
        lines = self.service.metrics.text().decode().splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}

    def connections(self) -> int:
        """The number of connections."""
        return len(self.server.server_state.connections)


@contextmanager
def serving(
    models: Sequence[Model] = (),
    *,
    via: Sequence[str] = (),
    keys: Sequence[str] = (),
    requests_per_minute: int | None = None,
    origins: Sequence[str] = (),
    only_loopback: bool = False,
    limits: Limits = Limits(),
    max_waiting: int = 1_000,
    workers: int = 1,
    headers: Mapping[str, str] | None = None,
    loading: Mapping[str, Any] | None = None,
    wrap: Callable[[Starlette], Starlette] = lambda app: app,
    **options: Any,
) -> Iterator[Running]:
    """A running server.

    Args:
        headers: of each request.
        loading: the arguments of the loader. Each model is loaded for its first request.
        wrap: changes the application.
        options: of the server.
    """
    models = models or [Model("en", "de")]
    known, metrics = Models(models, via), Metrics()  # type: ignore[arg-type]
    pool = Pool(workers, max_waiting=max_waiting, observe=metrics.searched)
    loader = Loader(**loading or {})
    metrics.watch(lambda: pool.waiting, lambda: loader.count)
    service = Service(known, pool, KnownWords(known.languages), metrics, loader)
    access = Access(keys, requests_per_minute, origins, only_loopback)
    app = wrap(application(Server(service, access, limits, **options)))
    with bound("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        server = uvicorn.Server(server_config(app, limits))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=SECONDS, headers=headers) as client:
                while not server.started:
                    time.sleep(0.005)
                yield Running(client, service, models, port, server)
        finally:
            for model in models:
                for translator in model.translators.values():
                    translator.gate.set()
            server.should_exit = True
            thread.join()
            pool.close()
