"""Translates with other toolkits, beside ours. Only the toolkit that is measured is imported."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from translate_worker import LENGTH_PENALTY, Job, Search, Translate, main

from nmt.special_ids import BOS, EOS, PAD
from nmt.translation.batches import batches_of


def with_ctranslate2(folder: Path, job: Job, precision: str, workers: int) -> tuple[dict[str, Any], Translate]:
    # CTranslate2 imports torch if it is installed, to convert models. That would add to its memory and start-up time.
    sys.modules["torch"] = None
    import ctranslate2

    model = folder / ("ctranslate2-int8" if precision.startswith("int8") else "ctranslate2-float32")
    source_pieces, target_pieces = (pieces_by_id(model, side) for side in ("source", "target"))
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
            length_penalty=LENGTH_PENALTY,
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


def pieces_by_id(model: Path, side: str) -> list[str]:
    """The pieces of a side by id. CTranslate2 writes one file if both sides have the same."""
    shared = model / "shared_vocabulary.json"
    path = shared if shared.is_file() else model / f"{side}_vocabulary.json"
    pieces: list[str] = json.loads(path.read_text("utf-8"))
    return pieces


def with_transformers(folder: Path, job: Job, precision: str, workers: int) -> tuple[dict[str, Any], Translate]:
    import torch
    import transformers
    from marian import to_marian

    from nmt.checkpoint.bundle import load_bundle

    torch.set_num_threads(job.threads)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    model = to_marian(load_bundle(folder / "bundle")).to(device=job.device, dtype=dtype)

    def translate(sources: Sequence[list[int]], search: Search, batch_tokens: int) -> list[list[int]]:
        outputs: dict[int, list[int]] = {}
        for batch in batches_of(list(map(len, sources)), batch_tokens):
            source_BS = torch.tensor(padded([sources[index] for index in batch])).to(job.device)
            with torch.inference_mode():
                target_BT = model.generate(
                    input_ids=source_BS,
                    attention_mask=(source_BS != PAD).long(),
                    do_sample=False,
                    num_beams=search.beam,
                    length_penalty=LENGTH_PENALTY,
                    min_new_tokens=search.shortest,
                    max_new_tokens=search.longest + 1,
                )
            outputs |= {index: before_eos(target) for index, target in zip(batch, target_BT.tolist(), strict=True)}
        return [outputs[index] for index in range(len(sources))]

    description = {"version": transformers.__version__, "precision": precision, "threads": torch.get_num_threads()}
    return description, translate


def padded(sources: Sequence[list[int]]) -> list[list[int]]:
    width = max(map(len, sources))
    return [source + [PAD] * (width - len(source)) for source in sources]


def before_eos(target: list[int]) -> list[int]:
    pieces = target[1:]
    return pieces[: pieces.index(EOS)] if EOS in pieces else pieces


if __name__ == "__main__":
    main({"ctranslate2": with_ctranslate2, "transformers": with_transformers})
