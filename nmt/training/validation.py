"""Loss and BLEU on the valid set. BLEU uses the same code as ``nmt translate`` and ``nmt score``."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nmt.config import Config
from nmt.data.batching import collate, micro_batches
from nmt.data.data_folder import DataFolder
from nmt.data.shards import ParallelShards
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import DataError
from nmt.evaluation.metrics import make_metric, score
from nmt.machine.device import Hardware
from nmt.model.transformer import Transformer
from nmt.search.settings import BATCH_TOKENS
from nmt.text.lines import read_parallel
from nmt.training.input.data_sets import why_empty
from nmt.training.learner import batch_losses
from nmt.training.loss import perplexity
from nmt.training.ranks.exchange import NO_OTHERS, Ranks
from nmt.translation.ensemble import Ensemble
from nmt.translation.options import translate_options
from nmt.translation.translator import Translator

SAMPLES = 3
VALIDATION_BATCH_TOKENS = 4_096
"""The maximum padded positions of a batch."""
# Signals to stop are checked between two windows.
_WINDOW_LINES = 256


@dataclass(frozen=True)
class Validation:
    """The result of a validation."""

    loss: float
    bleu: float | None
    seconds: float
    samples: list[dict[str, str]]
    """The first few sources with references and translations."""

    @property
    def score(self) -> float:
        """The score that ranks checkpoints (higher is better): BLEU, or the negative loss if BLEU is not measured."""
        return -self.loss if self.bleu is None else self.bleu

    def record(self) -> dict[str, Any]:
        """The record for ``metrics.jsonl``."""
        return {
            "kind": "validation",
            "valid_loss": self.loss,
            "valid_perplexity": perplexity(self.loss),
            "valid_bleu": self.bleu,
            "validation_seconds": self.seconds,
            "samples": self.samples,
        }


class Validator:
    """Validates a model on the valid set, which it keeps in memory. Does not touch the random state of training."""

    def __init__(
        self,
        data: Path,
        config: Config,
        vocab: VocabularyPair,
        hardware: Hardware,
        ranks: Ranks = NO_OTHERS,
        *,
        batch_tokens: int = VALIDATION_BATCH_TOKENS,
    ) -> None:
        self._config = config
        self._vocab = vocab
        self._hardware = hardware
        self._ranks = ranks
        self._batch_tokens = batch_tokens
        vocab_file = DataFolder(data).vocab
        self._shards = ParallelShards.open(data, "valid", vocab=vocab_file)
        if len(self._shards) == 0:
            why = why_empty(self._shards.index, data, "valid", vocab_file)
            raise DataError(f"{data}: no pair of the valid set is left. {why}")
        names = (
            DataFolder(data).text("valid", language) for language in (config.data.source_lang, config.data.target_lang)
        )
        pairs = itertools.islice(read_parallel(*names), config.validation.bleu_sentences)
        self._pairs = list(pairs) if config.validation.bleu else []
        self._ensemble: Ensemble | None = None
        """Of the last validation. What its searches have recorded on a GPU reads the weights where they are, so it is
        used again while they change."""

    def validate(self, model: Transformer, *, until: Callable[[], bool] = lambda: False) -> Validation | None:
        """Validate the model. The ranks share the work, and each gets the whole result.

        Args:
            until: called regularly; validation stops without a result when it returns True on any rank.
        """
        begin = time.perf_counter()
        model.eval()
        try:
            with torch.inference_mode():
                loss = self._loss(model, until)
            translations = self._translate(model, until) if loss is not None else None
        finally:
            model.train()
        if loss is None or translations is None:
            return None
        references = [target for _, target in self._pairs]
        bleu = None
        if references:
            bleu = score(make_metric("bleu", self._config.data.target_lang), translations, [references]).value
        samples = [
            {"source": source, "reference": reference, "translation": translation}
            for (source, reference), translation in zip(self._pairs[:SAMPLES], translations, strict=False)
        ]
        return Validation(loss, bleu, time.perf_counter() - begin, samples)

    def _loss(self, model: Transformer, until: Callable[[], bool]) -> float | None:
        shards, ranks = self._shards, self._ranks
        lengths = shards.source_lengths, shards.target_lengths
        batches = micro_batches(np.arange(len(shards)), self._batch_tokens, *lengths)
        total = tokens = stops = 0.0
        for pairs in batches[ranks.rank :: ranks.size]:
            if until():
                stops = 1.0
                break
            batch = collate(shards, pairs)
            total += batch_losses(model, batch, 0.0, self._hardware).cross_entropy.item()
            tokens += batch.target_tokens
        sums = torch.tensor([total, tokens, stops], dtype=torch.float64)
        ranks.all_reduce(sums)
        return None if sums[2] else float(sums[0] / sums[1])

    def _translate(self, model: Transformer, until: Callable[[], bool]) -> list[str] | None:
        if not self._pairs:
            return []
        ranks, decoding = self._ranks, self._config.validation.decoding
        if self._ensemble is None or self._ensemble.models != (model,):
            self._ensemble = Ensemble((model,), self._vocab, self._config, self._hardware)
        # Without the guard, so that the score includes the model's wrong translations, such as loops.
        translator = Translator(
            self._ensemble,
            # The score should not depend on the device, so batches have one size.
            translate_options(decoding, guard=False, batch_tokens=BATCH_TOKENS),
            window=_WINDOW_LINES,
        )
        sources = (source for source, _ in self._pairs[ranks.rank :: ranks.size])
        own = list(itertools.takewhile(lambda translation: not until(), translator.translate(sources)))
        texts = [translation.text for translation in own] if not until() else None
        shares = [share for share in ranks.gather(texts) if share is not None]
        if len(shares) < ranks.size:
            return None
        # Pairs were dealt to the ranks in turn; restore their order.
        return [shares[index % ranks.size][index // ranks.size] for index in range(len(self._pairs))]
