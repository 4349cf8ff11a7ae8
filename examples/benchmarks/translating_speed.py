"""Translation speed on this machine, alone or in turn with other toolkits."""

from __future__ import annotations

import itertools
import json
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from agreement import greedy_agreement
from translate_worker import OURS, Job
from turns import Contestant, measure_in_turn, median_rate, started

import nmt
from nmt.checkpoint.bundle import Bundle, load_bundle, save_bundle
from nmt.config import Config
from nmt.convert.ctranslate2.writing import write_ctranslate2
from nmt.data.manifest import read_manifest
from nmt.errors import DataError, NmtError
from nmt.io.writing import scratch_folder, write_file, writing
from nmt.machine.packages import require_package
from nmt.machine.processor import processor_name
from nmt.model.transformer import Transformer
from nmt.option_fields import EngineName, Precision
from nmt.search.beam_search import beam_search
from nmt.search.settings import SearchSettings
from nmt.text.lines import read_lines
from nmt.text.steps import normalizer
from nmt.training.input.data_sets import load_vocabulary
from nmt.training.start.resume import check_tied_embeddings

_OURS = (str(Path(__file__).with_name("translate_worker.py")),)
_TASKS = ("beam", "greedy", "latency")
_EXTRA_LENGTH = 50
_FP32 = ("fp32", "float32")


Prepare = Callable[[Path, Bundle], None]
"""Writes what a toolkit reads, such as a converted model, into the folder of a benchmark."""


@dataclass(frozen=True)
class Setting:
    """A toolkit with a precision and a number of workers."""

    toolkit: str
    precision: str
    workers: int = 1
    program: tuple[str, ...] = _OURS
    """What measures it: it calls :func:`translate_worker.main`."""

    def __str__(self) -> str:
        return f"{self.toolkit} {self.precision}" + (f", {self.workers} workers" if self.workers > 1 else "")


def bench_translate(
    model: Path,
    data: Path,
    *,
    settings: Sequence[Setting],
    prepare: Prepare | None = None,
    device: str = "cpu",
    threads: int,
    rounds: int = 5,
    sentences: int = 128,
    latency_sentences: int = 40,
    beam: int = 4,
    length: int = 16,
    batch_tokens: int = 2_048,
    tries_smaller_batches: bool = True,
    has_random_weights: bool = False,
    compares_outputs: bool = True,
    report: Callable[[str], None] = lambda message: None,
) -> dict[str, Any]:
    """Measure translation speed in each setting, in turn.

    All settings get the same sentences as the same pieces, the same number of threads, and the same maximum of pieces
    per batch. Each tries several batch sizes and uses its fastest, unless ``tries_smaller_batches`` is False. Rates are
    measured with beam search and with greedy search. Every output then has ``length`` pieces, so all do the same work.
    Latency is measured with beam search, one sentence at a time, at natural length.

    Args:
        model: a bundle.
        data: a data set. The source of its test set is translated, or that of its valid set if there is no test set.
        settings: of our engines (:func:`our_settings`), and perhaps of other toolkits.
        prepare: writes what the other toolkits read.
        length: pieces of an output, with eos.
        has_random_weights: outputs of an untrained model end anywhere, so nothing is measured at natural length, and
            greedy outputs are compared up to ``length``.
        compares_outputs: compare greedy outputs with ours in fp32, which a CPU searches sentence by sentence.
        report: called with one line per round.

    Returns:
        The result for JSON.

    Raises:
        NmtError: a process failed.
    """
    bundle = load_bundle(model)
    sources = source_pieces(bundle, data, sentences)
    limit = bundle.config.model.max_positions - 1
    if not 2 <= length <= limit:
        raise NmtError(f"--length {length}: this model can write 2 to {limit} pieces.")
    longest = length - 1 if has_random_weights else min(max(map(len, sources)) + _EXTRA_LENGTH, limit)
    job = Job(
        sources=sources,
        beam=beam,
        length=length,
        longest=longest,
        latency_sentences=min(latency_sentences, len(sources)),
        has_natural_length=not has_random_weights,
        batch_tokens=batch_tokens,
        tries_smaller_batches=tries_smaller_batches,
        threads=threads,
        device=device,
    )
    with scratch_folder() as folder:
        _write_job(folder, bundle, job)
        if any(setting.toolkit == OURS["ctranslate2"] for setting in settings):
            write_for_ctranslate2(folder, bundle, "float32")
        if prepare is not None:
            prepare(folder, bundle)
        programs = {str(s): [*s.program, str(folder), s.toolkit, s.precision, str(s.workers)] for s in settings}
        with started(programs) as contestants:
            report(f"ready: {', '.join(programs)}")
            measured = {task: measure_in_turn(contestants, rounds, report, task) for task in _TASKS}
            described = {contestant.name: _description(contestant) for contestant in contestants}
            outputs = {each.name: each.run("outputs")["outputs"] for each in contestants} if compares_outputs else {}
    return {
        "benchmark": "translate",
        "versions": {"nmt": nmt.__version__, "torch": torch.__version__, "python": platform.python_version()},
        "machine": {"processor": processor_name(), "device": device, "threads": threads},
        "model": bundle.config.model.model_dump(mode="json"),
        "vocab_size": bundle.vocab.source.size,
        "weights": "random" if has_random_weights else str(model),
        "rounds": rounds,
        "sentences": len(sources),
        "source_pieces": sum(map(len, sources)),
        "target_tokens_per_sentence": length,
        "beam_size": beam,
        "batch_tokens": batch_tokens,
        "contestants": {
            name: described[name] | _summary({task: results[name] for task, results in measured.items()})
            for name in described
        },
        **_comparison(settings, measured),
        **(_agreements(bundle, job, {each: outputs[str(each)] for each in settings}) if compares_outputs else {}),
    }


