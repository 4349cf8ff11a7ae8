"""MarianMT of Hugging Face transformers with our sizes or our weights, in memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nmt.checkpoint.bundle import Bundle
from nmt.config import ModelConfig
from nmt.convert.expressible import MARIANMT, Allowed, Table, check_expressible
from nmt.convert.foreign import OUTPUT, OUTPUT_BIAS, POSITIONS, SOURCE_EMBEDDING, TARGET_EMBEDDING, Naming
from nmt.convert.huggingface.folder import NAMES, SHARED
from nmt.convert.weights import their_tensors
from nmt.data.vocab import Vocabulary
from nmt.machine.packages import require_package
from nmt.model.positions import fixed_positions

PLAIN_MARIANMT: Table = {
    **MARIANMT,
    "activation": Allowed(("relu",), "relu"),
    "tied_embeddings": Allowed(("all",), "all"),
    "output_bias": Allowed((False,), "false"),
    "decoder_start": Allowed(("bos",), "bos"),
}
"""What is measured of MarianMT: the model of the paper."""
_NEVER_EMITTED = [Vocabulary.PAD, Vocabulary.UNK, Vocabulary.BOS]


def to_marian(bundle: Bundle) -> Any:
    """A MarianMTModel that shares the bundle's weights in memory, ready to generate.

    It must not be saved: transformers does not save the position table and the epsilon of the layer norms, and MarianMT
    would replace them with its own, which differ.

    Raises:
        NmtError: transformers is not installed, or MarianMT cannot express this model.
    """
    ours, vocab_size = bundle.config.model, bundle.vocab.source.size
    config = marian_config(ours, vocab_size, name=str(bundle.folder), forced_eos_token_id=Vocabulary.EOS)
    import transformers

    with torch.device("meta"):  # no memory for initial weights, which are replaced at once
        model = transformers.MarianMTModel(config)
    model.load_state_dict(_weights(bundle, vocab_size), assign=True)
    model.tie_weights()
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = ours.norm_epsilon
    return model.eval()


def marian_config(model: ModelConfig, vocab_size: int, *, name: str, **more: Any) -> Any:
    """The MarianConfig for a model of the same sizes.

    Args:
        name: of the model, for errors.

    Raises:
        NmtError: transformers is not installed, or MarianMT cannot express this model.
    """
    check_expressible(model, PLAIN_MARIANMT, name, "MarianMT")
    advice = "Install it: `pip install transformers`."
    transformers = require_package("transformers", "Hugging Face transformers", what="MarianMT", advice=advice)
    return transformers.MarianConfig(
        vocab_size=vocab_size,
        d_model=model.d_model,
        encoder_layers=model.encoder_layers,
        decoder_layers=model.decoder_layers,
        encoder_attention_heads=model.heads,
        decoder_attention_heads=model.heads,
        encoder_ffn_dim=model.d_ff,
        decoder_ffn_dim=model.d_ff,
        dropout=model.dropout,
        attention_dropout=model.attention_dropout,
        activation_dropout=model.activation_dropout,
        activation_function="relu",
        max_position_embeddings=model.max_positions,
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
        pad_token_id=Vocabulary.PAD,
        bos_token_id=Vocabulary.BOS,
        eos_token_id=Vocabulary.EOS,
        decoder_start_token_id=Vocabulary.BOS,
        **more,
    )


def _weights(bundle: Bundle, vocab_size: int) -> dict[str, Tensor]:
    model, ours = bundle.config.model, bundle.weights
    embedding_VD = ours["embedding.weight"][:vocab_size]
    logits_bias_1V = torch.zeros(1, vocab_size)
    logits_bias_1V[:, _NEVER_EMITTED] = -torch.inf
    weights = ours | dict.fromkeys((SOURCE_EMBEDDING, TARGET_EMBEDDING, OUTPUT), embedding_VD)
    weights[OUTPUT_BIAS] = logits_bias_1V
    # MarianMT would make sinusoids of its own: sines in the first half of the features, cosines in the second.
    if (fixed_PD := fixed_positions(model)) is not None:
        weights |= dict.fromkeys(POSITIONS, fixed_PD.float())
    theirs = their_tensors(weights, model, Naming(NAMES))
    return {name: torch.from_numpy(array) for name, array in theirs.items()} | {SHARED: embedding_VD}
