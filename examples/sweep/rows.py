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
from nmt.cores import usable_cores
from nmt.data.manifest import read_manifest
from nmt.files import replacing

_RESULT_NAME = "result.json"
_console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)


@dataclass(frozen=True)
class Place:
    """Where a run computes."""

    gpu: int | None
    threads: int


def run_folder(folder: Path, row: Row, seed: int) -> Path:
    """The folder of a row's run with a seed."""
    return folder / f"{row.folder}-seed-{seed}"


def run_rows(sweep: Sweep, data: Path, folder: Path, *, seeds: int, jobs: int | None, settings: Sequence[str]) -> int:
    """Train and score every row with every seed; runs that are scored already stay as they are.

    Returns:
        How many runs failed. A failure does not keep the others from running.

    Raises:
        ConfigError: one of the settings is unknown or has an invalid value.
    """
    for row in sweep.rows:
        sweep.config(row, settings)
    places = SimpleQueue[Place]()
    count = jobs or max(1, torch.cuda.device_count())
    for number in range(count):
        gpus = torch.cuda.device_count()
        places.put(Place(number % gpus if gpus else None, max(1, usable_cores() // count)))

    def run(row: Row, seed: int) -> bool:
        place = places.get()
        try:
            return _run(sweep, row, seed, data, run_folder(folder, row, seed), place, settings)
        finally:
            places.put(place)

    with ThreadPoolExecutor(count) as executor:
        # All rows with the first seed come before any with the second, so that there is a whole table early.
        results = [executor.submit(run, row, seed) for seed in range(1, seeds + 1) for row in sweep.rows]
        return sum(not result.result() for result in results)


def _run(sweep: Sweep, row: Row, seed: int, data: Path, run: Path, place: Place, settings: Sequence[str]) -> bool:
    """Train and score one run; returns whether that succeeded."""
    manifest = read_manifest(data)
    changes = [*sweep.changes(row), *settings, f"training.seed={seed}"]
    made_with = {"data": manifest.fingerprint, "preset": sweep.preset, "settings": changes}
    if (result := read_result(run)) is not None and result["made_with"] == made_with:
        _console.print(f"{run}: scored already")
        return True
    log = run.with_name(f"{run.name}.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    _console.print(f"{run}: {'resumed' if run.exists() else 'begun'} (messages in {log})")
    hypothesis = run / f"valid.hypothesis.{manifest.target_lang}"
    source, reference = (data / f"valid.{language}" for language in (manifest.source_lang, manifest.target_lang))
    options = [word for change in (*changes, f"training.threads={place.threads}") for word in ("--set", change)]
    commands = [
        ["train", "--data", data, "--preset", sweep.preset, "--out", run, *options],
        ["translate", "--model", run / "last", "--threads", place.threads, "--input", source, "--output", hypothesis],
        ["score", "--json", "--reference", reference, hypothesis],
    ]
    environment = dict(os.environ) | ({} if place.gpu is None else {"CUDA_VISIBLE_DEVICES": str(place.gpu)})
    printed = ""
    with log.open("a", encoding="utf-8") as stream:
        for command in commands:
            words = [sys.executable, "-m", "nmt", *map(str, command)]
            ended = subprocess.run(
                words, stdout=subprocess.PIPE, stderr=stream, encoding="utf-8", env=environment, check=False
            )
            if ended.returncode:
                return _failed(run, log)
            printed = ended.stdout
    [system] = json.loads(printed)["systems"]
    [bleu] = system["scores"]
    last = _last_validation(run)
    result = {
        "made_with": made_with,
        "parameters": parameters(sweep, row, read_config(RunFolder(run).config).data.vocab_size),
        "updates": last["update"],
        "perplexity": last["valid_perplexity"],
        "bleu": bleu["value"],
        "signature": bleu["signature"],
    }
    with replacing(run / _RESULT_NAME) as stream:
        stream.write((json.dumps(result, indent=2) + "\n").encode())
    _console.print(f"{run}: BLEU {bleu['value']:.1f}, perplexity {last['valid_perplexity']:.2f}")
    return True


def read_result(run: Path) -> dict[str, Any] | None:
    """What a run reached, if it is scored."""
    path = run / _RESULT_NAME
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def _last_validation(run: Path) -> dict[str, Any]:
    records = (json.loads(line) for line in RunFolder(run).metrics.read_text("utf-8").splitlines())
    *_, last = (record for record in records if record["kind"] == "validation")
    return last


def _failed(run: Path, log: Path) -> bool:
    last = "\n".join(log.read_text("utf-8").splitlines()[-3:])
    _console.print(f"{run}: failed:\n{last}")
    return False
