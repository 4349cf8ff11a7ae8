"""Writing shards: encodes the text of a data set, leaves out pairs that are too long, and counts everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from nmt.data.arrays import Rows
from nmt.data.data_folder import DataFolder
from nmt.data.encoded_text import TextFile, check_unchanged
from nmt.data.encoding import ChunkEncoder, Encode, EncodedChunk, chunks_of, map_ahead
from nmt.data.manifest import Manifest, read_manifest
from nmt.data.shard_checks import checksums, file_names
from nmt.data.shards import (
    ENCODED_SPLITS,
    INDEX_NAME,
    SHARDS,
    SIDES,
    VERSION,
    ShardIndex,
    Side,
    SplitStatistics,
    index_text,
    token_dtype,
)
from nmt.data.vocab import Vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.files import replacing_folder, replacing_folders
from nmt.text import NormalizationRule, normalizer, read_parallel
from nmt.writing import open_to_write, write_file

SENTENCES_COUNTED = 200_000
"""The maximum number of pairs per split, evenly spread, whose sentences are counted. A share of 0.1% then has a
relative error of about 7%, and counting takes some seconds for a corpus of any size."""
# Sampled segmentations depend on it.
_CHUNK_PAIRS = 50_000
# So few keep many threads busy, and little text in memory.
_SMALL_CHUNK_PAIRS = 2_000
# Lines with more sentences are counted as lines with this many.
_MAX_SENTENCES = 20


def write_shards_together(
    data: Mapping[Path, Mapping[str, TextFile]],
    vocab: VocabularyPair,
    *,
    max_length: int,
    threads: int | None,
    source_normalization: NormalizationRule,
    vocabulary: dict[str, Any] | None,
    vocabulary_origin: dict[str, Any] | None = None,
    once_complete: Callable[[], object],
) -> list[ShardIndex]:
    """Encode train and valid of data sets. Their shards are replaced together, when all new ones are complete.

    Pairs with a side of more than ``max_length`` pieces are left out and counted. In valid, this affects only the
    loss: BLEU is measured on its text, which is never filtered.

    Args:
        data: the state of the encoded files of each data set.
        threads: the vocabulary's number if None.
        source_normalization: the rule that is applied to source text first.
        vocabulary: the settings that the vocabulary was trained with, for the index.
        vocabulary_origin: where a given vocabulary comes from, for the index.
        once_complete: called when the new shards are complete, just before they replace the earlier ones.

    Raises:
        DataError: a file of a data set cannot be read, or changed meanwhile, or the two sides are not parallel.
        OutputError: the place of the shards holds something else.
    """

    def encode(lines: Sequence[str], side: Side, chunk: int) -> Rows:
        return vocab.of(side).encode_rows(lines)

    with replacing_folders([DataFolder(folder).shards for folder in data], SHARDS) as temporaries:
        indices = [
            _encode_into(
                temporary,
                folder,
                vocab,
                encode,
                ENCODED_SPLITS,
                max_length=max_length,
                source_normalization=source_normalization,
                vocabulary=vocabulary,
                vocabulary_origin=vocabulary_origin,
                counted=("train",),
                text=text,
                threads=threads or vocab.source.threads,
                chunk_pairs=_SMALL_CHUNK_PAIRS,
            )
            for temporary, (folder, text) in zip(temporaries, data.items(), strict=True)
        ]
        for folder, text in data.items():
            check_unchanged(folder, text)
        once_complete()
    return indices


def write_encoded(
    data: Path,
    folder: Path,
    vocab: VocabularyPair,
    encode: Encode,
    splits: Sequence[str],
    *,
    max_length: int,
    source_normalization: NormalizationRule,
    extra_files: Mapping[str, bytes],
) -> ShardIndex:
    """Write shards of some splits of a data set into a folder, which gets its name only once it is complete.

    Args:
        encode: encodes lines as ids, chunk by chunk in order.
        max_length: pairs with a side of more pieces are left out and counted.
        source_normalization: the rule that is applied to source text before ``encode``.
        extra_files: further files for the folder: content by name.

    Raises:
        DataError: a file of the data set cannot be read.
        OutputError: the place of the shards holds something else.
    """
    with replacing_folder(folder, SHARDS) as temporary:
        return _encode_into(
            temporary,
            data,
            vocab,
            encode,
            splits,
            max_length=max_length,
            source_normalization=source_normalization,
            extra_files=extra_files,
        )


def _encode_into(
    folder: Path,
    data: Path,
    vocab: VocabularyPair,
    encode: Encode,
    splits: Sequence[str],
    *,
    max_length: int,
    source_normalization: NormalizationRule,
    vocabulary: dict[str, Any] | None = None,
    vocabulary_origin: dict[str, Any] | None = None,
    counted: Sequence[str] = (),
    extra_files: Mapping[str, bytes] | None = None,
    text: Mapping[str, TextFile] | None = None,
    threads: int = 1,
    chunk_pairs: int = _CHUNK_PAIRS,
) -> ShardIndex:
    """Write all files of shards into a folder.

    Args:
        counted: the splits in which sentences per line are counted.
        text: the state of the encoded files, for the index.
        threads: that call ``encode``, each with another chunk; this thread reads and writes meanwhile.
        chunk_pairs: pairs per chunk.
    """
    manifest = read_manifest(data)
    dtype = token_dtype(vocab.larger_size)
    is_byte: dict[Side, NDArray[np.bool_]] = {side: _are_bytes(vocab.of(side)) for side in SIDES}
    written = {}
    for split in splits:
        encoder = ChunkEncoder(
            encode,
            _normalizer(manifest, split, source_normalization),
            {"source": manifest.source_lang, "target": manifest.target_lang},
            is_byte,
            max_length,
            keeps_empty=split != "train",
            counted_step=_counted_step(manifest, split) if split in counted else 0,
        )
        written[split] = _write_split(data, manifest, split, encoder, folder, np.dtype(dtype), threads, chunk_pairs)
    for name, content in (extra_files or {}).items():
        write_file(folder / name, content)
    index = ShardIndex(
        VERSION,
        vocab.fingerprint,
        manifest.fingerprint,
        max_length,
        dtype,
        written,
        source_normalization,
        vocabulary,
        vocab.larger_size,
        checksums(folder),
        dict(text) if text is not None else None,
        vocabulary_origin,
    )
    check_unchanged(data, text or {})
    write_file(folder / INDEX_NAME, index_text(index).encode())
    return index


def _normalizer(manifest: Manifest, split: str, rule: NormalizationRule) -> Callable[[str], str]:
    """What is applied to the source lines of a split.

    The recipe's normalisation was applied to train when it was prepared. Valid is never changed, so it is applied here,
    as in translation. The source rule is applied to both.
    """
    return normalizer(
        nfc=manifest.nfc and split != "train",
        punctuation=manifest.punctuation and split != "train",
        language=manifest.source_lang,
        rule=rule,
    )


def _counted_step(manifest: Manifest, split: str) -> int:
    """Sentences are counted in every such pair: all pairs would take long, and the first ones may not be typical."""
    return max(1, -(-manifest.files[f"{split}.{manifest.source_lang}"].lines // SENTENCES_COUNTED))


def _write_split(
    data: Path,
    manifest: Manifest,
    split: str,
    encoder: ChunkEncoder,
    folder: Path,
    dtype: np.dtype[Any],
    threads: int,
    chunk_pairs: int,
) -> SplitStatistics:
    source, target = (DataFolder(data).text(split, code) for code in (manifest.source_lang, manifest.target_lang))
    statistics = SplitStatistics()
    sentence_counts: dict[Side, Counter[int]] = {side: Counter() for side in SIDES}
    writers = {side: _SideWriter(folder, split, side, dtype) for side in SIDES}
    try:
        for encoded in map_ahead(encoder, chunks_of(read_parallel(source, target), chunk_pairs), threads):
            for side in SIDES:
                writers[side].add(encoded.rows[side])
                sentence_counts[side].update(encoded.sentences.get(side, {}))
            _add(statistics, encoded)
    finally:
        for writer in writers.values():
            writer.close()
    if encoder.counted_step:
        for side in SIDES:
            statistics.sides[side].sentences = _by_number(sentence_counts[side])
    return statistics


def _are_bytes(vocab: Vocabulary) -> NDArray[np.bool_]:
    """Whether each piece of a vocabulary is a single byte."""
    are_bytes = np.zeros(vocab.size, bool)
    are_bytes[list(vocab.byte_ids)] = True
    return are_bytes


def _add(statistics: SplitStatistics, encoded: EncodedChunk) -> None:
    statistics.pairs += encoded.pairs
    statistics.too_long += encoded.too_long
    statistics.empty += encoded.empty
    for side, counts in encoded.counts.items():
        total = statistics.sides[side]
        total.words += counts.words
        total.pieces += counts.pieces
        total.unknown += counts.unknown
        total.byte_pieces += counts.byte_pieces
        total.longest = max(total.longest, counts.longest)


def _by_number(counts: Counter[int]) -> list[int]:
    """Numbers of lines with 1, 2, 3 ... sentences; the last counts lines with ``_MAX_SENTENCES`` or more."""
    numbers = [0] * min(max(counts, default=0), _MAX_SENTENCES)
    for number, count in counts.items():
        numbers[min(number, _MAX_SENTENCES) - 1] += count
    return numbers


class _SideWriter:
    """Appends sentences to one side's two files."""

    def __init__(self, folder: Path, split: str, side: Side, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        tokens, offsets = file_names(split, side)
        self._tokens: IO[bytes] = open_to_write(folder / tokens, "xb", follow=False)
        self._offsets: IO[bytes] = open_to_write(folder / offsets, "xb", follow=False)
        self._end = 0
        self._offsets.write(np.int64(0).tobytes())

    def add(self, rows: Rows) -> None:
        self._tokens.write(rows.values.astype(self._dtype).tobytes())
        self._offsets.write((self._end + np.cumsum(rows.lengths)).tobytes())
        self._end += len(rows.values)

    def close(self) -> None:
        self._tokens.close()
        self._offsets.close()
