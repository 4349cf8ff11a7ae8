"""Searches segments with our own models.

A batch that does not fit into the memory is halved; a sentence that does not fit is an error.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING

import torch

from nmt.machine.device import is_out_of_memory, release_memory, to_device
from nmt.search.beam_search import beam_search
from nmt.search.hypotheses import Hypothesis
from nmt.search.search_memory import SearchMemory
from nmt.search.settings import SearchSettings
from nmt.special_ids import EOS, PAD
from nmt.translation.batches import search_batches, segment_batches
from nmt.translation.found_batches import FoundBatches
from nmt.translation.options import TranslateOptions
from nmt.translation.segment import Segment
from nmt.translation.workers import Workers

if TYPE_CHECKING:
    from nmt.translation.ensemble import Ensemble


class TorchSearcher:
    """A :class:`~nmt.translation.engine.Searcher` with one model, or several that share a vocabulary."""

    def __init__(
        self, ensemble: Ensemble, options: TranslateOptions, workers: int | None = None, *, shared: bool = False
    ) -> None:
        """Measure the free memory; see :meth:`nmt.translation.engine.Engine.searcher`."""
        self._ensemble = ensemble
        self._hardware = hardware = ensemble.hardware
        self._workers = Workers(
            hardware.threads,
            workers,
            on_cpu=hardware.device.type == "cpu",
            shared=shared,
            set_threads=torch.set_num_threads,
        )
        self._memory = SearchMemory(ensemble.models, hardware.device, hardware.products_dtype)
        self._memory.check_beam(options)
        self.batch_tokens = options.batch_tokens or self._memory.batch_tokens(options, self._workers.count)
        # Copies of this process, too, take turns.
        self._alone = get_context("fork").Lock() if shared and self.may_fork else threading.Lock()
        if shared:
            ensemble.vocab.set_threads(self._workers.threads_of_each)

    @property
    def worker_count(self) -> int:
        """As :attr:`nmt.translation.engine.Searcher.worker_count`."""
        return self._workers.count

    @property
    def may_fork(self) -> bool:
        """As :attr:`nmt.translation.engine.Searcher.may_fork`.

        Python starts torch's operations, and runs one thread at a time. A copy has neither a GPU nor OpenMP's threads;
        on macOS, libraries of the system do not work in one.
        """
        is_on_cpu = self._hardware.device.type == "cpu"
        return sys.platform == "linux" and is_on_cpu and self._workers.threads_of_each == 1

    def search(
        self, segments: Sequence[Segment], settings: SearchSettings, known: FoundBatches | None = None
    ) -> list[list[Hypothesis]]:
        """As :meth:`nmt.translation.engine.Searcher.search`."""
        batches = segment_batches(segments, self.batch_tokens, settings.beam, self._workers.of_one_call)
        searches = self._workers.count if self._workers.are_shared else min(self._workers.count, len(batches))
        search = partial(self._search, settings=settings, searches=max(1, searches))
        return search_batches(segments, batches, self._workers, settings, search, free=self._memory.free, known=known)

    def _search(
        self, batch: Sequence[Segment], alone: bool, *, settings: SearchSettings, searches: int
    ) -> list[list[Hypothesis]] | None:
        """Search a batch, beside so many others or alone; None if it does not fit into its share of the memory."""
        free = self._memory.free
        if not alone:
            return self._try(batch, settings, None if free is None else free // searches)
        with self._alone:
            return self._try(batch, settings, free)

    def _try(
        self, batch: Sequence[Segment], settings: SearchSettings, limit: int | None
    ) -> list[list[Hypothesis]] | None:
        """Search a batch; None if it does not fit into a number of bytes."""
        # A single character may have more pieces than the model has positions.
        sources = [[*segment.pieces[: self._ensemble.positions], EOS] for segment in batch]
        width = max(map(len, sources))
        source_BS = torch.tensor([source + [PAD] * (width - len(source)) for source in sources])

        def before_step(sentences: int, length: int) -> None:
            self._workers.check_abandoned()
            if limit is not None and self._memory.need(settings, sentences, width, length + 1) > limit:
                raise MemoryError

        try:
            with self._hardware.autocast():
                found = beam_search(
                    self._ensemble.models,
                    to_device(source_BS, self._hardware.device),
                    settings,
                    prefixes=[segment.prefix for segment in batch],
                    numbers=[segment.number for segment in batch],
                    before_step=before_step,
                    recorded_steps=self._ensemble.recorded_steps,
                    with_others=True,
                )
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            found = None
        if found is None:
            # Release memory outside of the handler: inside, the exception keeps the search's tensors alive.
            self._ensemble.recorded_steps.release()
            release_memory(self._hardware.device)
        return found
