"""The data of a run: one data set or a mixture, encoded once or with subwords sampled anew each epoch."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from nmt.checkpoint.run_folder import RunFolder
from nmt.config import Config
from nmt.data.arrays import Indices
from nmt.data.data_folder import DataFolder
from nmt.data.encoded_text import changed_files, examine_text
from nmt.data.manifest import read_manifest
from nmt.data.mixing import MixedShards, epoch_population, mixture
from nmt.data.sampling import SampledEpochs
from nmt.data.shards import ENCODED_SPLITS, ParallelShards, build_command, read_index
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import ConfigError, DataError
from nmt.model.transformer import Transformer
from nmt.training.input.feed import UPDATES_AHEAD, Epochs
from nmt.training.input.micro_batches import MicroBatching
from nmt.training.ranks.exchange import EXCHANGE_TIMEOUT, Ranks

Shards = ParallelShards | MixedShards
# One rank may hold an update and its next one, with others ahead, when another still opens the one before.
_UPDATES_APART = UPDATES_AHEAD + 2


@dataclass(frozen=True)
class TrainingData:
    """The training data of a run."""

    folders: tuple[Path, ...]
    vocab: VocabularyPair
    shards: Shards
    weights: tuple[float, ...]
    longest: int
    """The length of the longest sentence, in pieces with eos."""

    @staticmethod
    def open(data: Sequence[Path], config: Config) -> TrainingData:
        """Open the shards, and check them against the text, the vocabulary and the model's positions.

        Args:
            data: the folders of the data sets, in the order of the configuration.

        Raises:
            DataError: shards are empty, or were made from other text or with another vocabulary.
            ConfigError: a sentence is longer than the model's positions.
        """
        weights = tuple(part.weight for part in config.data.parts)
        fingerprints = [part.fingerprint for part in config.data.parts]
        if len(data) != len(fingerprints):
            raise DataError(
                f"data sets named: {len(data)}; the run has {len(fingerprints)}. Name each, in the run's order."
            )
        vocab = load_vocabulary(data[0]).prepared(config.data.steps, config.data.choices)
        opened = [
            _opened_shards(folder, fingerprint, config, data[0])
            for folder, fingerprint in zip(data, fingerprints, strict=True)
        ]
        shards = mixture(data, weights, opened)
        longest = int(max(np.max(shards.source_lengths), np.max(shards.target_lengths))) + 1
        if config.training.subword_sampling:
            longest = max(read_index(folder).max_length for folder in data) + 1
        if longest > config.model.max_positions:
            raise ConfigError(
                f"model.max_positions is {config.model.max_positions}, but the data holds sentences of {longest} "
                f"pieces. Raise it, or encode the data again without longer ones: "
                f"{_shorten_commands(data, config.model.max_positions - 1)}."
            )
        return TrainingData(tuple(data), vocab, shards, weights, longest)

    def max_positions(self, update_tokens: int) -> int:
        """The approximate maximum of padded positions, source or target, in an update of ``update_tokens``."""
        ratio = self._pieces(self.shards.source_lengths) / self._pieces(self.shards.target_lengths)
        return math.ceil(1.5 * max(update_tokens * max(1.0, ratio), self.longest))

    def micro_batching(
        self, config: Config, model: Transformer, device: torch.device, ranks: Ranks
    ) -> Callable[[int], MicroBatching]:
        """How updates are divided into micro-batches of a maximum of tokens, for the model's attention."""
        return self._encoded_epochs(config).micro_batching(model, device, ranks, self.longest)

    def _encoded_epochs(self, config: Config) -> Epochs:
        """The epochs, as they are encoded."""
        seed = config.training.seed
        return Epochs(lambda epoch: (self.shards, self._population(self.shards, seed, epoch)), config.batching, seed)

    def epoch_size(self, config: Config) -> tuple[int, int]:
        """Estimate the numbers of pairs and updates per epoch. Small corpora may have fewer updates."""
        pairs, lengths = self._population(self.shards, config.training.seed, 0), self.shards.target_lengths
        count = len(lengths) if pairs is None else len(pairs)
        tokens = self._pieces(lengths if pairs is None else lengths[pairs])
        return count, min(count, max(1, round(tokens / config.batching.update_tokens)))

    @staticmethod
    def _pieces(lengths: NDArray[np.int32]) -> int:
        """The total number of pieces, with eos."""
        return int(lengths.sum(dtype=np.int64)) + len(lengths)

    @contextmanager
    def epochs(self, config: Config, run: Path, ranks: Ranks) -> Iterator[Epochs]:
        """The epochs of the run. If subwords are sampled, another process prepares epochs while the body runs."""
        seed, dropout = config.training.seed, config.training.subword_sampling
        if not dropout:
            yield self._encoded_epochs(config)
            return
        with ExitStack() as stack:
            # One rank per machine writes into that machine's own folder, because machines may or may not share disks.
            sampled = [
                stack.enter_context(
                    SampledEpochs(
                        folder,
                        RunFolder(run).sampled / socket.gethostname() / f"{number}-{folder.name}",
                        self.vocab,
                        dropout=dropout,
                        seed=seed,
                        writer=ranks.local_rank == 0,
                        keep=_UPDATES_APART if ranks.local_size > 1 else 0,
                        timeout_seconds=EXCHANGE_TIMEOUT.total_seconds(),
                    )
                )
                for number, folder in enumerate(self.folders, start=1)
            ]

            def open_epoch(epoch: int) -> tuple[Shards, Indices | None]:
                opened = [part.open(epoch) for part in sampled]
                shards = opened[0] if isinstance(self.shards, ParallelShards) else MixedShards(opened)
                return shards, self._population(shards, seed, epoch)

            yield Epochs(open_epoch, config.batching, seed)

    def _population(self, shards: Shards, seed: int, epoch: int) -> Indices | None:
        if isinstance(shards, ParallelShards):
            return None
        return epoch_population(shards.sizes, self.weights, seed, epoch)