def save_random_bundle(folder: Path, config: Config, data: Path) -> None:
    """Write a bundle of an untrained model for a data set. With forced lengths, it is as fast as a trained one.

    Raises:
        ConfigError: source and target have vocabularies of their own, but the model shares their embeddings.
    """
    vocab = load_vocabulary(data)
    check_tied_embeddings(config, vocab)
    torch.manual_seed(config.training.seed)
    model = Transformer(config.model, vocab.target.size, source_vocab_size=vocab.source.size)
    save_bundle(folder, model.state_dict(), config, vocab)


def source_pieces(bundle: Bundle, data: Path, sentences: int) -> list[list[int]]:
    """The ids, with eos, of the first source sentences of a data set's test set (or valid set), as in translate.

    Raises:
        DataError: there are no sentences.
    """
    manifest = read_manifest(data)
    names = [f"{split}.{manifest.source_lang}" for split in ("test", "valid")]
    path = data / next((name for name in names if name in manifest.files), names[0])
    vocab, normalize = bundle.vocab.source, normalizer(bundle.config.data.source_text)
    lines = itertools.islice((line for line in read_lines(path) if line.strip()), sentences)
    longest = bundle.config.model.max_positions - 1
    pieces = [[*ids[:longest], vocab.EOS] for ids in vocab.encode([normalize(line) for line in lines]) if ids]
    if not pieces:
        raise DataError(f"{path}: has no sentences to translate.")
    return pieces


def our_settings(engines: Sequence[EngineName], precisions: Sequence[Precision]) -> list[Setting]:
    """Our engines in each of some precisions; CTranslate2 in fp32 and int8, or in fp32 if neither is among them.

    Raises:
        NmtError: CTranslate2 is not installed.
    """
    settings = [Setting(OURS["torch"], precision) for precision in dict.fromkeys(precisions) if "torch" in engines]
    if "ctranslate2" in engines:
        advice = "Install it: `pip install ctranslate2`."
        require_package("ctranslate2", "ctranslate2", what="--engine ctranslate2", advice=advice)
        has = [precision for precision in dict.fromkeys(precisions) if precision in ("fp32", "int8")]
        settings += [Setting(OURS["ctranslate2"], precision) for precision in has or ["fp32"]]
    return settings


