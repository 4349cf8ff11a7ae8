"""Train and score the rows of a sweep, several at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import torch
from cost import parameters
from definition import Row, Sweep
from rich.console import Console

from nmt.checkpoint.run_folder import RunFolder
from nmt.config import read_config
from nmt.data.data_folder import DataFolder
from nmt.data.manifest import Manifest, read_manifest
from nmt.io.files import replacing
from nmt.machine.cores import usable_cores
from nmt.training.input.data_sets import load_vocabulary
from nmt.training.metrics_file import MetricsFile

_RESULT_NAME = "result.json"
# The search of the paper and its code alone: no line is split, no character copied, no translation repaired.
_SEARCH = ("--split-sentences", "never", "--no-copy-unknown", "--no-guard", "--refill-beam")
_console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)


@dataclass(frozen=True)
class Place:
    """Where a run computes."""

    gpu: str | None
    """As ``CUDA_VISIBLE_DEVICES`` names it."""
    threads: int


@dataclass(frozen=True)
class Data:
    """A prepared data set."""

    folder: Path
    manifest: Manifest
    fingerprints: dict[str, str]
    """Of its text and its vocabulary."""

    @classmethod
    def read(cls, folder: Path) -> Data:
        """Read what identifies a data set.

        Raises:
            DataError: the folder holds no data set, or the data set has no vocabulary yet.
        """
        manifest, vocab = read_manifest(folder), load_vocabulary(folder)
        return cls(folder, manifest, {"text": manifest.fingerprint, "vocab": vocab.fingerprint})


def run_folder(folder: Path, row: Row, seed: int) -> Path:
    """The folder of a row's run with a seed."""
    return folder / f"{row.folder}-seed-{seed}"


def read_results(folder: Path, row: Row) -> list[dict[str, Any]]:
    """What the runs of a row reached, of those that are scored and made as the newest of them is."""
    beginning = f"{row.folder}-seed-"
    paths = [
        path
        for path in folder.glob(f"{beginning}*/{_RESULT_NAME}")
        if path.parent.name.removeprefix(beginning).isdigit()
    ]
    results = [json.loads(path.read_text("utf-8")) for path in sorted(paths, key=lambda path: path.stat().st_mtime)]
    return [result for result in results if result["made_with"] == results[-1]["made_with"]]


def run_rows(sweep: Sweep, data: Path, folder: Path, *, seeds: int, jobs: int | None, settings: Sequence[str]) -> int:
    """Train and score every row with every seed; runs that are scored already stay as they are.

    Returns:
        How many runs failed. A failure does not keep the others from running.

    Raises:
        ConfigError: one of the settings is unknown or has an invalid value.
        DataError: the folder holds no data set, or the data set has no vocabulary yet.
    """
    for row in sweep.rows:
        sweep.config(row, settings)
    data_set = Data.read(data)
    gpus = _gpus()
    count = jobs or max(1, len(gpus))
    places = SimpleQueue[Place]()
    for number in range(count):
        places.put(Place(gpus[number % len(gpus)] if gpus else None, max(1, usable_cores() // count)))

    def run(row: Row, seed: int) -> bool:
        place = places.get()
        try:
            return _run(sweep, row, seed, data_set, run_folder(folder, row, seed), place, settings)
        finally:
            places.put(place)

    with ThreadPoolExecutor(count) as executor:
        # All rows with the first seed come before any with the second, so that there is a whole table early.
        results = [executor.submit(run, row, seed) for seed in range(1, seeds + 1) for row in sweep.rows]
        try:
            return sum(not result.result() for result in results)
        except BaseException:  # Ctrl-C, which the running commands receive too: they save and end
            executor.shutdown(wait=False, cancel_futures=True)
            raise


def _gpus() -> list[str]:
    count = torch.cuda.device_count()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",")[:count] if visible else [str(number) for number in range(count)]


def _run(sweep: Sweep, row: Row, seed: int, data: Data, run: Path, place: Place, settings: Sequence[str]) -> bool:
    """Train and score one run; returns whether that succeeded."""
    changes = [*sweep.changes(row), *settings]
    made_with = {"data": data.fingerprints, "preset": sweep.preset, "settings": changes}
    path = run / _RESULT_NAME
    if path.is_file() and json.loads(path.read_text("utf-8"))["made_with"] == made_with:
        _console.print(f"{run}: scored already")
        return True
    log = run.with_name(f"{run.name}.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    _console.print(f"{run}: {'resumed' if run.exists() else 'started'} (messages in {log})")
    environment = dict(os.environ) | ({} if place.gpu is None else {"CUDA_VISIBLE_DEVICES": place.gpu})
    with log.open("a", encoding="utf-8") as stream:

        def nmt(*words: object) -> str | None:
            """What a command printed to standard output; None if it failed."""
            command = [sys.executable, "-m", "nmt", *map(str, words)]
            ended = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=stream, encoding="utf-8", env=environment, check=False
            )
            return None if ended.returncode else ended.stdout

        own = (f"training.seed={seed}", f"training.threads={place.threads}")
        options = [word for change in (*changes, *own) for word in ("--set", change)]
        if nmt("train", "--data", data.folder, "--preset", sweep.preset, "--out", run, *options) is None:
            return _failed(run, log)
        checkpoint = (run / "last").resolve()
        source, reference = (
            DataFolder(data.folder).text("valid", language)
            for language in (data.manifest.source_lang, data.manifest.target_lang)
        )
        hypothesis = run / f"valid.{checkpoint.name}.{data.manifest.target_lang}"
        files = ("--input", source, "--output", hypothesis)
        if nmt("translate", "--model", checkpoint, "--threads", place.threads, *_SEARCH, *files) is None:
            return _failed(run, log)
        if (printed := nmt("score", "--json", "--reference", reference, hypothesis)) is None:
            return _failed(run, log)
    [system] = json.loads(printed)["systems"]
    [bleu] = system["scores"]
    last = _last_validation(run)
    config = read_config(RunFolder(run).config)
    result = {
        "made_with": made_with,
        "parameters": parameters(config.model, config.data.vocab_size),
        "updates": last["update"],
        "perplexity": last["valid_perplexity"],
        "bleu": bleu["value"],
        "signature": bleu["signature"],
    }
    with replacing(path) as output:
        output.write((json.dumps(result, indent=2) + "\n").encode())
    _console.print(f"{run}: BLEU {bleu['value']:.1f}, perplexity {last['valid_perplexity']:.2f}")
    return True


def _last_validation(run: Path) -> dict[str, Any]:
    records = MetricsFile(RunFolder(run).metrics).read()[0]
    return next(record for record in reversed(records) if record["kind"] == "validation")


def _failed(run: Path, log: Path) -> bool:
    last = "\n".join(log.read_text("utf-8").splitlines()[-3:])
    _console.print(f"{run}: failed:\n{last}")
    return False
