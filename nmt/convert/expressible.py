"""Which of our models other toolkits can express."""

from __future__ import annotations

from nmt.config import ModelConfig
from nmt.errors import NmtError


def check_attention(model: ModelConfig, name: str, toolkit: str) -> None:
    """Refuse a model whose attention differs from the paper's, or does not see the end of the source.

    Args:
        name: of the model, for the message.
        toolkit: the name of the toolkit that cannot express it.

    Raises:
        NmtError: the heads have a size of their own, or the attention is a variant. The message names the setting.
    """
    if model.key_size * model.heads != model.d_model or model.value_size * model.heads != model.d_model:
        raise NmtError(
            f"{name}: has heads with d_k {model.key_size} and d_v {model.value_size}, but {toolkit} needs "
            f"d_model / heads = {model.d_model / model.heads:g} for both. Train a model without d_k and d_v."
        )
    if model.attention != "scaled_dot_product":
        raise NmtError(
            f"{name}: has attention: {model.attention}, but {toolkit} supports only scaled dot-product attention. "
            "Train a model with attention: scaled_dot_product."
        )
    check_source_end(model, name, toolkit)
    for setting in ("source_neighbours", "target_neighbours"):
        if (neighbours := getattr(model, setting)) is not None:
            raise NmtError(
                f"{name}: has {setting}: {neighbours}, but {toolkit} supports only full self-attention. "
                f"Train a model without {setting}."
            )


def check_source_end(model: ModelConfig, name: str, toolkit: str) -> None:
    """Refuse a model that does not see the eos of its source.

    Raises:
        NmtError: the message names the setting.
    """
    if not model.source_eos:
        raise NmtError(
            f"{name}: has source_eos: {model.source_eos}, which is not exported to {toolkit}. "
            "Train a model with source_eos: true."
        )


def check_plain_settings(model: ModelConfig, name: str, toolkit: str) -> None:
    """Refuse a model with settings that only models of other toolkits need.

    Raises:
        NmtError: the message names the setting.
    """
    for setting, only in (
        ("activation", "relu"),
        ("tied_embeddings", "all"),
        ("output_bias", False),
        ("decoder_start", "bos"),
    ):
        if (value := getattr(model, setting)) != only:
            raise NmtError(
                f"{name}: has {setting}: {value}, which is not exported to {toolkit}. "
                f"Train a model with {setting}: {str(only).lower()}."
            )