def write_for_ctranslate2(folder: Path, bundle: Bundle, precision: str) -> None:
    """Convert a model for the workers that use CTranslate2, once."""
    converted = folder / f"ctranslate2-{precision}"
    if not converted.exists():
        with writing(converted):
            converted.mkdir()
        write_ctranslate2(bundle, converted, precision)


def _write_job(folder: Path, bundle: Bundle, job: Job) -> None:
    write_file(folder / "job.json", json.dumps(asdict(job)).encode())
    with writing(folder / "bundle"):
        (folder / "bundle").symlink_to(bundle.folder.resolve(), target_is_directory=True)


def _description(contestant: Contestant) -> dict[str, Any]:
    values = dict(contestant.description)
    return values | {"seconds_to_first_output": values.pop("first_output") - contestant.started}


def _summary(measured: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    milliseconds = [1_000 * seconds for result in measured["latency"] for seconds in result["latencies"]]
    rates = {
        task: {
            "target_tokens_per_second": median_rate(measured[task]),
            "sentences_per_second": statistics.median(r["sentences"] / r["seconds"] for r in measured[task]),
            "rounds": [result["tokens"] / result["seconds"] for result in measured[task]],
        }
        for task in ("beam", "greedy")
    }
    return rates | {
        "latency": {
            "median_milliseconds": statistics.median(milliseconds),
            "p99_milliseconds": float(np.percentile(milliseconds, 99)),
            "measured": len(milliseconds),
        },
        "peak_memory_bytes": max(result["peak_memory"] for results in measured.values() for result in results),
    }


def _comparison(
    settings: Sequence[Setting], measured: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
) -> dict[str, Any]:
    """The fastest setting of each toolkit, and the ratios of our rates to the others'."""
    rates = {
        task: {setting: median_rate(measured[task][str(setting)]) for setting in settings}
        for task in ("beam", "greedy")
    }
    toolkits = dict.fromkeys(setting.toolkit for setting in settings)
    best = {
        toolkit: {
            task: str(max((s for s in settings if s.toolkit == toolkit), key=of_settings.__getitem__))
            for task, of_settings in rates.items()
        }
        for toolkit in toolkits
    }
    ratios = {
        str(ours): {
            str(theirs): {task: of_settings[ours] / of_settings[theirs] for task, of_settings in rates.items()}
            for theirs in settings
            if theirs.toolkit != ours.toolkit
        }
        for ours in settings
        if ours.toolkit in OURS.values()
    }
    return {"best": best, "ratios": ratios} if len(toolkits) > 1 else {}


def _agreements(bundle: Bundle, job: Job, outputs: Mapping[Setting, list[list[int]]]) -> dict[str, Any]:
    """Compare each toolkit's greedy outputs with ours in fp32: agreement in fp32, equal outputs in lower precisions."""
    search = SearchSettings(beam=1, max_extra_length=job.longest, max_length=job.longest)
    model = bundle.build_model()
    ours = [list(beam_search([model], torch.tensor([s]), search)[0][0].pieces) for s in job.sources]
    judge = bundle.build_model(dtype=torch.float64)
    agreement, rounding = {}, {}
    for setting, theirs in outputs.items():
        if setting.precision not in _FP32:
            equal = sum(our == their for our, their in zip(ours, theirs, strict=True))
            rounding[str(setting)] = {"sentences": len(ours), "equal": equal}
        elif setting.toolkit != OURS["torch"]:
            agreement[str(setting)] = asdict(greedy_agreement(judge, job.sources, ours, theirs))
    return {"agreement": agreement, "rounding": rounding}