def load_vocabulary(data: Path) -> VocabularyPair:
    """The vocabulary of a data set.

    Raises:
        DataError: the data set has no vocabulary yet.
    """
    if not DataFolder(data).vocab.is_file():
        raise DataError(f"{data}: has no vocabulary yet. Run `nmt build-vocab --data {data}` first.")
    return VocabularyPair.load(DataFolder(data).vocab)


def _shorten_commands(data: Sequence[Path], length: int) -> str:
    vocab = DataFolder(data[0]).vocab
    commands = (f"`nmt build-vocab --data {folder} --vocab {vocab} --max-pieces {length}`" for folder in data)
    return " and ".join(commands)


def why_empty(data: Path, split: str, vocab: Path) -> str:
    """Why no pair of a split was encoded, and what to do.

    Args:
        vocab: the vocabulary of the run.
    """
    index = read_index(data, vocab=vocab)
    found = index.splits[split]
    if found.too_long or found.empty:
        return (
            f"A side of {found.too_long:,} has more than {index.max_length} pieces, and a side of {found.empty:,} has "
            f"none. Allow more with `{build_command(data, vocab)[1:-1]} --max-pieces N`, or prepare other text."
        )
    return "Prepare the data with --valid." if split == "valid" else "See the counts of filters in its manifest.json."


def _opened_shards(data: Path, fingerprint: str, config: Config, first: Path) -> ParallelShards:
    """The training pairs; refused if made from other text or with another vocabulary than the first data set's."""
    vocab = DataFolder(first).vocab
    shards = ParallelShards.open(data, "train", vocab=vocab)
    if len(shards) == 0:
        raise DataError(f"{data}: no training pair is left. {why_empty(data, 'train', vocab)}")
    _check_text(data, vocab)
    if shards.vocab_fingerprint != config.data.vocab_fingerprint:
        raise DataError(f"{data}: was encoded with another vocabulary than {vocab}. Run {build_command(data, vocab)}.")
    if shards.data_fingerprint != fingerprint:
        raise DataError(f"{data}: its text has changed since it was encoded. Run {build_command(data, vocab)}.")
    return shards


def _check_text(data: Path, vocab: Path) -> None:
    """Refuse text that was changed after it was encoded. Only files whose size or time changed are read."""
    changed = changed_files(data, read_index(data, vocab=vocab).text)
    if not changed:
        return
    # If the two sides are no longer parallel, encoding them again would fail, so this is checked first.
    examine_text(data, read_manifest(data), ENCODED_SPLITS)
    raise DataError(
        f"{data}: {' and '.join(changed)} changed after the text was encoded. Run {build_command(data, vocab)}."
    )
