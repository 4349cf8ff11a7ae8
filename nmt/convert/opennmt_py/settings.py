"""What OpenNMT-py's settings of a model mean in ours. A setting that we cannot express is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nmt.config import ModelConfig
from nmt.convert.foreign import Array
from nmt.convert.settings import check_equal, check_settings, choose, model_settings, positions_of_tables

_NORM_EPSILON = 1e-6
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu"}
TABLES = ("encoder.embeddings.make_embedding.pe.pe", "decoder.embeddings.make_embedding.pe.pe")
"""Sinusoids, computed once."""
POSITIONS = {"SinusoidalInterleaved": "sinusoidal", "SinusoidalConcat": "tensor2tensor"}
_EXPECTED: dict[str, tuple[Any, ...]] = {
    "model_task": ("seq2seq",),
    "model_type": ("text",),
    "encoder_type": ("transformer",),
    "decoder_type": ("transformer",),
    "position_encoding": (True,),
    "self_attn_type": ("scaled-dot", "scaled-dot-flash"),
    "max_relative_positions": (0,),
    "relative_positions_buckets": (0,),
    "num_kv": (0,),
    "sliding_window": (0,),
    "parallel_residual": (False,),
    "layer_norm": ("standard",),
    "num_experts": (0,),
    "copy_attn": (False,),
    "generator_function": ("softmax",),
    "n_src_feats": (0,),
    "lora_layers": ([],),
    "quant_layers": ([],),
}
_NEEDS = {
    "model_task": "an encoder and a decoder",
    "position_encoding": "a model without sinusoids",
    "self_attn_type": "attention by averages",
    "max_relative_positions": "relative positions (rotary if -1, ALiBi if -2)",
    "relative_positions_buckets": "relative positions",
    "num_kv": "heads that share keys and values",
    "parallel_residual": "sub-layers side by side",
    "layer_norm": "RMSNorm",
    "num_experts": "layers with experts",
    "copy_attn": "a copying output layer",
    "generator_function": "another softmax",
    "n_src_feats": "source features",
    "lora_layers": "adapters: merge them into the model first",
    "quant_layers": "quantised layers: take the model that it was made from",
}


def model_config(settings: Mapping[str, Any], tensors: Mapping[str, Array], name: str) -> ModelConfig:
    """The settings of a model, but for the tying of its embeddings and the start of its outputs.

    Args:
        settings: ``opt`` of the checkpoint.
        tensors: by name; they tell whether attentions have biases.
        name: of the file, for errors.

    Raises:
        CheckpointError: a setting is unknown here or missing. The message names it.
    """
    check_settings({"position_encoding": False, **settings}, _EXPECTED, _NEEDS, name)
    sizes = tuple(f"{part}_{size}" for part in ("enc", "dec") for size in ("hid_size", "rnn_size"))
    words = ("src_word_vec_size", "tgt_word_vec_size")
    common = _positive(settings, "hidden_size") or _positive(settings, "rnn_size")
    d_model = common or check_equal(settings, (*sizes, *words), "an encoder and a decoder of different sizes", name)
    positions = choose(settings, "position_encoding_type", "SinusoidalInterleaved", POSITIONS, name)
    layers = _positive(settings, "layers")
    return model_settings(
        name,
        encoder_layers=layers or settings.get("enc_layers"),
        decoder_layers=layers or settings.get("dec_layers"),
        d_model=d_model,
        d_ff=settings.get("transformer_ff"),
        heads=settings.get("heads"),
        norm="pre",
        norm_epsilon=settings.get("norm_eps") or _NORM_EPSILON,
        activation=choose(settings, "pos_ffn_activation_fn", "relu", _ACTIVATIONS, name),
        positions=positions,
        max_positions=positions_of_tables(tensors, TABLES, positions),
        attention_bias=any(key.endswith("_attn.linear_query.bias") for key in tensors),
        output_bias=True,
        source_eos=False,
    )


def _positive(settings: Mapping[str, Any], key: str) -> int | None:
    """A number that stands for two settings if it is above 0."""
    value = settings.get(key)
    return value if isinstance(value, int) and value > 0 else None
