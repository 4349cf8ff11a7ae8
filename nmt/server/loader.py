"""Which models are in memory: each is loaded for its first request, and unloaded when idle, or to make room.

A model whose process was killed fails the requests that wait for it, and is loaded again for the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from nmt.errors import NmtError
from nmt.server.errors import RETRY_SECONDS, RequestError, log_error
from nmt.server.models import ServedModel


@dataclass(eq=False)
class _Kept:
    """A model that is in memory, or is being loaded."""

    loading: asyncio.Task[bool] | None = None
    """Results in whether it was loaded. None if that was at the start."""
    users: int = 0
    """The requests that need it, and its loading."""
    timer: asyncio.TimerHandle | None = None
    """Unloads it."""


class Loader:
    """Loads and unloads models, in the event loop."""

    def __init__(
        self,
        *,
        unload_after: float | None = None,
        max_loaded: int | None = None,
        loaded: Callable[[int], object] = lambda workers: None,
        report: Callable[[str], object] = lambda line: None,
    ) -> None:
        """Have no model in memory yet.

        Args:
            unload_after: the seconds after which an idle model is unloaded. None for never.
            max_loaded: the maximum number of models in memory. None for all.
            loaded: called with the number of workers of each model that was loaded.
            report: hears what is loaded and unloaded.
        """
        self._unload_after, self._max_loaded = unload_after, max_loaded
        self._loaded, self._report = loaded, report
        self._kept: dict[ServedModel, _Kept] = {}
        """That which was not needed for longest comes first."""
        self._unloading: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Condition()

    @property
    def count(self) -> int:
        """The number of models in memory."""
        return len(self._kept)

    def start(self, models: Iterable[ServedModel]) -> None:
        """Take over models that are loaded, in the event loop."""
        for model in models:
            kept = self._kept[model] = _Kept()
            self._watch(model)
            self._wait_idle(model, kept)

    @asynccontextmanager
    async def using(self, models: Sequence[ServedModel], purpose: object) -> AsyncIterator[None]:
        """Have models in memory. Waits until there is room for them, and until they are loaded.

        Args:
            purpose: what they are for, for errors.

        Raises:
            RequestError: one cannot be loaded. The next request will try again.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: self._make_room(models))
            used = {model: self._enter(model) for model in models}
        try:
            for kept in used.values():
                # A client that goes away does not end the loading, for which others may wait.
                if kept.loading is not None and not await asyncio.shield(kept.loading):
                    message = f"The model for {purpose} cannot be loaded; the server's log says why."
                    raise RequestError(503, message, retry_after=RETRY_SECONDS)
            yield
        finally:
            for model, kept in used.items():
                await self._leave(model, kept)

    def _make_room(self, models: Sequence[ServedModel]) -> bool:
        """Unload idle models until there is room for those that are needed. Whether there is."""
        if self._max_loaded is None:
            return True
        room = self._max_loaded - sum(model not in self._kept for model in models)
        idle = [model for model, kept in self._kept.items() if not kept.users and model not in models]
        if len(self._kept) - len(idle) > room:
            return False
        for model in idle[: max(0, len(self._kept) - room)]:
            self._unload(model, "another model needs the room")
        return True

    def _enter(self, model: ServedModel) -> _Kept:
        kept = self._kept.pop(model, None)
        if kept is None:
            kept = _Kept(users=1)
            kept.loading = asyncio.create_task(self._load(model, kept))
        if kept.timer is not None:
            kept.timer.cancel()
        kept.users += 1
        self._kept[model] = kept  # at the end
        return kept

    async def _leave(self, model: ServedModel, kept: _Kept) -> None:
        kept.users -= 1
        self._wait_idle(model, kept)
        async with self._changed:
            self._changed.notify_all()

    async def _load(self, model: ServedModel, kept: _Kept) -> bool:
        began = time.monotonic()
        try:
            if self._unloading:  # they hold the memory that made room, and this model may be one of them
                await asyncio.wait(self._unloading)
            self._loaded(await asyncio.to_thread(model.load))
            self._watch(model)
        except Exception as error:
            del self._kept[model]
            self._report(f"{model.name} cannot be loaded: {error}")
            if not isinstance(error, NmtError):
                log_error()
            return False
        else:
            self._report(f"loaded {model.name} in {time.monotonic() - began:.1f} s")
            return True
        finally:
            await self._leave(model, kept)

    def _watch(self, model: ServedModel) -> None:
        """Forget the model once its process has ended by itself, so that the next request loads it again."""
        loop, version = asyncio.get_running_loop(), model.version

        def lost(error: NmtError) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(forget, error)

        def forget(error: NmtError) -> None:
            if model.version is version and model in self._kept:  # it may have been unloaded meanwhile
                kept = self._kept.pop(model)
                if kept.timer is not None:
                    kept.timer.cancel()
                self._report(f"{error} The next request for this model loads it again.")

        model.watch(lost)

    def _wait_idle(self, model: ServedModel, kept: _Kept) -> None:
        """Unload a model that nobody needs, after a while."""
        if self._unload_after is not None and not kept.users and self._kept.get(model) is kept:
            reason = f"idle for {self._unload_after:g} s"
            kept.timer = asyncio.get_running_loop().call_later(self._unload_after, self._unload, model, reason)

    def _unload(self, model: ServedModel, reason: str) -> None:
        """Unload a model that nobody needs, in another thread."""
        kept = self._kept.pop(model)
        if kept.timer is not None:
            kept.timer.cancel()
        # A killed process takes a while to give its memory back, in which the server answers others.
        unloading = asyncio.create_task(asyncio.to_thread(model.unload))
        self._unloading.add(unloading)
        unloading.add_done_callback(self._unloading.discard)
        self._report(f"unloaded {model.name}: {reason}")
