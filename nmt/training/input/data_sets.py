"""The data of a run: one data set or a mixture, encoded once or with subwords sampled anew each epoch."""

from __future__ import annotations

import math
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nmt.checkpoint.run_folder import RunFolder
from nmt.config import Config
from nmt.data.arrays import Indices
from nmt.data.data_folder import DataFolder
from nmt.data.encoded_text import changed_files, examine_text
from nmt.data.line_statistics import line_statistics
from nmt.data.manifest import read_manifest
from nmt.data.mixing import MixedShards, check_weights, epoch_population, mixture
from nmt.data.sampling import SampledEpochs
from nmt.data.shard_index import ENCODED_SPLITS, Sampling, ShardIndex, build_command
from nmt.data.shards import ParallelShards
from nmt.data.training_lines import sample_sizes
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
class DataSets:
    """Encoded data sets, opened once: the settings of a run follow from them, and it trains on them."""

    folders: tuple[Path, ...]
    weights: tuple[float, ...]
    vocab: VocabularyPair
    """Of the first."""
    parts: tuple[ParallelShards, ...]
    """The training pairs of each."""

    @staticmethod
    def open(data: Iterable[tuple[Path, float]]) -> DataSets:
        """Open data sets with their weights.

        Raises:
            DataError: the first has no vocabulary yet; or one has no shards, or they are damaged.
        """
        folders, weights = zip(*data, strict=True)
        vocab, path = load_vocabulary(folders[0]), DataFolder(folders[0]).vocab
        parts = tuple(ParallelShards.open(folder, "train", vocab=path) for folder in folders)
        return DataSets(folders, weights, vocab, parts)

    def balanced(self, temperature: float) -> DataSets:
        """The data sets with weights by which a direction's share is proportional to (its share of the pairs)^(1/T).

        As many pairs come per epoch as there are (Arivazhagan et al. 2019, arXiv 1907.05019).
        """
        manifests = map(read_manifest, self.folders)
        directions = [f"{each.source_lang}-{each.target_lang}" for each in manifests]
        pairs: Counter[str] = Counter()
        for direction, part in zip(directions, self.parts, strict=True):
            pairs[direction] += len(part)
        wanted = sample_sizes(pairs, temperature, pairs.total())
        weights = tuple(wanted[direction] / pairs[direction] for direction in directions)
        return replace(self, weights=weights)

    def settings(self) -> dict[str, Any]:
        """The section ``data`` of the settings.

        Raises:
            DataError: a folder is not a prepared data set.
        """
        first, *others = map(read_manifest, self.folders)
        lines = line_statistics(self.parts)
        # Letters are composed as they are in most training lines.
        steps = self.parts[0].index.steps.after(first.source_text)
        steps = steps.composed(
            source=lines is None or lines.source.are_composed, target=lines is None or lines.target.are_composed
        )
        return {
            "name": first.name,
            "source_lang": first.source_lang,
            "target_lang": first.target_lang,
            "tag": first.tag,
            "fingerprint": first.fingerprint,
            "vocab_fingerprint": self.vocab.fingerprint,
            "vocab_size": self.vocab.source.size,
            "target_vocab_size": self.vocab.target_size,
            "source_text": steps.source,
            "target_text": steps.target,
            "weight": self.weights[0],
            "mixed_with": [
                {
                    "name": other.name,
                    "fingerprint": other.fingerprint,
                    "weight": weight,
                    "source_lang": other.source_lang,
                    "target_lang": other.target_lang,
                    "tag": other.tag,
                }
                for other, weight in zip(others, self.weights[1:], strict=True)
            ],
            "lines": lines,
        }


