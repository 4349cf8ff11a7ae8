"""The data of a run: one prepared data set or several mixed, as it is or cut into other pieces each epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nmt.config import Config
from nmt.data.batching import EpochPlan, plan_epoch
from nmt.data.build import VOCAB_NAME
from nmt.data.mixing import MixedShards, epoch_population, open_mixture
from nmt.data.shards import Indices, ParallelShards
from nmt.data.vocab import Vocabulary
from nmt.errors import ConfigError, DataError
from nmt.training.feed import Epochs

Shards = ParallelShards | MixedShards


@dataclass(frozen=True)
class TrainingData:
    """What a run learns from."""

    folders: tuple[Path, ...]
    vocab: Vocabulary
    shards: Shards
    weights: tuple[float, ...]

    @staticmethod
    def open(data: Sequence[Path], config: Config) -> TrainingData:
        """Open the shards, checked against the text, the vocabulary and the model's positions.

        Args:
            data: folders, in the order that the configuration names them.

        Raises:
            DataError: they were made from other text or with another vocabulary, or are empty.
            ConfigError: they hold sentences that the model has no positions for.
        """
        weights = (config.data.weight, *(part.weight for part in config.data.mixed_with))
        fingerprints = (config.data.fingerprint, *(part.fingerprint for part in config.data.mixed_with))
        vocab = load_vocabulary(data[0])
        for folder, fingerprint in zip(data, fingerprints, strict=True):
            _check_shards(folder, fingerprint, config)
        shards = open_mixture(list(zip(data, weights, strict=True)))
        found = TrainingData(tuple(data), vocab, shards, weights)
        if found.longest > config.model.max_positions:
            raise ConfigError(
                f"model.max_positions is {config.model.max_positions}, but the data holds sentences of {found.longest} "
                f"pieces. Raise it, or run `nmt build-vocab --max-length {config.model.max_positions - 1}`."
            )
        return found

    @property
    def longest(self) -> int:
        """Side of a pair, in pieces with eos."""
        return int(max(np.max(self.shards.source_lengths), np.max(self.shards.target_lengths))) + 1

    def population(self, seed: int, epoch: int) -> Indices | None:
        """The pairs that an epoch takes, where it is not each one once."""
        if isinstance(self.shards, ParallelShards):
            return None
        return epoch_population(self.shards.sizes, self.weights, seed, epoch)

    def plan(self, config: Config) -> EpochPlan:
        """The plan of the first epoch."""
        return plan_epoch(
            self.shards.source_lengths,
            self.shards.target_lengths,
            update_tokens=config.batching.update_tokens,
            group_tokens=config.batching.group_tokens,
            seed=config.training.seed,
            epoch=0,
            pairs=self.population(config.training.seed, 0),
        )

    def epochs(self, config: Config) -> Epochs:
        """All epochs of the run."""
        seed = config.training.seed
        return Epochs(lambda epoch: self.shards, lambda epoch: self.population(seed, epoch), config.batching, seed)


def load_vocabulary(data: Path) -> Vocabulary:
    """The vocabulary of a data set.

    Raises:
        DataError: there is none yet.
    """
    if not (data / VOCAB_NAME).is_file():
        raise DataError(f"{data}: has no vocabulary yet. Run `nmt build-vocab --data {data}` first.")
    return Vocabulary.load(data / VOCAB_NAME)


def _check_shards(data: Path, fingerprint: str, config: Config) -> None:
    shards = ParallelShards.open(data, "train")
    if len(shards) == 0:
        raise DataError(f"{data}: no training pair is left after filtering. Look at its manifest.json.")
    for name, theirs, ours in (
        ("text", shards.data_fingerprint, fingerprint),
        ("vocabulary", shards.vocab_fingerprint, config.data.vocab_fingerprint),
    ):
        if theirs != ours:
            raise DataError(f"{data}: the shards were made from another {name}. Run `nmt build-vocab --data {data}`.")
