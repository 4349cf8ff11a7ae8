"""One contestant of ``nmt bench translate``: ``python -m nmt.bench.translate_worker FOLDER TOOLKIT PRECISION WORKERS``.

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

from nmt.bench.turns import serve
from nmt.option_fields import EngineName
from nmt.special_ids import BOS, EOS, PAD, UNK
from nmt.translation.batches import batches_of

if TYPE_CHECKING:
    from nmt.translation.engine import Engine

OURS: dict[EngineName, str] = {"torch": "nmt", "ctranslate2": "nmt-ctranslate2"}
"""Our engines as contestants."""
_LENGTH_PENALTY = 0.6


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


def main() -> None:
    """Set up and warm up a contestant, then run the task that each line on stdin names."""
    folder, toolkit, precision, workers = sys.argv[1:]
    serve(lambda: _set_up(Path(folder), toolkit, precision, int(workers)))


def _set_up(
    folder: Path, toolkit: str, precision: str, workers: int
) -> tuple[Mapping[str, Any], Callable[[str], Mapping[str, Any]]]:
    job = Job(**json.loads((folder / "job.json").read_text("utf-8")))
    begins = {
        OURS["torch"]: _ours,
        OURS["ctranslate2"]: _ours_with_ctranslate2,
        "ctranslate2": _ctranslate2,
        "onnxruntime": _onnxruntime,
        "transformers": _transformers,
    }
    begin = begins[toolkit]
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
        return {**measured, "peak_memory": _peak_memory()}

    return description | {"first_output": first_output, "batch_tokens": batch_tokens}, run


def _fastest_batches(translate: Translate, job: Job, search: Search) -> int:
    """The batch size, up to the job's maximum, at which the toolkit is fastest. Also warms the toolkit up."""
    translate(job.sources, search, job.batch_tokens)

    def seconds(batch_tokens: int) -> float:
        begin = time.perf_counter()
        translate(job.sources, search, batch_tokens)
        return time.perf_counter() - begin

    largest = min(job.batch_tokens, len(job.sources) * max(map(len, job.sources)))
    # The last size is small enough to give each of several workers several batches.
    sizes = (largest, largest // 2, largest // 4, sum(map(len, job.sources)) // (4 * job.threads))
    return min({max(1, min(size, largest)) for size in sizes}, key=seconds)


def _ours(folder: Path, job: Job, precision: str, workers: int) -> tuple[dict[str, Any], Translate]:
    from nmt.device import choose_hardware
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
            length_penalty=_LENGTH_PENALTY,
            max_extra_length=search.longest,
            max_length=search.longest,
            min_length=search.shortest,
            batch_tokens=batch_tokens,
        )
        segments = [Segment("", source[:-1]) for source in sources]  # a searcher adds eos
        engine.searcher(options).search(segments, options)
        return [engine.vocab.target.ids(segment.candidates[0].pieces) for segment in segments]

    description = {
        "version": nmt.__version__,
        "precision": engine.precision,
        "workers": job.threads if job.device == "cpu" else 1,
        "threads": job.threads,
    }
    return description, translate


