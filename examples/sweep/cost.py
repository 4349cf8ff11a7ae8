"""The parameters of each row and the floating-point operations of an update, counted without training."""

from __future__ import annotations

import torch
from definition import Row, Sweep
from torch.utils.flop_counter import FlopCounterMode

from nmt.config import Config, ModelConfig
from nmt.model.transformer import Transformer
from nmt.table import Table
from nmt.training.loss import label_smoothed_loss
from nmt.training.start.summary import parameter_counts

_SENTENCES = 64


def cost_table(sweep: Sweep, *, vocab_size: int, length: int) -> Table:
    """One line per row: parameters, those of the paper, and operations per update.

    Args:
        length: pieces of a sentence on either side, to turn the target tokens of an update into sentences.
    """
    table = Table(
        "",
        ["row", "parameters", "paper", "operations per update"],
        note=f"{vocab_size:,} pieces; sentences of {length} pieces; the products of a forward and a backward pass.",
    )
    for row in sweep.rows:
        paper = row.paper.parameters
        table.add(
            row.name,
            f"{parameters(sweep.config(row).model, vocab_size) / 1e6:.1f} M",
            "" if paper is None else f"{paper:g} M",
            f"{operations(sweep, row, vocab_size, length):.2e}",
        )
    return table


def parameters(config: ModelConfig, vocab_size: int) -> int:
    """The number of parameters, without the rows of the embedding that belong to no piece."""
    with torch.device("meta"):
        model = Transformer(config, vocab_size)
    spare = (len(model.embedding.weight) - vocab_size) * config.d_model
    return sum(parameter_counts(model).values()) - spare


def operations(sweep: Sweep, row: Row, vocab_size: int, length: int) -> float:
    """The floating-point operations of an update's matrix products."""
    config = sweep.config(row, [f"data.vocab_size={vocab_size}"])
    per_batch = training_flops(config, _SENTENCES, length)
    return per_batch * config.batching.update_tokens / (_SENTENCES * length)


def training_flops(config: Config, sentences: int, length: int) -> int:
    """The operations of all matrix products in the forward and backward passes over a batch: R-Drop has two.

    torch counts them on the meta device, so no formula must be kept in step with the model.
    """
    with torch.device("meta"):
        model = Transformer(config.model, config.data.target_pieces, source_vocab_size=config.data.vocab_size).train()
        tokens_BT = torch.ones(sentences, length, dtype=torch.long)
        with FlopCounterMode(display=False) as counter:
            packed = model.packed(tokens_BT, [length] * sentences)
            loss = label_smoothed_loss(model(packed, packed), packed.tokens_N, config.training.label_smoothing).smoothed
            loss.backward()
    return int(counter.get_total_flops()) * (2 if config.training.r_drop else 1)