@dataclass(frozen=True)
class TrainingData:
    """The training data of a run, with the run's settings."""

    config: Config
    sets: DataSets
    shards: Shards
    """The training pairs of all."""
    longest: int
    """The length of the longest sentence, in pieces with eos."""

    @staticmethod
    def open(data: Sequence[Path], config: Config) -> TrainingData:
        """Open the data sets of a run, in the order of its settings; errors as of :meth:`of`."""
        parts = config.data.parts
        if len(data) != len(parts):
            raise DataError(f"data sets named: {len(data)}; the run has {len(parts)}. Name each, in the run's order.")
        return TrainingData.of(DataSets.open(zip(data, (part.weight for part in parts), strict=True)), config)

    @staticmethod
    def of(data: DataSets, config: Config) -> TrainingData:
        """Check opened data sets against their text, the vocabulary and the model's positions.

        Raises:
            DataError: shards are empty, or were made from other text or with another vocabulary.
            ConfigError: a sentence is longer than the model's positions, a stage has no weight for a data set, or
                weights are too small.
        """
        for folder, opened, part in zip(data.folders, data.parts, config.data.parts, strict=True):
            _check_shards(folder, opened, part.fingerprint, config, DataFolder(data.folders[0]).vocab)
        sizes = [len(part) for part in data.parts]
        check_weights(sizes, data.weights, "--data")
        for stage in config.training.stages:
            name = f"training.stages: the stage after {stage.after:,} updates"
            if len(stage.weights) != len(data.folders):
                raise ConfigError(
                    f"{name} needs a weight for each data set, in their order. Data sets: {len(data.folders)}; "
                    f"weights: {len(stage.weights)}. To train without stages, add --set training.stages=[]."
                )
            check_weights(sizes, stage.weights, name)
        shards = mixture(data.folders, data.parts)
        longest = int(max(np.max(shards.source_lengths), np.max(shards.target_lengths))) + 1
        if config.encodes_epochs:
            longest = max(part.index.max_pieces for part in data.parts) + 1
        if longest > config.model.max_positions:
            raise ConfigError(
                f"model.max_positions is {config.model.max_positions}, but the data holds sentences of {longest} "
                f"pieces. Raise it, or encode the data again without longer ones: "
                f"{_shorten_commands(data.folders, config.model.max_positions - 1)}."
            )
        vocab = data.vocab.prepared(config.data.steps, config.data.languages)
        return TrainingData(config, replace(data, vocab=vocab), shards, longest)

    def max_positions(self) -> int:
        """The approximate maximum of padded positions, source or target, in an update."""
        ratio = self._pieces(self.shards.source_lengths) / self._pieces(self.shards.target_lengths)
        return math.ceil(1.5 * max(self.config.batching.update_tokens * max(1.0, ratio), self.longest))

    def micro_batching(self, model: Transformer, device: torch.device, ranks: Ranks) -> Callable[[int], MicroBatching]:
        """How updates are divided into micro-batches of a maximum of tokens, for the model's attention."""
        return self._encoded_epochs.micro_batching(model, device, ranks, self.longest)

    @property
    def _encoded_epochs(self) -> Epochs:
        return self._epochs(lambda epoch: self.shards)

    def _epochs(self, open_shards: Callable[[int], Shards]) -> Epochs:
        def open_epoch(epoch: int, start: int) -> tuple[Shards, Indices | None]:
            shards = open_shards(epoch)
            return shards, self._population(shards, epoch, start)

        training = self.config.training
        return Epochs(open_epoch, self.config.batching, training.seed, tuple(stage.after for stage in training.stages))

    def epoch_size(self) -> tuple[int, int]:
        """Estimate the numbers of pairs and updates of the first epoch. Small corpora may have fewer updates."""
        pairs, lengths = self._population(self.shards, 0, 0), self.shards.target_lengths
        count = len(lengths) if pairs is None else len(pairs)
        tokens = self._pieces(lengths if pairs is None else lengths[pairs])
        return count, min(count, max(1, round(tokens / self.config.batching.update_tokens)))

    @staticmethod
    def _pieces(lengths: NDArray[np.int32]) -> int:
        """The total number of pieces, with eos."""
        return int(lengths.sum(dtype=np.int64)) + len(lengths)

    @contextmanager
    def epochs(self, run: Path, ranks: Ranks) -> Iterator[Epochs]:
        """The epochs of the run. If they are encoded anew, another process does it while the body runs."""
        training = self.config.training
        if not self.config.encodes_epochs:
            yield self._encoded_epochs
            return
        with ExitStack() as stack:
            # One rank per machine writes into that machine's own folder, because machines may or may not share disks.
            sampled = [
                stack.enter_context(
                    SampledEpochs(
                        folder,
                        RunFolder(run).sampled / socket.gethostname() / f"{number}-{folder.name}",
                        self.sets.vocab,
                        Sampling(training.subword_sampling, self.config.augmentation, training.seed),
                        writer=ranks.local_rank == 0,
                        keep=_UPDATES_APART if ranks.local_size > 1 else 0,
                        timeout_seconds=EXCHANGE_TIMEOUT.total_seconds(),
                    )
                )
                for number, folder in enumerate(self.sets.folders, start=1)
            ]

            def open_sampled(epoch: int) -> Shards:
                opened = [part.open(epoch) for part in sampled]
                return opened[0] if isinstance(self.shards, ParallelShards) else MixedShards(opened)

            yield self._epochs(open_sampled)

    def _population(self, shards: Shards, epoch: int, start: int) -> Indices | None:
        """The pairs of an epoch that begins after ``start`` updates."""
        training, weights = self.config.training, self.sets.weights
        for stage in training.stages:
            weights = stage.weights if stage.after <= start else weights
        return epoch_population(shards.sizes, weights, training.seed, epoch)


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


