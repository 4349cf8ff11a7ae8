"""Which of our models other toolkits can express."""

from __future__ import annotations

from pathlib import Path

from nmt.config import ModelConfig
from nmt.errors import NmtError


def check_attention(model: ModelConfig, folder: Path, toolkit: str) -> None:
    """Refuse a model whose attention differs from the paper's.

    Args:
        folder: of the model, for the message.
        toolkit: the name of the toolkit that cannot express it.

    Raises:
        NmtError: the heads have a size of their own, or the attention is a variant. The message names the setting.
    """
    if model.key_size * model.heads != model.d_model or model.value_size * model.heads != model.d_model:
        raise NmtError(
            f"{folder}: has heads with d_k {model.key_size} and d_v {model.value_size}, but {toolkit} needs "
            f"d_model / heads = {model.d_model / model.heads:g} for both. Train a model without d_k and d_v."
        )
    if model.attention != "scaled_dot_product":
        raise NmtError(
            f"{folder}: has attention: {model.attention}, but {toolkit} has scaled dot products alone. "
            "Train a model with attention: scaled_dot_product."
        )
    for name in ("source_neighbours", "target_neighbours"):
        if (neighbours := getattr(model, name)) is not None:
            raise NmtError(
                f"{folder}: restricts self-attention ({name}: {neighbours}), which {toolkit} does not. "
                f"Train a model without {name}."
            )
