"""The server's process: from loaded models to its end by a signal."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette

from nmt.errors import ConfigError
from nmt.server.access import Access
from nmt.server.app import application
from nmt.server.connection import Connection
from nmt.server.detection import Detector
from nmt.server.exchange import Limits, Server
from nmt.server.loader import Loader
from nmt.server.metrics import Metrics
from nmt.server.models import Models, ServedModel
from nmt.server.pool import Pool
from nmt.server.service import Service

_MAX_CONNECTIONS = 1_000
_LONGEST_ADDRESS = 262_144
"""Bytes of a request's first line and headers: texts may stand in it."""
_BACKLOG = 1_024


@contextmanager
def bound(host: str, port: int) -> Iterator[socket.socket]:
    """A socket at an address, at which nobody can connect yet.

    Raises:
        ConfigError: the address cannot be used.
    """
    try:
        [(family, kind, protocol, _, address), *_] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"--host {host}: {getattr(error, 'strerror', None) or error}.") from None
    with socket.socket(family, kind, protocol) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with _explained(host, port):
            listening.bind(address)
        yield listening


@contextmanager
def _explained(host: str, port: int) -> Iterator[None]:
    """Turn the error of an address that cannot be used into one for the user."""
    try:
        yield
    except OSError as error:
        advice = {
            errno.EADDRINUSE: "Another program uses it: give another --port, or 0 for any.",
            errno.EACCES: "Ports below 1,024 need a privilege: give another --port.",
        }.get(error.errno or 0, "Give an address of this machine as --host.")
        raise ConfigError(f"{host}, port {port}: {error.strerror}. {advice}") from None


def run(
    served: Sequence[ServedModel],
    listening: socket.socket,
    *,
    access: Access,
    limits: Limits,
    max_waiting: int,
    via: Sequence[str] = (),
    unload_after: float | None = None,
    max_loaded: int | None = None,
    started: Callable[[Models], None] = lambda models: None,
    report: Callable[[str], object] = lambda line: None,
) -> None:
    """Answer requests until SIGINT or SIGTERM; then answer those that were accepted.

    Args:
        max_waiting: the maximum source pieces that wait for a batch.
        via: codes of pivot languages, as of :class:`~nmt.server.models.Models`.
        unload_after, max_loaded: as of :class:`~nmt.server.loader.Loader`. With either, only the first model is loaded
            at the start, which shows whether models can be loaded with these options.
        started: called when requests are answered.
        report: hears which models are loaded and unloaded later.

    Raises:
        ConfigError: as :class:`~nmt.server.models.Models`, a direction needs more models than ``max_loaded``, or
            another server began to listen at the address while the models were loaded.
        NmtError: a model cannot be loaded at the start.
    """
    models, metrics = Models(served, via), Metrics()
    if max_loaded is not None and max_loaded < models.most_at_once:
        raise ConfigError(f"--via needs {models.most_at_once} models in memory at once: give --max-loaded 2 or more.")
    detector = Detector(models.languages)
    detector.ranked("a")
    stopping = _Stopping()
    pool = Pool(0, max_waiting=max_waiting, observe=metrics.searched)

    loader = Loader(unload_after=unload_after, max_loaded=max_loaded, loaded=pool.grow, report=report)
    metrics.watch(lambda: pool.waiting, lambda: loader.count)
    try:
        first = served if unload_after is None and max_loaded is None else served[:1]
        for model in first:
            pool.grow(model.load())
        service = Service(models, pool, detector, metrics, loader)
        app = application(Server(service, access, limits, is_ending=lambda: stopping.has_begun))
        server = uvicorn.Server(server_config(app, limits))
        stopping.server = server

        with _explained(*listening.getsockname()[:2]):
            listening.listen(_BACKLOG)
        asyncio.run(_serve(server, listening, stopping, lambda: loader.start(first), lambda: started(models)))
    finally:
        pool.drop()  # nobody waits any more: requests are answered, or given up
        for model in served:
            model.unload()
        pool.close()


def server_config(app: Starlette, limits: Limits) -> uvicorn.Config:
    """How requests reach an application."""
    return uvicorn.Config(
        app,
        http=Connection,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        backlog=_BACKLOG,
        limit_concurrency=_MAX_CONNECTIONS,
        h11_max_incomplete_event_size=_LONGEST_ADDRESS,
        timeout_graceful_shutdown=int(limits.seconds) + 10,
    )


class _Stopping:
    """Ends the server at the first signal; at a second SIGINT without waiting for requests."""

    server: uvicorn.Server

    def __init__(self) -> None:
        self.has_begun = False

    def __call__(self, number: int) -> None:
        if self.has_begun and number == signal.SIGINT:
            # Each request ends as if its client had gone. With uvicorn's force_exit it would be cancelled on its way.
            for connection in list(self.server.server_state.connections):
                if isinstance(connection, Connection):
                    connection.abort()
        self.has_begun = self.server.should_exit = True


async def _serve(
    server: uvicorn.Server,
    listening: socket.socket,
    stopping: _Stopping,
    begin: Callable[[], None],
    started: Callable[[], None],
) -> None:
    loop = asyncio.get_running_loop()
    begin()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping, number)
    serving = asyncio.ensure_future(server._serve([listening]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    if server.started:
        started()
    await serving
