"""Loss and BLEU on the valid set of each direction. BLEU uses the code of ``nmt translate`` and ``nmt score``."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nmt.checkpoint.scores import Score
from nmt.config import Config, CorpusShare
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
from nmt.training.loss import perplexity
from nmt.training.model_loss import batch_losses
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
    """The mean over directions."""
    bleu: float | None
    """The mean over directions."""
    seconds: float
    samples: list[dict[str, str]]
    """The first few sources of the first direction with references and translations."""
    directions: dict[str, dict[str, float | None]]
    """``loss`` and ``bleu`` of each direction, such as ``en-de``."""

    @property
    def score(self) -> Score:
        """The score that ranks checkpoints."""
        return Score(self.loss, self.bleu)

    def record(self) -> dict[str, Any]:
        """The record for ``metrics.jsonl``."""
        return {
            "kind": "validation",
            "valid_loss": self.loss,
            "valid_perplexity": perplexity(self.loss),
            "valid_bleu": self.bleu,
            "validation_seconds": self.seconds,
            "samples": self.samples,
            **({"directions": self.directions} if len(self.directions) > 1 else {}),
        }


@dataclass(frozen=True)
class _ValidSet:
    """The valid set of a direction."""

    source_lang: str
    target_lang: str
    tag: str
    shards: ParallelShards
    pairs: list[tuple[str, str]]
    """Those whose translations are scored."""
    bleu: Any
    """The metric; None if there are no pairs."""


class Validator:
    """Validates a model on valid sets, which it keeps in memory: that of the first data set of each direction.

    Does not touch the random state of training.
    """

    def __init__(
        self,
        data: Sequence[Path],
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
        self._sets: list[_ValidSet] = []
        for folder, part in zip(data, config.data.parts, strict=True):
            if (part.source_lang, part.target_lang) not in [(of.source_lang, of.target_lang) for of in self._sets]:
                self._sets += self._valid_sets(folder, part, DataFolder(data[0]).vocab)
        self._ensemble: Ensemble | None = None
        """Of the last validation. What its searches have recorded on a GPU reads the weights where they are, so it is
        used again while they change."""

    def validate(self, model: Transformer, *, until: Callable[[], bool] = lambda: False) -> Validation | None:
        """Validate the model. The ranks share the work, and each gets the whole result.

        Args:
            until: called regularly; validation stops without a result when it returns True on any rank.
        """
        begin = time.perf_counter()
        losses: list[float] = []
        found: list[list[str]] = []
        model.eval()
        try:
            for of in self._sets:
                with torch.inference_mode():
                    loss = self._loss(of, model, until)
                translations = self._translate(of, model, until) if loss is not None else None
                if loss is None or translations is None:
                    return None
                losses.append(loss)
                found.append(translations)
        finally:
            model.train()
        scores = [
            score(of.bleu, translations, [[target for _, target in of.pairs]]).value
            for of, translations in zip(self._sets, found, strict=True)
            if of.pairs
        ]
        samples = [
            {"source": source, "reference": reference, "translation": translation}
            for (source, reference), translation in zip(self._sets[0].pairs[:SAMPLES], found[0], strict=False)
        ]
        directions = {
            f"{of.source_lang}-{of.target_lang}": {"loss": loss, "bleu": bleu}
            for of, loss, bleu in itertools.zip_longest(self._sets, losses, scores)
        }
        bleu = statistics.fmean(scores) if scores else None
        return Validation(statistics.fmean(losses), bleu, time.perf_counter() - begin, samples, directions)

    def _valid_sets(self, folder: Path, part: CorpusShare, vocab: Path) -> list[_ValidSet]:
        """The valid set of a data set; none if it is empty, which the first may not be."""
        shards = ParallelShards.open(folder, "valid", vocab=vocab)
        if len(shards) == 0:
            if self._sets:
                return []
            raise DataError(
                f"{folder}: no pair of the valid set is left. {why_empty(shards.index, folder, 'valid', vocab)}"
            )
        names = (DataFolder(folder).text("valid", language) for language in (part.source_lang, part.target_lang))
        settings = self._config.validation
        pairs = list(itertools.islice(read_parallel(*names), settings.bleu_sentences)) if settings.bleu else []
        bleu = make_metric("bleu", part.target_lang) if pairs else None  # now: its tokeniser may not be installed
        return [_ValidSet(part.source_lang, part.target_lang, part.tag, shards, pairs, bleu)]

    def _loss(self, of: _ValidSet, model: Transformer, until: Callable[[], bool]) -> float | None:
        shards, ranks = of.shards, self._ranks
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

    def _translate(self, of: _ValidSet, model: Transformer, until: Callable[[], bool]) -> list[str] | None:
        if not of.pairs:
            return []
        ranks, decoding = self._ranks, self._config.validation.decoding
        if self._ensemble is None or self._ensemble.models != (model,):
            self._ensemble = Ensemble((model,), self._vocab, self._config, self._hardware)
        # Without the guard, so that the score includes the model's wrong translations, such as loops.
        translator = Translator(
            self._ensemble,
            # The score should not depend on the device, so batches have one size.
            translate_options(
                decoding,
                guard=False,
                batch_tokens=BATCH_TOKENS,
                source_lang=of.source_lang or None,
                target_lang=of.target_lang or None,
                tag=of.tag or None,
            ),
            window=_WINDOW_LINES,
        )
        sources = (source for source, _ in of.pairs[ranks.rank :: ranks.size])
        own = list(itertools.takewhile(lambda translation: not until(), translator.translate(sources)))
        texts = [translation.text for translation in own] if not until() else None
        shares = [share for share in ranks.gather(texts) if share is not None]
        if len(shares) < ranks.size:
            return None
        # Pairs were dealt to the ranks in turn; restore their order.
        return [shares[index % ranks.size][index // ranks.size] for index in range(len(of.pairs))]
