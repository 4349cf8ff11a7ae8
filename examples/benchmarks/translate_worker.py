"""A process that translates for ``python examples/benchmarks translate``: FOLDER TOOLKIT PRECISION WORKERS.

This module imports only what every toolkit needs, so that each toolkit's memory and start-up time are its own.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turns import serve

from nmt.machine.cores import bytes_in_proc
from nmt.option_fields import EngineName

if TYPE_CHECKING:
    from nmt.translation.engine import Engine

OURS: dict[EngineName, str] = {"torch": "nmt", "ctranslate2": "nmt-ctranslate2"}
"""Our engines as contestants."""
LENGTH_PENALTY = 0.6


@dataclass(frozen=True)
class Job:
    """The job of all contestants, written to the folder as ``job.json``."""

    sources: list[list[int]]
    """Ids with eos."""
    beam: int
    length: int
    """The target pieces of each output when rates are measured, eos included."""
    longest: int
    """The maximum pieces of an output of natural length, without eos."""
    latency_sentences: int
    has_natural_length: bool
    """Whether latency is measured at natural length. Outputs of random weights have none."""
    batch_tokens: int
    """The maximum source pieces, padding included, that are searched at once."""
    tries_smaller_batches: bool
    """Whether less may be searched at once, if that is faster."""
    threads: int
    device: str


@dataclass(frozen=True)
class Search:
    """The beam size, and the minimum and maximum pieces of an output, without eos."""

    beam: int
    shortest: int
    longest: int


Translate = Callable[[Sequence[list[int]], Search, int], list[list[int]]]
"""(sources, search, maximum source pieces per batch) -> the best output of each source, without eos."""
Begin = Callable[[Path, Job, str, int], tuple[dict[str, Any], Translate]]
"""(folder, job, precision, workers) -> the description of a toolkit, and how it translates."""


def main(toolkits: Mapping[str, Begin]) -> None:
    """Set up and warm up one of some toolkits, then run the task that each line on stdin names."""
    folder, toolkit, precision, workers = sys.argv[1:]
    serve(lambda: _set_up(toolkits[toolkit], Path(folder), precision, int(workers)))


def _set_up(
    begin: Begin, folder: Path, precision: str, workers: int
) -> tuple[Mapping[str, Any], Callable[[str], Mapping[str, Any]]]:
    job = Job(**json.loads((folder / "job.json").read_text("utf-8")))
    description, translate = begin(folder, job, precision, workers)
    forced = {name: Search(beam, job.length - 1, job.length - 1) for name, beam in (("beam", job.beam), ("greedy", 1))}
    natural = {name: Search(search.beam, 0, job.longest) for name, search in forced.items()}
    translate(job.sources[:1], forced["beam"], job.batch_tokens)
    first_output = time.time()
    batch_tokens = {name: _fastest_batches(translate, job, search) for name, search in forced.items()}

    def rate(name: str) -> Mapping[str, Any]:
        begin = time.perf_counter()
        outputs = translate(job.sources, forced[name], batch_tokens[name])
        seconds = time.perf_counter() - begin
        if any(len(output) != job.length - 1 for output in outputs):
            raise RuntimeError(f"not all outputs have {job.length - 1} pieces")
        return {"seconds": seconds, "tokens": len(outputs) * job.length, "sentences": len(outputs)}

    def latency() -> Mapping[str, Any]:
        search = (natural if job.has_natural_length else forced)["beam"]
        latencies, tokens = [], 0
        for source in job.sources[: job.latency_sentences]:
            begin = time.perf_counter()
            [output] = translate([source], search, job.batch_tokens)
            latencies.append(time.perf_counter() - begin)
            tokens += len(output) + 1
        return {"seconds": sum(latencies), "tokens": tokens, "latencies": latencies}

    def run(task: str) -> Mapping[str, Any]:
        if task == "outputs":
            return {"outputs": translate(job.sources, natural["greedy"], batch_tokens["greedy"])}
        measured = latency() if task == "latency" else rate(task)
        return {**measured, "peak_memory": _peak_memory() if job.device == "cpu" else _peak_memory_of_gpu()}

    return description | {"first_output": first_output, "batch_tokens": batch_tokens}, run


def _fastest_batches(translate: Translate, job: Job, search: Search) -> int:
    """The batch size, up to the job's maximum, at which the toolkit is fastest. Also warms the toolkit up."""
    translate(job.sources, search, job.batch_tokens)
    if not job.tries_smaller_batches:
        return job.batch_tokens

    def seconds(batch_tokens: int) -> float:
        begin = time.perf_counter()
        translate(job.sources, search, batch_tokens)
        return time.perf_counter() - begin

    largest = min(job.batch_tokens, len(job.sources) * max(map(len, job.sources)))
    # The last size is small enough to give each of several workers several batches.
    sizes = (largest, largest // 2, largest // 4, sum(map(len, job.sources)) // (4 * job.threads))
    return min({max(1, min(size, largest)) for size in sizes}, key=seconds)


def _ours(folder: Path, job: Job, precision: str, workers: int) -> tuple[dict[str, Any], Translate]:
    from nmt.machine.device import choose_hardware
    from nmt.translation.ensemble import load_ensemble

    hardware = choose_hardware(job.device, precision, job.threads)  # type: ignore[arg-type]
    return _pipeline(load_ensemble([folder / "bundle"], hardware), job)


def _ours_with_ctranslate2(folder: Path, job: Job, precision: str, workers: int) -> tuple[dict[str, Any], Translate]:
    from nmt.convert.ctranslate2.engine import CTranslate2Engine

    exported = folder / "ctranslate2-float32"
    return _pipeline(CTranslate2Engine(exported, job.device, precision, job.threads), job)  # type: ignore[arg-type]


def _pipeline(engine: Engine, job: Job) -> tuple[dict[str, Any], Translate]:
    """Our searches, as ``nmt translate`` makes them."""
    import nmt
    from nmt.translation.options import TranslateOptions
    from nmt.translation.segment import Segment

    def translate(sources: Sequence[list[int]], search: Search, batch_tokens: int) -> list[list[int]]:
        options = TranslateOptions(
            beam=search.beam,
            length_penalty=LENGTH_PENALTY,
            max_extra_length=search.longest,
            max_length=search.longest,
            min_length=search.shortest,
            batch_tokens=batch_tokens,
        )
        segments = [Segment("", source[:-1]) for source in sources]  # a searcher adds eos
        found = engine.searcher(options).search(segments, options)
        return [list(best.pieces) for best, *_ in found]

    description = {
        "version": nmt.__version__,
        "precision": engine.precision,
        "workers": job.threads if job.device == "cpu" else 1,
        "threads": job.threads,
    }
    return description, translate


def _peak_memory() -> int:
    """The peak memory of this process, in bytes."""
    # getrusage also counts the parent's memory before exec, so it may report the parent's peak. On macOS it has bytes.
    return bytes_in_proc("self/status", "VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _peak_memory_of_gpu() -> int:
    """The peak of what torch has reserved on a GPU, in bytes; 0 for a toolkit without torch."""
    torch = sys.modules.get("torch")
    return torch.cuda.max_memory_reserved() if torch is not None and torch.cuda.is_initialized() else 0


if __name__ == "__main__":
    main({OURS["torch"]: _ours, OURS["ctranslate2"]: _ours_with_ctranslate2})
