"""Writing shards: encodes the text of a data set, leaves out pairs that are too long, and counts everything."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.config import AugmentationConfig
from nmt.data.aligning import align
from nmt.data.arrays import Rows
from nmt.data.augmentation import augmented
from nmt.data.data_folder import DataFolder
from nmt.data.encoded_text import TextFile, check_unchanged
from nmt.data.encoding import Chunk, ChunkEncoder, EncodedChunk, chunks_of, map_ahead
from nmt.data.manifest import Manifest, read_manifest
from nmt.data.shard_checks import file_names
from nmt.data.shard_index import (
    ALIGNMENTS,
    ENCODED_SPLITS,
    INDEX_NAME,
    SIDES,
    VERSION,
    Sampling,
    ShardIndex,
    ShardInputs,
    Side,
    SplitStatistics,
    index_text,
    token_dtype,
)
from nmt.data.shards import ParallelShards
from nmt.data.vocab import Vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.io.files import LockedFolder, replacing_locked
from nmt.io.hashing import sha256_of
from nmt.io.writing import open_to_write, write_file
from nmt.text.lines import read_parallel
from nmt.text.steps import NO_STEPS, TextSteps, normalizer

SENTENCES_COUNTED = 200_000
"""The maximum number of pairs of train, evenly spread, whose sentences are counted. A share of 0.1% then has a
relative error of about 7%, and counting takes some seconds for a corpus of any size."""
# So few keep many threads busy, and little text in memory.
_CHUNK_PAIRS = 2_000
# Sampled segmentations depend on it.
_SAMPLED_CHUNK_PAIRS = 50_000
# The last numbers of seeds. They are not 0, so that no seed is equal to a shorter one: NumPy pads seeds with 0.
_OF_SEGMENTATION, _OF_AUGMENTATION = 1, 2


@dataclass(frozen=True)
class Encoding:
    """How the text of data sets is encoded: train and valid, or train alone at random."""

    vocab: VocabularyPair
    max_pieces: int = 256
    """Pairs with a side of more pieces are left out and counted. In valid, this affects only the loss: BLEU is measured
    on its text, which is never filtered."""
    steps: TextSteps = NO_STEPS
    """What text goes through before the vocabulary segments it, beside what a recipe does to it."""
    threads: int = 1
    """They encode, each another chunk; the caller's thread reads and writes meanwhile."""
    sampling: Sampling | None = None
    """None: the text is encoded as it is."""
    aligns: bool = False
    """Whether the training pairs are aligned."""
    notify: Callable[[str], object] = field(default=lambda message: None, compare=False)
    """Is told what was aligned."""

    def inputs(self, manifest: Manifest, text: Mapping[str, TextFile]) -> ShardInputs:
        """The inputs of a data set's shards."""
        return ShardInputs(
            VERSION,
            self.vocab.fingerprint,
            manifest.fingerprint,
            manifest.source_lang,
            manifest.target_lang,
            manifest.source_text,
            self.max_pieces,
            self.aligns,
            self.steps,
            dict(text),
            self.sampling,
            tag=manifest.tag,
        )

    def write(self, data: Path, text: Mapping[str, TextFile], folder: Path) -> ShardIndex:
        """Encode a data set, and write all files of its shards into a folder.

        Args:
            text: the state of the encoded files, for the index.

        Raises:
            DataError: a file of the data set cannot be read, or the two sides of a split are not parallel.
        """
        manifest = read_manifest(data)
        splits = ENCODED_SPLITS if self.sampling is None else ("train",)
        statistics = {split: self._write_split(data, manifest, split, folder) for split in splits}
        index = ShardIndex(
            **vars(self.inputs(manifest, text)),
            dtype=token_dtype(self.vocab.larger_size),
            vocab_size=self.vocab.larger_size,
            splits=statistics,
            checksums={},
        )
        if self.aligns:
            self._align(folder, replace(index, is_aligned=False), data)
        index = replace(index, checksums={path.name: sha256_of(path) for path in sorted(folder.iterdir())})
        write_file(folder / INDEX_NAME, index_text(index).encode())
        return index

    def _align(self, folder: Path, index: ShardIndex, data: Path) -> None:
        pairs, began = ParallelShards.of(folder, index, "train"), time.monotonic()
        found = align(pairs, threads=self.threads)
        write_file(folder / ALIGNMENTS, found.tobytes())
        share = np.count_nonzero(found) / max(len(found), 1)
        self.notify(
            f"{data}: aligned {len(pairs):,} training pairs in {time.monotonic() - began:,.0f} s; {share:.1%} of the "
            f"target pieces come from a source piece"
        )

    def _write_split(self, data: Path, manifest: Manifest, split: str, folder: Path) -> SplitStatistics:
        languages: dict[Side, str] = {"source": manifest.source_lang, "target": manifest.target_lang}
        vocab = self.vocab.prepared(self.steps, manifest.choices)
        paths = {side: DataFolder(data).text(split, languages[side]) for side in SIDES}
        is_counted = split == "train" and self.sampling is None
        # Sentences of all pairs would take long to count, and the first pairs may not be typical.
        step = max(1, -(-manifest.files[paths["source"].name].lines // SENTENCES_COUNTED)) if is_counted else 0
        encoder = ChunkEncoder(
            partial(self._encode, vocab),
            _normalizers(manifest, split, self.steps),
            languages,
            {side: _are_bytes(self.vocab.of(side)) for side in SIDES},
            self.max_pieces,
            affixes={side: vocab.of(side).affix_count for side in SIDES},
            keeps_empty=split != "train",
            counted_step=step,
        )
        total = SplitStatistics()
        if is_counted:
            for side in SIDES:
                total.sides[side].sentences = []
        dtype = np.dtype(token_dtype(self.vocab.larger_size))

        def encode(chunk: Chunk) -> EncodedChunk:
            return encoder(self._augmented(chunk, (languages["source"], languages["target"])))

        chunks = chunks_of(
            read_parallel(paths["source"], paths["target"]),
            _CHUNK_PAIRS if self.sampling is None else _SAMPLED_CHUNK_PAIRS,
        )
        with ExitStack() as stack:
            writers = {side: _SideWriter(folder, split, side, dtype, stack) for side in SIDES}
            for encoded in map_ahead(encode, chunks, self.threads):
                for side in SIDES:
                    writers[side].add(encoded.rows[side])
                total.add(encoded.statistics)
        return total

    def _augmented(self, chunk: Chunk, languages: tuple[str, str]) -> Chunk:
        sampling = self.sampling
        if sampling is None or sampling.augmentation == AugmentationConfig():
            return chunk
        draw = np.random.default_rng([sampling.seed, sampling.epoch, chunk.number, _OF_AUGMENTATION])
        return replace(chunk, pairs=augmented(chunk.pairs, sampling.augmentation, languages, draw))

    def _encode(self, pair: VocabularyPair, lines: Sequence[str], side: Side, chunk: int) -> Rows:
        vocab, sampling = pair.of(side), self.sampling
        if sampling is None:
            return vocab.encode_rows(lines)
        seeds = [sampling.seed, sampling.epoch, SIDES.index(side), chunk, _OF_SEGMENTATION]
        return Rows.of(vocab.encode_sampled(lines, dropout=sampling.dropout, seed=seeds))


@contextmanager
def replacing_shards(
    data: Mapping[Path, Mapping[str, TextFile]], encoding: Encoding, locked: Sequence[LockedFolder]
) -> Iterator[list[ShardIndex]]:
    """Encode train and valid of data sets. Their shards are replaced together, at the end of the body.

    Args:
        data: the state of the encoded files of each data set.
        locked: the folders of their shards.

    Raises:
        DataError: a file of a data set cannot be read, or changed meanwhile, or the two sides are not parallel.
        OutputError: the place of the shards holds something else.
    """
    with replacing_locked(locked) as temporaries:
        indices = [
            encoding.write(folder, text, temporary)
            for (folder, text), temporary in zip(data.items(), temporaries, strict=True)
        ]
        for folder, text in data.items():
            check_unchanged(folder, text)
        yield indices


def _normalizers(manifest: Manifest, split: str, steps: TextSteps) -> dict[Side, Callable[[str], str]]:
    """What is applied to the lines of a split.

    The recipe's steps were applied to train when it was prepared. The source of valid is never changed, so they are
    applied here, as in translation. The vocabulary's steps are applied to both splits.
    """
    source = steps if split == "train" else steps.after(manifest.source_text)
    return {"source": normalizer(source.source), "target": normalizer(steps.target)}


def _are_bytes(vocab: Vocabulary) -> NDArray[np.bool_]:
    """Whether each piece of a vocabulary is a single byte."""
    are_bytes = np.zeros(vocab.size, bool)
    are_bytes[list(vocab.byte_ids)] = True
    return are_bytes


class _SideWriter:
    """Appends sentences to one side's two files."""

    def __init__(self, folder: Path, split: str, side: Side, dtype: np.dtype[Any], stack: ExitStack) -> None:
        self._dtype = dtype
        self._tokens, self._offsets = (
            stack.enter_context(open_to_write(folder / name, "xb", follow=False)) for name in file_names(split, side)
        )
        self._end = 0
        self._offsets.write(np.int64(0).tobytes())

    def add(self, rows: Rows) -> None:
        self._tokens.write(rows.values.astype(self._dtype).tobytes())
        self._offsets.write((self._end + np.cumsum(rows.lengths)).tobytes())
        self._end += len(rows.values)
