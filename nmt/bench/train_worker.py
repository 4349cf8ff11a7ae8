"""One contestant of ``nmt bench train``.

``python -m nmt.bench.train_worker NAME DATA CONFIG UPDATES_PER_ROUND UPDATES`` makes the first ``UPDATES`` of a run,
again and again.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from nmt.bench.training_speed import BenchLearner, bench_updates
from nmt.bench.turns import serve
from nmt.config import Config, read_config
from nmt.device import synchronize
from nmt.special_ids import PAD
from nmt.training.input.feed import PlannedUpdate


@dataclass(frozen=True)
class _Toolkit:
    description: dict[str, Any]
    device: torch.device
    pads: bool
    """Whether its model pads sentences."""
    update: Callable[[PlannedUpdate, int], object]
    """Makes an update with a number."""
    prepare: Callable[[Sequence[PlannedUpdate]], object] = lambda planned: None
    """Called with all updates before the first."""
    is_compiled: Callable[[], bool] = lambda: False
    """Whether a compiled graph computes, asked after the first updates."""


def main() -> None:
    """Set up and warm up a contestant, then run a round of updates per line on stdin."""
    name, data, config, *counts = sys.argv[1:]
    serve(lambda: _set_up(name, Path(data), Path(config), *map(int, counts)))


def _set_up(
    name: str, data: Path, config_file: Path, updates_per_round: int, count: int
) -> tuple[Mapping[str, Any], Callable[[str], Mapping[str, Any]]]:
    config = read_config(config_file)
    contestant = {"nmt": _ours, "transformers": _transformers}[name](config)
    # The first updates come again where a small data set has no more.
    planned = bench_updates(data, config, count, pads=contestant.pads)
    contestant.prepare(planned)
    updates = itertools.cycle(planned)
    made = 0

    def run(task: str) -> Mapping[str, Any]:
        nonlocal made
        round_updates = list(itertools.islice(updates, updates_per_round))
        begin = time.perf_counter()
        for planned in round_updates:
            made += 1
            contestant.update(planned, made)
        synchronize(contestant.device)
        tokens = sum(planned.target_tokens for planned in round_updates)
        return {"seconds": time.perf_counter() - begin, "tokens": tokens}

    run("warm-up")
    return contestant.description | {"threads": torch.get_num_threads(), "compiled": contestant.is_compiled()}, run


def _padded(tokens: NDArray[np.int64], lengths_B: NDArray[np.int64], device: torch.device) -> Tensor:
    """Sentences as the rows of a padded tensor."""
    rows = list(torch.split(torch.from_numpy(tokens), lengths_B.tolist()))
    return pad_sequence(rows, batch_first=True, padding_value=PAD).to(device)


def _ours(config: Config) -> _Toolkit:
    from nmt.device import choose_hardware
    from nmt.training.start.cost import matrix_rate

    training = config.training
    product = (config.model.d_model, config.model.d_ff)
    hardware = choose_hardware(training.device, training.precision, training.threads, product=product)
    ours = BenchLearner(config, hardware)
    description = {
        "device": str(hardware.device),
        "precision": hardware.precision,
        "matrix_flops_per_second": matrix_rate(config, hardware, rows=4_096),
        "parameters": sum(p.numel() for p in ours.learner.parameters.values()),
    }
    prepare = {"prepare": ours.compile} if training.compile is True else {}
    is_compiled = lambda: ours.learner.is_compiled  # noqa: E731
    return _Toolkit(description, hardware.device, ours.pads, ours.update, is_compiled=is_compiled, **prepare)


def _transformers(config: Config) -> _Toolkit:
    """MarianMT of Hugging Face transformers in a plain loop: Adam, the same smoothed loss; our precision on a GPU."""
    import transformers

    from nmt.convert.transformers import marian_config
    from nmt.device import choose_device, choose_hardware

    if config.training.threads is not None:
        torch.set_num_threads(config.training.threads)
    found, _ = choose_device(config.training.device)
    device = found if found.type == "cuda" else torch.device("cpu")
    # On a GPU everybody trains in 16 bits; on a CPU a plain loop is in fp32.
    precision = choose_hardware("cuda", config.training.precision).precision if device.type == "cuda" else "fp32"
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    model = transformers.MarianMTModel(
        marian_config(config.model, config.data.vocab_size, name="the preset", use_cache=False)
    )
    model.to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)

    def update(planned: PlannedUpdate, number: int) -> None:
        optimizer.zero_grad()
        for batch in planned.batches:
            source, target_input, target_output = (
                _padded(tokens, lengths, device)
                for tokens, lengths in (
                    (batch.source_M, batch.source_lengths_B),
                    (batch.target_input_N, batch.target_lengths_B),
                    (batch.target_output_N, batch.target_lengths_B),
                )
            )
            with torch.autocast(device.type, dtype or torch.bfloat16, enabled=dtype is not None):
                mask = (source != 0).long()
                logits = model(input_ids=source, attention_mask=mask, decoder_input_ids=target_input).logits
                loss = F.cross_entropy(
                    logits.flatten(0, 1),
                    target_output.flatten(),
                    ignore_index=0,
                    label_smoothing=config.training.label_smoothing,
                    reduction="sum",
                )
            (loss / planned.target_tokens).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    description = {
        "device": str(device),
        "precision": precision,
        "parameters": sum(p.numel() for p in model.parameters()),
        "version": transformers.__version__,
    }
    return _Toolkit(description, device, True, update)


if __name__ == "__main__":
    main()
