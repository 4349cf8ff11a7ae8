"""Trains MarianMT of Hugging Face transformers, beside ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
import transformers
from marian import marian_config
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from train_worker import Trainer, main, one_by_one

from nmt.config import Config
from nmt.machine.device import choose_device, choose_hardware
from nmt.special_ids import PAD
from nmt.training.input.feed import PlannedUpdate


def padded(tokens: NDArray[np.int64], lengths_B: NDArray[np.int64], device: torch.device) -> Tensor:
    """Sentences as the rows of a padded tensor."""
    rows = list(torch.split(torch.from_numpy(tokens), lengths_B.tolist()))
    return pad_sequence(rows, batch_first=True, padding_value=PAD).to(device)


@contextmanager
def marian_mt(data: Path, config: Config, count: int) -> Iterator[Trainer]:
    """MarianMT of Hugging Face transformers in a plain loop: Adam, the same smoothed loss; our precision on a GPU."""
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

    def update(planned: PlannedUpdate) -> None:
        optimizer.zero_grad()
        for batch in planned.batches:
            source, target_input, target_output = (
                padded(tokens, lengths, device)
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
            (loss / planned.target_tokens).backward()
        optimizer.step()

    description = {
        "device": str(device),
        "precision": precision,
        "parameters": sum(p.numel() for p in model.parameters()),
        "version": transformers.__version__,
    }
    yield Trainer(description, device, one_by_one(update, data, config, count))


if __name__ == "__main__":
    main(marian_mt)
