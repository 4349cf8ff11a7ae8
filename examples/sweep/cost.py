"""The parameters of each row and the floating-point operations of an update, counted without training."""

from __future__ import annotations

import torch
from definition import Row, Sweep

from nmt.config import ModelConfig
from nmt.model.transformer import Transformer
from nmt.table import Table
from nmt.training.start.cost import training_flops
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
    per_batch = training_flops(config, _SENTENCES, length, length)
    return per_batch * config.batching.update_tokens / (_SENTENCES * length)
