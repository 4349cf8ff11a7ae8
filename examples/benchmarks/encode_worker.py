"""A process that encodes: NAME FOLDER THREADS."""

from __future__ import annotations

import itertools
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from turns import serve

from nmt.data.build import build_vocabulary
from nmt.data.data_folder import DataFolder
from nmt.data.manifest import read_manifest
from nmt.data.shard_index import SIDES, token_dtype
from nmt.io.writing import open_to_write

DATA, MODEL = "data", "given.model"
"""Names in the folder."""
_LINES_AT_ONCE = 50_000


def main() -> None:
    """Serve the contestant that the command line names."""
    name, folder, threads = sys.argv[1:]
    makers = {"nmt": _nmt, "sentencepiece": _in_memory, "sentencepiece with files": _with_files}

    def set_up() -> tuple[Mapping[str, Any], Callable[[str], Mapping[str, Any]]]:
        encode = makers[name](Path(folder), int(threads))
        return {"version": sentencepiece.__version__}, lambda task: _measured(encode)

    serve(set_up)


def _measured(encode: Callable[[], Callable[[], int]]) -> dict[str, float]:
    seconds, cpu_seconds = time.perf_counter(), time.process_time()
    count = encode()
    seconds, cpu_seconds = time.perf_counter() - seconds, time.process_time() - cpu_seconds
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "tokens": count()}


def _nmt(folder: Path, threads: int) -> Callable[[], Callable[[], int]]:
    """All that ``nmt build-vocab --vocab`` does, in a data set that was not encoded before."""
    data = DataFolder(folder / DATA)

    def encode() -> Callable[[], int]:
        [built] = build_vocabulary([data.path], existing=folder / MODEL, threads=threads)

        def count() -> int:
            shutil.rmtree(data.shards)
            return sum(built.index.splits["train"].sides[side].pieces for side in SIDES)

        return count

    return encode


def _in_memory(folder: Path, threads: int) -> Callable[[], Callable[[], int]]:
    """SentencePiece alone, on lines in memory."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / MODEL))
    sides = [path.read_text("utf-8").removesuffix("\n").split("\n") for path in _train_files(folder)]

    def encode() -> Callable[[], int]:
        encoded = [processor.encode(lines, num_threads=threads) for lines in sides]
        return lambda: sum(len(ids) for side in encoded for ids in side)

    return encode


def _with_files(folder: Path, threads: int) -> Callable[[], Callable[[], int]]:
    """SentencePiece in a plain loop that reads lines and writes ids."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / MODEL))
    dtype = token_dtype(processor.get_piece_size())

    def encode() -> Callable[[], int]:
        pieces = 0
        for path in _train_files(folder):
            with path.open(encoding="utf-8") as lines, open_to_write(folder / "ids", "wb") as out:
                while some := [line.rstrip("\n") for line in itertools.islice(lines, _LINES_AT_ONCE)]:
                    for ids in processor.encode(some, num_threads=threads):
                        out.write(np.array(ids, dtype).tobytes())
                        pieces += len(ids)
        return lambda: pieces

    return encode


def _train_files(folder: Path) -> list[Path]:
    manifest = read_manifest(folder / DATA)
    return [DataFolder(folder / DATA).text("train", code) for code in (manifest.source_lang, manifest.target_lang)]


if __name__ == "__main__":
    main()
