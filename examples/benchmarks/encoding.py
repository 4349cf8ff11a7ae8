"""How fast ``nmt build-vocab --vocab`` encodes a data set, beside SentencePiece alone with as many threads."""

from __future__ import annotations

import itertools
import platform
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from encode_worker import DATA, MODEL
from generated_pairs import generate_pairs
from turns import measure_in_turn, median_rate, started

import nmt
from nmt.data.vocab import train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.io.writing import scratch_folder
from nmt.machine.cores import usable_cores
from nmt.machine.processor import processor_name
from nmt.text.lines import read_parallel

_WORKER = str(Path(__file__).with_name("encode_worker.py"))
_TRAINED_PAIRS = 100_000


def bench_encode(
    *,
    pairs: int,
    size: int,
    threads: int | None = None,
    rounds: int = 3,
    report: Callable[[str], None] = lambda message: None,
) -> dict[str, Any]:
    """Measure encoding of generated pairs: ours, SentencePiece on lines in memory, and SentencePiece in a plain loop.

    Args:
        size: number of pieces, trained on the first 100,000 pairs.
        report: called with one line per round.

    Returns:
        The result for JSON: seconds (the median over the rounds, and each round), and our seconds per those of others.

    Raises:
        NmtError: a process failed.
    """
    threads = threads or usable_cores()
    with scratch_folder() as folder:
        data = generate_pairs(folder / DATA, pairs)
        text = itertools.islice(read_parallel(data / "train.xx", data / "train.yy"), _TRAINED_PAIRS)
        vocab = train_vocabulary(itertools.chain.from_iterable(text), size=size).vocab
        VocabularyPair.shared(vocab).save(folder / MODEL)
        names = ("nmt", "sentencepiece", "sentencepiece with files")
        with started({name: [_WORKER, name, str(folder), str(threads)] for name in names}) as contestants:
            measured = measure_in_turn(contestants, rounds, report)
            version = contestants[0].description["version"]
    result: dict[str, Any] = {
        "benchmark": "encode",
        "versions": {"nmt": nmt.__version__, "sentencepiece": version, "python": platform.python_version()},
        "machine": {"processor": processor_name(), "threads": threads},
        "pairs": pairs,
        "vocab_size": size,
    }
    for name, rows in measured.items():
        result[name] = {
            "seconds": statistics.median(row["seconds"] for row in rows),
            "cpu_seconds": statistics.median(row["cpu_seconds"] for row in rows),
            "pieces": rows[0]["tokens"],
            "pieces_per_second": median_rate(rows),
            "rounds": [row["seconds"] for row in rows],
        }
    for name in names[1:]:
        ratios = (
            ours["seconds"] / other["seconds"] for ours, other in zip(measured["nmt"], measured[name], strict=True)
        )
        result[name]["ratio"] = statistics.median(ratios)
    return result