def why_empty(index: ShardIndex, data: Path, split: str, vocab: Path) -> str:
    """Why no pair of a split was encoded, and what to do.

    Args:
        vocab: the vocabulary of the run.
    """
    found = index.splits[split]
    if found.too_long or found.empty:
        return (
            f"A side of {found.too_long:,} has more than {index.max_pieces} pieces, and a side of {found.empty:,} has "
            f"none. Allow more with `{build_command(data, vocab)[1:-1]} --max-pieces N`, or prepare other text."
        )
    return "Prepare the data with --valid." if split == "valid" else "See the counts of filters in its manifest.json."


def _check_shards(data: Path, shards: ParallelShards, fingerprint: str, config: Config, vocab: Path) -> None:
    """Refuse training pairs that were made from other text or with another vocabulary than the first data set's."""
    index = shards.index
    if len(shards) == 0:
        raise DataError(f"{data}: no training pair is left. {why_empty(index, data, 'train', vocab)}")
    if config.guides_alignment and not index.is_aligned:
        raise DataError(
            f"{data}: its pairs are not aligned, which model.alignment_layer needs. Run "
            f"{build_command(data, vocab)[:-1]} --align`, or set training.guided_alignment=0."
        )
    # Only files whose size or time changed are read.
    if changed := changed_files(data, index.text):
        # If the two sides are no longer parallel, encoding them again would fail, so this is checked first.
        examine_text(data, read_manifest(data), ENCODED_SPLITS)
        raise DataError(
            f"{data}: {' and '.join(changed)} changed after the text was encoded. Run {build_command(data, vocab)}."
        )
    if index.vocab_fingerprint != config.data.vocab_fingerprint:
        # Not as a command: data sets that were trained on keep their vocabulary.
        shared = f", or for a vocabulary of both with `--data {vocab.parent}` in place of `--vocab`"
        raise DataError(
            f"{data}: was encoded with another vocabulary than {vocab}. Run {build_command(data, vocab)}"
            f"{shared if data != vocab.parent else ''}."
        )
    if index.data_fingerprint != fingerprint:
        raise DataError(f"{data}: its text has changed since it was encoded. Run {build_command(data, vocab)}.")
