"""Export to MarianMT of Hugging Face transformers, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from nmt.checkpoint.bundle import Bundle
from nmt.config import ModelConfig
from nmt.data.vocab import Vocabulary
from nmt.errors import NmtError
from nmt.export.expressible import check_attention
from nmt.model.embeddings import fixed_positions

_NEVER_EMITTED = [Vocabulary.PAD, Vocabulary.UNK, Vocabulary.BOS]


def to_marian(bundle: Bundle) -> Any:
    """A MarianMTModel that shares the bundle's weights in memory, ready to generate.

    It must not be saved: transformers does not save the position table and the epsilon of the layer norms, and MarianMT
    would replace them with its own, which differ.

    Raises:
        NmtError: transformers is not installed, or MarianMT cannot express this model.
    """
    ours, vocab_size = bundle.config.model, bundle.vocab.size
    config = marian_config(ours, vocab_size, name=str(bundle.folder), forced_eos_token_id=Vocabulary.EOS)
    import transformers

    with torch.device("meta"):  # no memory for initial weights, which are replaced at once
        model = transformers.MarianMTModel(config)
    model.load_state_dict(dict(_weights(ours, bundle.weights, vocab_size)), assign=True)
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
    _check(model, name)
    try:
        import transformers
    except ImportError:
        raise NmtError(
            "Hugging Face transformers is not installed here. Install it: `pip install transformers`."
        ) from None
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


def _check(model: ModelConfig, name: str) -> None:
    if model.norm != "post":
        raise NmtError(f"{name}: is a pre-norm model, but MarianMT is post-norm. Compare with CTranslate2.")
    check_attention(model, name, "MarianMT")


def _weights(model: ModelConfig, ours: Mapping[str, Tensor], vocab_size: int) -> Iterator[tuple[str, Tensor]]:
    embedding_VD = ours["embedding.weight"][:vocab_size]
    for name in ("model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"):
        yield f"{name}.weight", embedding_VD
    logits_bias_1V = torch.zeros(1, vocab_size)
    logits_bias_1V[:, _NEVER_EMITTED] = -torch.inf
    yield "final_logits_bias", logits_bias_1V
    # MarianMT would make sinusoids of its own: sines in the first half of the features, cosines in the second.
    fixed_PD = fixed_positions(model.positions, model.max_positions, model.d_model)
    for part, side in (("encoder", "source"), ("decoder", "target")):
        positions_PD = ours[f"{side}_positions.weight"] if fixed_PD is None else fixed_PD.float()
        yield f"model.{part}.embed_positions.weight", positions_PD
    for index in range(model.encoder_layers):
        here, there = f"encoder.{index}", f"model.encoder.layers.{index}"
        yield from _attention(ours, f"{here}.self_attention", f"{there}.self_attn")
        yield from _same(ours, f"{here}.self_attention_norm", f"{there}.self_attn_layer_norm")
        yield from _feed_forward(ours, here, there)
    for index in range(model.decoder_layers):
        here, there = f"decoder.{index}", f"model.decoder.layers.{index}"
        yield from _attention(ours, f"{here}.self_attention", f"{there}.self_attn")
        yield from _same(ours, f"{here}.self_attention_norm", f"{there}.self_attn_layer_norm")
        yield from _attention(ours, f"{here}.cross_attention", f"{there}.encoder_attn")
        yield from _same(ours, f"{here}.cross_attention_norm", f"{there}.encoder_attn_layer_norm")
        yield from _feed_forward(ours, here, there)


def _attention(ours: Mapping[str, Tensor], here: str, there: str) -> Iterator[tuple[str, Tensor]]:
    fused = ours[f"{here}.query_key_value.weight"]
    fused_bias = ours.get(f"{here}.query_key_value.bias", torch.zeros(len(fused)))
    parts = zip(("q_proj", "k_proj", "v_proj"), fused.chunk(3), fused_bias.chunk(3), strict=True)
    for name, weight, bias in parts:
        yield f"{there}.{name}.weight", weight
        yield f"{there}.{name}.bias", bias
    output = ours[f"{here}.output.weight"]
    yield f"{there}.out_proj.weight", output
    yield f"{there}.out_proj.bias", ours.get(f"{here}.output.bias", torch.zeros(len(output)))


def _feed_forward(ours: Mapping[str, Tensor], here: str, there: str) -> Iterator[tuple[str, Tensor]]:
    yield from _same(ours, f"{here}.feed_forward.inner", f"{there}.fc1")
    yield from _same(ours, f"{here}.feed_forward.output", f"{there}.fc2")
    yield from _same(ours, f"{here}.feed_forward_norm", f"{there}.final_layer_norm")


def _same(ours: Mapping[str, Tensor], here: str, there: str) -> Iterator[tuple[str, Tensor]]:
    for kind in ("weight", "bias"):
        yield f"{there}.{kind}", ours[f"{here}.{kind}"]
