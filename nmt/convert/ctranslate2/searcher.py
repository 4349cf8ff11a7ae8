"""The search of CTranslate2 behind our interface.

It differs from ours in three ways. It drops pieces that are not allowed before the softmax, so log-probabilities are
higher. Without pad, bos and unk they are a little higher, and stay so. With a minimum length, or without repeated
n-grams, they are much higher, and hypotheses are scored again. The places of finished hypotheses are filled, by those
behind the best extensions that the beam has places for, and the search ends when as many are finished as there are
places. It has no paper's length penalty: hypotheses are found with ``length^alpha`` and reranked.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from nmt.data.vocab import SPECIAL_PIECES, Vocabulary
from nmt.errors import ConfigError
from nmt.machine.cores import available_memory
from nmt.search.hypotheses import Hypothesis, length_penalty, output_limits
from nmt.search.settings import BATCH_TOKENS, SearchSettings
from nmt.translation.batches import search_batches, segment_batches
from nmt.translation.found_batches import FoundBatches
from nmt.translation.options import TranslateOptions
from nmt.translation.segment import Segment
from nmt.translation.workers import Workers

if TYPE_CHECKING:
    from nmt.convert.ctranslate2.engine import CTranslate2Engine

NEVER_EMITTED = [[SPECIAL_PIECES[Vocabulary.PAD]], [SPECIAL_PIECES[Vocabulary.BOS]]]
"""The value of ``suppress_sequences``."""
_GPU_BATCH_TOKENS = 16_384
_FLOAT = 4  # bytes of a float32


class CTranslate2Searcher:
    """A :class:`~nmt.translation.engine.Searcher` with CTranslate2."""

    def __init__(
        self, engine: CTranslate2Engine, options: TranslateOptions, workers: int | None = None, *, shared: bool = False
    ) -> None:
        """Prepare to search; see :meth:`nmt.translation.engine.Engine.searcher`."""
        if options.sampling is not None:
            raise ConfigError("CTranslate2 does not support --sample. Leave it out, or use the engine torch.")
        self._engine = engine
        self._workers = Workers(engine.threads, workers, on_cpu=engine.device == "cpu", shared=shared)
        self._alone = threading.Lock()
        """Held by the search of a segment that needs more than the share of a worker."""
        self.batch_tokens = options.batch_tokens or (BATCH_TOKENS if engine.device == "cpu" else _GPU_BATCH_TOKENS)

    @property
    def worker_count(self) -> int:
        """As :attr:`nmt.translation.engine.Searcher.worker_count`."""
        return self._workers.count

    @property
    def may_fork(self) -> bool:
        """As :attr:`nmt.translation.engine.Searcher.may_fork`: CTranslate2 searches without Python."""
        return False

    def search(
        self, segments: Sequence[Segment], settings: SearchSettings, known: FoundBatches | None = None
    ) -> list[list[Hypothesis]]:
        """As :meth:`nmt.translation.engine.Searcher.search`."""
        if not segments:
            return []
        batches = segment_batches(segments, self.batch_tokens, settings.beam, self._workers.of_one_call)
        # In int8, a single batch too is faster with the one thread of a worker than with all (docs/benchmarks.md).
        by_worker = self._workers.are_shared or len(batches) > 1
        by_worker = by_worker or (self._engine.precision == "int8" and self._engine.device == "cpu")
        model = self._engine.model(self._workers.count if by_worker else 1)
        search = partial(self._search, settings=settings, model=model)
        return search_batches(segments, batches, self._workers, settings, search, free=self._free, known=known)

    def _search(
        self, batch: Sequence[Segment], alone: bool, *, settings: SearchSettings, model: Any
    ) -> list[list[Hypothesis]] | None:
        """Search a batch, beside those of other workers or alone; None if it does not fit into the memory."""
        self._workers.check_abandoned()
        share = 1 if alone else self._workers.count
        if self._free is not None and self._need(batch, settings) > self._free / share:
            return None
        try:
            with self._alone if alone else nullcontext():
                return self._found(batch, settings, model)
        except (RuntimeError, MemoryError) as error:
            if "out of memory" not in str(error) and not isinstance(error, MemoryError):
                raise
        return None

    @cached_property
    def _free(self) -> float | None:
        """The memory in bytes that was free before the first search. On a GPU, searches that need more raise errors; on
        a CPU, the system kills the process.
        """
        return available_memory() if self._engine.device == "cpu" else None

    def _need(self, batch: Sequence[Segment], settings: SearchSettings) -> int:
        """Estimate the bytes that a search needs if no output has more than twice the pieces of the longest source."""
        model, source = self._engine.config.model, max(len(segment.pieces) for segment in batch)
        length = max(min(2 * source, source + settings.max_extra_length), settings.min_length) + 1
        of_piece = 2 * model.decoder_layers * model.d_model  # its keys and values
        # Keys and values are there twice when places are reordered; of the logits there are two copies.
        of_place = 2 * of_piece * length + 3 * self._engine.vocab.target.size
        return _FLOAT * len(batch) * (settings.beam * of_place + of_piece * source)

    def _found(self, batch: Sequence[Segment], settings: SearchSettings, model: Any) -> list[list[Hypothesis]]:
        """The best hypotheses of each segment.

        A call of CTranslate2 has one maximum length. A segment is searched again, by its own, if its hypotheses are
        longer; it would have had others.
        """
        limits = output_limits(
            settings,
            [min(len(segment.pieces), self._engine.positions) + 1 for segment in batch],
            [segment.prefix for segment in batch],
            max_positions=self._engine.positions + 1,
        )
        found = self._hypotheses(batch, settings, max(limits), model)
        longer = [
            index
            for index, (hypotheses, limit) in enumerate(zip(found, limits, strict=True))
            if settings.beam > 1 and limit < max(limits) and any(len(pieces) > limit for pieces, _ in hypotheses)
        ]
        for limit in {limits[index] for index in longer}:
            again = [index for index in longer if limits[index] == limit]
            for index, hypotheses in zip(
                again, self._hypotheses([batch[index] for index in again], settings, limit, model), strict=True
            ):
                found[index] = hypotheses
        return self._scored(batch, found, limits, settings, model)

    def _hypotheses(
        self, batch: Sequence[Segment], settings: SearchSettings, limit: int, model: Any
    ) -> list[list[tuple[list[str], float]]]:
        """The pieces of each hypothesis, and its log-probability: without the prefix, and without eos at the limit."""
        vocab, alpha = self._engine.vocab, settings.length_penalty
        prefixes = [vocab.target.pieces(segment.prefix) for segment in batch]
        results = model.translate_batch(
            [vocab.source.pieces(segment.pieces[: self._engine.positions]) for segment in batch],
            prefixes if any(prefixes) else None,
            beam_size=settings.beam,
            # With a penalty, the search goes on until the beam is full of finished hypotheses.
            num_hypotheses=settings.beam if alpha else settings.nbest,
            length_penalty=alpha,
            no_repeat_ngram_size=settings.no_repeat_ngram,
            max_input_length=0,
            max_decoding_length=limit,
            min_decoding_length=min(settings.min_length, limit),
            return_scores=True,
            disable_unk=True,
            suppress_sequences=NEVER_EMITTED,
        )
        found = [
            [
                (pieces, score * length_penalty(len(pieces) + 1, alpha, "length"))
                for pieces, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in results
        ]
        for hypotheses, prefix in zip(found, prefixes, strict=True):
            # After a prefix, the search finds its end only if that is the likeliest piece.
            is_known = any(pieces == prefix for pieces, _ in hypotheses)
            if prefix and not is_known and settings.beam > 1 and settings.min_length <= len(prefix):
                hypotheses.append((prefix, 0.0))
        return found

    def _scored(
        self,
        batch: Sequence[Segment],
        found: Sequence[Sequence[tuple[list[str], float]]],
        limits: Sequence[int],
        settings: SearchSettings,
        model: Any,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each segment, best first.

        Those with a prefix, those that reached the limit, and all where some pieces were not allowed, are scored again.
        """
        vocab, all_inexact = self._engine.vocab, bool(settings.min_length or settings.no_repeat_ngram)
        are_needed = settings.max_length is None  # measurements force lengths, and look at no score
        inexact = [
            (index, rank)
            for index, (segment, hypotheses, limit) in enumerate(zip(batch, found, limits, strict=True))
            for rank, (pieces, _) in enumerate(hypotheses)
            if are_needed and (all_inexact or segment.prefix or len(pieces) >= limit)
        ]
        pairs = [
            (vocab.source.pieces(batch[index].pieces[: self._engine.positions]), found[index][rank][0][: limits[index]])
            for index, rank in inexact
        ]
        exact = dict(zip(inexact, map(math.fsum, self._engine.log_probabilities(pairs, model)), strict=True))

        def scored(index: int, rank: int, pieces: list[str], log_probability: float) -> Hypothesis:
            ids = tuple(vocab.target.ids(pieces[: limits[index]]))
            total = exact.get((index, rank), log_probability)
            penalty = length_penalty(len(ids) + 1, settings.length_penalty, settings.length_normalization)
            return Hypothesis(ids, total, total / penalty)

        return [
            sorted((scored(index, rank, *one) for rank, one in enumerate(hypotheses)), key=lambda one: -one.score)
            for index, hypotheses in enumerate(found)
        ]
