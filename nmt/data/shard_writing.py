"""Writing shards: encodes the text of a data set, leaves out pairs that are too long, and counts everything."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from nmt.data.data_folder import DataFolder
from nmt.data.encoded_text import TextFile, check_unchanged, examine_text
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
    SideStatistics,
    SplitStatistics,
)
from nmt.data.vocab import Vocabulary
from nmt.files import replacing_folder
from nmt.sentences import sentences
from nmt.text import NormalizationRule, normalizer, read_parallel, sentence_length
from nmt.writing import open_to_write, write_file

SENTENCES_COUNTED = 200_000
"""The maximum number of pairs per split, evenly spread, whose sentences are counted. A share of 0.1% then has a
relative error of about 7%, and counting takes some seconds for a corpus of any size."""
_CHUNK_PAIRS = 50_000
# Lines with more sentences are counted as lines with this many.
_MAX_SENTENCES = 20

Encode = Callable[[Sequence[str], Side, int], list[list[int]]]
"""Encodes the lines of one side of a chunk of pairs, given the side and the chunk's number."""


def write_shards(
    data: Path,
    vocab: Vocabulary,
    *,
    max_length: int = 256,
    threads: int | None = None,
    source_normalization: NormalizationRule = "identity",
    vocabulary: dict[str, Any] | None = None,
    text: Mapping[str, TextFile] | None = None,
    once_complete: Callable[[], object] = lambda: None,
) -> ShardIndex:
    """Encode train and valid; the shards are replaced only when the new ones are complete.

    Pairs with a side of more than ``max_length`` pieces are left out and counted. In valid, this affects only the
    loss: BLEU is measured on its text, which is never filtered.

    Args:
        source_normalization: the rule that is applied to source text first.
        vocabulary: the settings that the vocabulary was trained with, for the index.
        text: the state of the encoded files, if they have been read already.
        once_complete: called when the new shards are complete, just before they replace the earlier ones.

    Raises:
        DataError: a file of the data set cannot be read, or changed meanwhile, or the two sides are not parallel.
        OutputError: the place of the shards holds something else.
    """

    def encode(lines: Sequence[str], side: Side, chunk: int) -> list[list[int]]:
        return vocab.encode(lines, threads=threads)

    return write_encoded(
        data,
        DataFolder(data).shards,
        vocab,
        encode,
        ENCODED_SPLITS,
        max_length=max_length,
        source_normalization=source_normalization,
        vocabulary=vocabulary,
        counted=("train",),
        text=text or examine_text(data, read_manifest(data), ENCODED_SPLITS),
        once_complete=once_complete,
    )


def write_encoded(
    data: Path,
    folder: Path,
    vocab: Vocabulary,
    encode: Encode,
    splits: Sequence[str],
    *,
    max_length: int,
    counted: Sequence[str] = (),
    source_normalization: NormalizationRule = "identity",
    vocabulary: dict[str, Any] | None = None,
    extra_files: Mapping[str, bytes] | None = None,
    text: Mapping[str, TextFile] | None = None,
    once_complete: Callable[[], object] = lambda: None,
) -> ShardIndex:
    """Write shards of some splits of a data set into a folder, which gets its name only once it is complete.

    Args:
        encode: encodes lines as ids.
        max_length: pairs with a side of more pieces are left out and counted.
        counted: the splits in which sentences per line are counted.
        source_normalization: the rule that is applied to source text before ``encode``.
        vocabulary: the settings that the vocabulary was trained with, for the index.
        extra_files: further files for the folder: content by name.
        text: the state of the encoded files, for the index.
        once_complete: called when the new shards are complete, just before they replace the earlier ones.

    Raises:
        DataError: a file of the data set cannot be read.
        OutputError: the place of the shards holds something else.
    """
    manifest = read_manifest(data)
    dtype: Literal["uint16", "uint32"] = "uint16" if vocab.size <= 1 << 16 else "uint32"
    with replacing_folder(folder, SHARDS) as temporary:
        written = {
            split: _write_split(
                data,
                manifest,
                split,
                source_normalization,
                encode,
                vocab,
                temporary,
                np.dtype(dtype),
                max_length,
                counts=split in counted,
            )
            for split in splits
        }
        for name, content in (extra_files or {}).items():
            write_file(temporary / name, content)
        index = ShardIndex(
            VERSION,
            vocab.fingerprint,
            manifest.fingerprint,
            max_length,
            dtype,
            written,
            source_normalization,
            vocabulary,
            vocab.size,
            checksums(temporary),
            dict(text) if text is not None else None,
        )
        check_unchanged(data, text or {})
        write_file(temporary / INDEX_NAME, (json.dumps(asdict(index), indent=2, ensure_ascii=False) + "\n").encode())
        once_complete()
    return index


