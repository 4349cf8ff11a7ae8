"""Settings of Eole that our model cannot express, and what it would need for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nmt.convert.eole.config_file import EMBEDDINGS, PARTS, EoleSettings
from nmt.convert.messages import shown
from nmt.convert.settings import check_settings
from nmt.errors import CheckpointError

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "swish", "quick_gelu": "quick_gelu"}
POSITIONS = {"SinusoidalInterleaved": "sinusoidal", "SinusoidalConcat": "tensor2tensor", "Learned": "learned"}
_OTHER_POSITIONS = {"Rotary": "rotary positions", "Relative": "relative positions", "Alibi": "ALiBi"}
_ARCHITECTURES = {
    "transformer_lm": "a decoder without an encoder",
    "transformer_encoder": "an encoder without a decoder",
    "transformer_encoder_scorer": "an encoder that scores translations",
    "transformer_encoder_decoder_scorer": "a decoder that scores translations",
    "rnn": "recurrent layers",
    "cnn": "convolutions",
    "vision_transformer_lm": "an encoder of pictures",
    "whisper": "an encoder of speech",
}
_IN_MODEL: dict[str, tuple[Any, ...]] = {
    "generator_function": ("softmax",),
    "add_estimator": (False,),
    "left_pad": (False,),
}
_IN_EMBEDDINGS: dict[str, tuple[Any, ...]] = {"embedding_type": ("standard",), "embedding_layer_norm": (False,)}
_IN_PARTS: dict[str, tuple[Any, ...]] = {
    "encoder_type": ("transformer",),
    "decoder_type": ("transformer",),
    "mlp_activation_fn": tuple(ACTIVATIONS),
    "layer_norm": ("standard", "standardFP32"),
    "shared_layer_norm": (False,),
    "parallel_residual": (False,),
    "ffn_layernorm": (False,),
    "encoder_layer_style": ("standard",),
    "final_encoder_layer_norm": (True,),
    "max_relative_positions": (0,),
    "relative_positions_buckets": (0,),
    "sliding_window": (0,),
    "num_experts": (0,),
    "query_norm": (False,),
    "key_norm": (False,),
    "value_norm": (False,),
    "q_gating": (False,),
    "interpolate_mode": (None,),
    "layer_types": (None,),
    "global_head_dim": (None,),
    "global_heads_kv": (None,),
    "LM_type": ("causal",),
    "coverage_attn": (False,),
    "num_mtp_heads": (0,),
}
_IN_TRAINING: dict[str, tuple[Any, ...]] = {"quant_type": ("",), "lora_layers": ([],), "lora_embedding": (False,)}
_NEEDS = {
    "generator_function": "another softmax",
    "add_estimator": "an estimator of quality",
    "left_pad": "padding before the source",
    "embedding_type": "the embeddings of RoBERTa",
    "embedding_layer_norm": "a norm of the embeddings",
    "encoder_type": "another encoder",
    "decoder_type": "another decoder",
    "mlp_activation_fn": "a gated feed-forward network (gated-…), or another activation",
    "layer_norm": "RMSNorm",
    "shared_layer_norm": "sub-layers that share a norm",
    "parallel_residual": "sub-layers side by side",
    "ffn_layernorm": "norms on both sides of the feed-forward network",
    "encoder_layer_style": "a post-norm encoder beside a pre-norm decoder",
    "final_encoder_layer_norm": "a pre-norm encoder without its final norm",
    "max_relative_positions": "relative positions (rotary if -1, ALiBi if -2)",
    "relative_positions_buckets": "relative positions",
    "sliding_window": "attention to a window, which Eole counts otherwise in training than in decoding",
    "num_experts": "layers with experts",
    "heads_kv": "heads that share keys and values",
    "attn_scaling": "another scale of attention",
    "query_norm": "norms of queries",
    "key_norm": "norms of keys",
    "value_norm": "norms of values",
    "q_gating": "gated queries",
    "interpolate_mode": "positions of pictures",
    "layer_types": "layers of several kinds",
    "global_head_dim": "layers of several kinds",
    "global_heads_kv": "layers of several kinds",
    "LM_type": "a decoder that reads a prefix in both directions",
    "coverage_attn": "attention that sums up earlier attention",
    "num_mtp_heads": "several output layers",
    "quant_type": "quantised layers: take the model that it was made from",
    "lora_layers": "adapters: merge them into the model first",
    "lora_embedding": "adapters: merge them into the model first",
}
_READ = frozenset(
    ("architecture", "encoder", "decoder", "layers", "hidden_size", "heads", "heads_kv", "head_dim", "attn_scaling",
     "transformer_ff", "norm_eps", "add_qkvbias", "add_key_bias", "add_final_linear_bias", "add_ffnbias", "embeddings",
     "word_vec_size", "src_word_vec_size", "tgt_word_vec_size", "position_encoding", "position_encoding_type",
     "n_positions", "position_shift", "normalize", "share_embeddings", "share_decoder_embeddings", "generator_bias",
     "eole_version", *_IN_MODEL, *_IN_EMBEDDINGS, *_IN_PARTS)
)  # fmt: skip
_WITHOUT_EFFECT = frozenset(
    ("freeze_word_vecs_enc", "freeze_word_vecs_dec", "token_type_vocab_size", "max_position_embeddings",
     "moe_transformer_ff", "num_shared_experts", "shared_expert_gate", "first_k_dense_replace", "num_experts_per_tok",
     "moe_softmax_after", "moe_renormalize", "qk_norm_post_rope", "rope_config", "rotary_interleave", "rotary_theta",
     "rotary_dim", "with_cross_attn", "lambda_coverage", "global_attention", "global_attention_function",
     "aan_useffn", "alignment_layer", "alignment_heads", "full_context_alignment", "lambda_align",
     "linear_conv_kernel_dim", "linear_key_head_dim", "linear_value_head_dim", "linear_num_key_heads",
     "linear_num_value_heads", "mtp_lambda", "mtp_emb_norm", "input_feed", "adapter_bias", "multimodal_projector_bias",
     "projector_activation_fn", "spatial_merge_size", "estimator_type", "huggingface_model")
)  # fmt: skip
"""Settings that change nothing in a Transformer of text, or only together with settings that are refused."""


def check_expressible(settings: EoleSettings) -> None:
    """Refuse a model that ours cannot express.

    Raises:
        CheckpointError: a setting has a value that ours lacks, or is unknown. The message names it.
    """
    _check_architecture(settings)
    kind = settings.position_kind
    if not isinstance(kind, str) or kind not in POSITIONS:
        needs = "no positions" if kind is None else _OTHER_POSITIONS.get(str(kind), "other positions")
        raise settings.refused("model.embeddings.position_encoding_type", kind, needs)
    for section, values, expected in _sections(settings):
        check_settings(
            {f"{section}.{key}": value for key, value in values.items()},
            {f"{section}.{key}": allowed for key, allowed in expected.items()},
            {f"{section}.{key}": needs for key, needs in _NEEDS.items()},
            settings.name,
        )
    for key, value in settings.flat().items():
        if key.rpartition(".")[-1] not in _READ | _WITHOUT_EFFECT:
            raise CheckpointError(
                f"{settings.name}: has model.{shown(key)}: {shown(value)}, which nmt does not know. If it changes "
                "nothing in the model, remove it there."
            )


def _check_architecture(settings: EoleSettings) -> None:
    architecture = settings.model.get("architecture", "custom")
    if architecture not in ("transformer", "custom"):
        needs = _ARCHITECTURES.get(str(architecture), "another architecture")
        raise settings.refused("model.architecture", architecture, needs)
    for part, without in (("encoder", "a decoder without an encoder"), ("decoder", "an encoder without a decoder")):
        if architecture == "custom" and not settings.section(part):
            raise settings.refused(f"model.{part}", settings.model.get(part), without)


def _sections(settings: EoleSettings) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, tuple[Any, ...]]]]:
    """Name, settings, and the values that our model can express."""
    yield "model", settings.model, _IN_MODEL
    yield f"model.{EMBEDDINGS}", settings.section(EMBEDDINGS), _IN_EMBEDDINGS
    for part in PARTS:
        of_heads = {"heads_kv": (settings.of_section(part, "heads"),), "attn_scaling": (settings.head_size(part),)}
        values = {key: settings.of_section(part, key) for key in (*_IN_PARTS, *of_heads)}
        yield f"model.{part}", values, {**_IN_PARTS, **of_heads}
    yield "training", settings.training, _IN_TRAINING