def _ctranslate2(folder: Path, job: Job, precision: str, workers: int) -> tuple[dict[str, Any], Translate]:
    # CTranslate2 imports torch if it is installed, to convert models. That would add to its memory and start-up time.
    sys.modules["torch"] = None  # type: ignore[assignment]
    import ctranslate2

    model = folder / ("ctranslate2-int8" if precision.startswith("int8") else "ctranslate2-float32")
    source_pieces, target_pieces = (_ctranslate2_pieces(model, side) for side in ("source", "target"))
    ids = {piece: index for index, piece in enumerate(target_pieces)}
    translator = ctranslate2.Translator(
        str(model),
        device=job.device,
        compute_type=precision,
        inter_threads=workers,
        intra_threads=max(1, job.threads // workers),
    )

    def translate(sources: Sequence[list[int]], search: Search, batch_tokens: int) -> list[list[int]]:
        results = translator.translate_batch(
            [[source_pieces[index] for index in source[:-1]] for source in sources],  # CTranslate2 adds eos
            max_batch_size=batch_tokens,
            batch_type="tokens",
            beam_size=search.beam,
            length_penalty=_LENGTH_PENALTY,
            min_decoding_length=search.shortest,
            # One more step than ours for eos. If CTranslate2 emits a piece there instead, it is cut off below.
            max_decoding_length=search.longest + 1,
            max_input_length=0,
            disable_unk=True,
            suppress_sequences=[[target_pieces[PAD]], [target_pieces[BOS]]],
        )
        return [[ids[piece] for piece in result.hypotheses[0][: search.longest]] for result in results]

    description = {
        "version": ctranslate2.__version__,
        "precision": translator.compute_type,
        "workers": workers,
        "threads": workers * max(1, job.threads // workers),
    }
    return description, translate


def _ctranslate2_pieces(model: Path, side: str) -> list[str]:
    """The pieces of a side by id. CTranslate2 writes one file if both sides have the same."""
    shared = model / "shared_vocabulary.json"
    path = shared if shared.is_file() else model / f"{side}_vocabulary.json"
    pieces: list[str] = json.loads(path.read_text("utf-8"))
    return pieces


def _onnxruntime(folder: Path, job: Job, precision: str, workers: int) -> tuple[dict[str, Any], Translate]:
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = job.threads
    encoder, decoder, decoder_with_past = (
        onnxruntime.InferenceSession(folder / f"onnxruntime-{precision}" / f"{name}.onnx", options)
        for name in ("encoder_model", "decoder_model", "decoder_with_past_model")
    )

    def run(session: Any, **inputs: Any) -> dict[str, Any]:
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(None, inputs), strict=True))

    def searched(sources: Sequence[list[int]], search: Search) -> list[list[int]]:
        source_BS = np.array(_padded(sources))
        mask_BS = (source_BS != PAD).astype(np.int64)
        states = run(encoder, input_ids=source_BS, attention_mask=mask_BS)["last_hidden_state"]
        next_B1 = np.full((len(sources), 1), BOS)
        found = run(decoder, input_ids=next_B1, encoder_hidden_states=states, encoder_attention_mask=mask_BS)
        past: dict[str, Any] = {}
        written = [next_B1]
        while len(written) <= search.longest:
            past |= {name.replace("present", "past_key_values"): found[name] for name in found if name != "logits"}
            logits_BV = found["logits"][:, -1]
            never = [PAD, UNK, BOS, EOS] if len(written) <= search.shortest else [PAD, UNK, BOS]
            logits_BV[:, never] = -np.inf
            next_B1 = logits_BV.argmax(axis=1)[:, None]
            written.append(next_B1)
            if (np.concatenate(written, axis=1) == EOS).any(axis=1).all():
                break
            found = run(decoder_with_past, input_ids=next_B1, encoder_attention_mask=mask_BS, **past)
        return [_before_eos(target) for target in np.concatenate(written, axis=1).tolist()]

    def translate(sources: Sequence[list[int]], search: Search, batch_tokens: int) -> list[list[int]]:
        outputs: dict[int, list[int]] = {}
        for batch in batches_of(list(map(len, sources)), batch_tokens):
            found = searched([sources[index] for index in batch], search)
            outputs |= dict(zip(batch, found, strict=True))
        return [outputs[index] for index in range(len(sources))]

    description = {"version": onnxruntime.__version__, "precision": precision, "threads": job.threads}
    return description, translate


def _transformers(folder: Path, job: Job, precision: str, workers: int) -> tuple[dict[str, Any], Translate]:
    import torch
    import transformers

    from nmt.checkpoint.bundle import load_bundle
    from nmt.convert.transformers import to_marian

    torch.set_num_threads(job.threads)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    model = to_marian(load_bundle(folder / "bundle")).to(device=job.device, dtype=dtype)

    def translate(sources: Sequence[list[int]], search: Search, batch_tokens: int) -> list[list[int]]:
        outputs: dict[int, list[int]] = {}
        for batch in batches_of(list(map(len, sources)), batch_tokens):
            source_BS = torch.tensor(_padded([sources[index] for index in batch])).to(job.device)
            with torch.inference_mode():
                target_BT = model.generate(
                    input_ids=source_BS,
                    attention_mask=(source_BS != PAD).long(),
                    do_sample=False,
                    num_beams=search.beam,
                    length_penalty=_LENGTH_PENALTY,
                    min_new_tokens=search.shortest,
                    max_new_tokens=search.longest + 1,
                )
            outputs |= {index: _before_eos(target) for index, target in zip(batch, target_BT.tolist(), strict=True)}
        return [outputs[index] for index in range(len(sources))]

    description = {"version": transformers.__version__, "precision": precision, "threads": torch.get_num_threads()}
    return description, translate


def _padded(sources: Sequence[list[int]]) -> list[list[int]]:
    width = max(map(len, sources))
    return [source + [PAD] * (width - len(source)) for source in sources]


def _before_eos(target: list[int]) -> list[int]:
    pieces = target[1:]
    return pieces[: pieces.index(EOS)] if EOS in pieces else pieces


def _peak_memory() -> int:
    """The peak memory of this process, in bytes."""
    try:
        # getrusage also counts the parent's memory before exec, so it may report the parent's peak.
        with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in bytes on macOS


if __name__ == "__main__":
    main()