def _write_split(
    data: Path,
    manifest: Manifest,
    split: str,
    source_normalization: NormalizationRule,
    encode: Encode,
    vocab: Vocabulary,
    folder: Path,
    dtype: np.dtype[Any],
    max_length: int,
    *,
    counts: bool,
) -> SplitStatistics:
    languages: dict[Side, str] = {"source": manifest.source_lang, "target": manifest.target_lang}
    names = {side: DataFolder(data).text(split, language) for side, language in languages.items()}
    # The recipe's normalisation was applied to train when it was prepared. Valid is never changed, so it is applied
    # here, as in translation. The source rule is applied to both.
    normalize = normalizer(
        nfc=manifest.nfc and split != "train",
        punctuation=manifest.punctuation and split != "train",
        language=manifest.source_lang,
        rule=source_normalization,
    )
    is_byte = np.zeros(vocab.size, bool)
    is_byte[list(vocab.byte_ids)] = True
    statistics = SplitStatistics()
    # Count in every ``step``-th pair: all pairs would take long, and the first ones may not be typical.
    step = -(-manifest.files[f"{split}.{manifest.source_lang}"].lines // SENTENCES_COUNTED) if counts else 0
    sentence_counts: dict[Side, Counter[int]] = {side: Counter() for side in SIDES}
    writers = {side: _SideWriter(folder, split, side, dtype) for side in SIDES}
    try:
        for chunk, pairs in enumerate(_chunks(read_parallel(names["source"], names["target"]))):
            texts: dict[Side, list[str]] = {
                "source": [normalize(pair[0]) for pair in pairs],
                "target": [pair[1] for pair in pairs],
            }
            encoded = {side: encode(texts[side], side, chunk) for side in SIDES}
            for side in SIDES:
                _count(statistics.sides[side], texts[side], encoded[side], languages[side], is_byte)
            for number, (source, target) in enumerate(zip(encoded["source"], encoded["target"], strict=True)):
                if max(len(source), len(target)) > max_length:
                    statistics.too_long += 1
                elif split == "train" and not (source and target):
                    statistics.empty += 1
                else:
                    statistics.pairs += 1
                    writers["source"].add(source)
                    writers["target"].add(target)
                    if step and (chunk * _CHUNK_PAIRS + number) % step == 0:
                        for side in SIDES:
                            sentence_counts[side][len(sentences(texts[side][number], languages[side]))] += 1
    finally:
        for writer in writers.values():
            writer.close()
    if counts:
        for side in SIDES:
            statistics.sides[side].sentences = _by_number(sentence_counts[side])
    return statistics


def _by_number(counts: Counter[int]) -> list[int]:
    """Numbers of lines with 1, 2, 3 ... sentences; the last counts lines with ``_MAX_SENTENCES`` or more."""
    numbers = [0] * min(max(counts, default=0), _MAX_SENTENCES)
    for number, count in counts.items():
        numbers[min(number, _MAX_SENTENCES) - 1] += count
    return numbers


def _chunks(pairs: Iterator[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    while chunk := list(itertools.islice(pairs, _CHUNK_PAIRS)):
        yield chunk


def _count(
    statistics: SideStatistics,
    texts: list[str],
    encoded: list[list[int]],
    language: str,
    is_byte: NDArray[np.bool_],
) -> None:
    ids = np.fromiter(itertools.chain.from_iterable(encoded), np.int32)
    statistics.words += sum(sentence_length(text, language) for text in texts)
    statistics.pieces += len(ids)
    statistics.unknown += int((ids == Vocabulary.UNK).sum())
    statistics.byte_pieces += int(is_byte[ids].sum())
    statistics.longest = max(statistics.longest, max(map(len, encoded), default=0))


class _SideWriter:
    """Appends sentences to one side's two files."""

    def __init__(self, folder: Path, split: str, side: Side, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        tokens, offsets = file_names(split, side)
        self._tokens: IO[bytes] = open_to_write(folder / tokens, "xb", follow=False)
        self._offsets: IO[bytes] = open_to_write(folder / offsets, "xb", follow=False)
        self._end = 0
        self._offsets.write(np.int64(0).tobytes())

    def add(self, ids: list[int]) -> None:
        self._tokens.write(np.array(ids, dtype=self._dtype).tobytes())
        self._end += len(ids)
        self._offsets.write(np.int64(self._end).tobytes())

    def close(self) -> None:
        self._tokens.close()
        self._offsets.close()
