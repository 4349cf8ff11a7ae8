"""What fairseq's settings of a model mean in ours. A setting that we cannot express is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nmt.config import ModelConfig
from nmt.convert.foreign import Array
from nmt.convert.messages import shown
from nmt.convert.settings import MAX_POSITIONS, check_equal, check_settings, choose, model_settings
from nmt.errors import CheckpointError

NORM_EPSILON = 1e-5
"""torch's default, which fairseq keeps."""
PAD = 1
"""fairseq's id of its padding: positions are numbered from the next number."""
FIRST_POSITION = PAD + 1
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish"}
# Setting -> the values that make no difference to our model. The first one is fairseq's default.
_EXPECTED: dict[str, tuple[Any, ...]] = {
    "task": ("translation",),
    "no_token_positional_embeddings": (False,),
    "no_scale_embedding": (False,),
    "layernorm_embedding": (False,),
    "adaptive_input": (False,),
    "adaptive_softmax_cutoff": (None, ""),
    "char_inputs": (False,),
    "character_embeddings": (False,),
    "no_cross_attention": (False,),
    "cross_self_attention": (False,),
    "no_decoder_final_norm": (False,),
    "lang_tok_replacing_bos_eos": (False,),
    "encoder_layers_to_keep": (None, ""),
    "decoder_layers_to_keep": (None, ""),
    "base_layers": (0,),
    "moe_freq": (0,),
    "scale_attn": (False,),
    "scale_fc": (False,),
    "scale_heads": (False,),
    "scale_resids": (False,),
    "merge_src_tgt_embed": (False,),
    "prepend_bos": (False,),
}
_NEEDS = {
    "task": "the tokens by which other tasks name languages",
    "no_token_positional_embeddings": "a model without positions",
    "no_scale_embedding": "embeddings that are not multiplied by sqrt(d_model)",
    "layernorm_embedding": "a norm of the embeddings",
    "adaptive_input": "embeddings of several sizes",
    "adaptive_softmax_cutoff": "an adaptive softmax",
    "char_inputs": "a network that reads characters",
    "no_cross_attention": "a decoder without cross-attention",
    "cross_self_attention": "cross-attention that also attends to the target",
    "no_decoder_final_norm": "pre-norm without a final norm",
    "encoder_layers_to_keep": "layers left out (LayerDrop)",
    "decoder_layers_to_keep": "layers left out (LayerDrop)",
    "base_layers": "layers with experts",
    "moe_freq": "layers with experts",
    "scale_heads": "a factor per head",
    "scale_resids": "a factor per residual",
    "prepend_bos": "bos before the source",
}


def model_config(settings: Mapping[str, Any], tensors: Mapping[str, Array], name: str) -> ModelConfig:
    """The settings of a model, but for the tying of its embeddings.

    Args:
        settings: those of the model and its task.
        tensors: by name; learned positions tell their number.
        name: of the file, for errors.

    Raises:
        CheckpointError: a setting is unknown here or missing. The message names it.
    """
    architecture = settings.get("arch", settings.get("_name", "transformer"))
    if not isinstance(architecture, str) or "transformer" not in architecture:
        raise CheckpointError(f"{name}: has arch: {shown(architecture)}, which nmt does not have: it has Transformers.")
    check_settings(settings, _EXPECTED, _NEEDS, name)
    sizes = ("encoder_embed_dim", "decoder_embed_dim", "decoder_input_dim", "decoder_output_dim")
    is_learned = bool(
        check_equal(settings, ("encoder_learned_pos", "decoder_learned_pos"), "positions of two kinds", name)
    )
    is_pre = bool(
        check_equal(settings, ("encoder_normalize_before", "decoder_normalize_before"), "norms in two places", name)
    )
    heads = ("encoder_attention_heads", "decoder_attention_heads")
    inner = ("encoder_ffn_embed_dim", "decoder_ffn_embed_dim")
    return model_settings(
        name,
        encoder_layers=settings.get("encoder_layers"),
        decoder_layers=settings.get("decoder_layers"),
        d_model=check_equal(settings, sizes, "an encoder and a decoder of different sizes", name),
        d_ff=check_equal(settings, inner, "feed-forward networks of different sizes", name),
        heads=check_equal(settings, heads, "different numbers of heads", name),
        norm="pre" if is_pre else "post",
        norm_epsilon=NORM_EPSILON,
        activation=choose(settings, "activation_fn", "relu", _ACTIVATIONS, name),
        positions="learned" if is_learned else "tensor2tensor",
        first_position=0 if is_learned else FIRST_POSITION,
        max_positions=_learned_positions(tensors) if is_learned else _max_positions(settings),
        output_bias=True,  # bos, which is a copy of eos, must never be predicted
    )


def _max_positions(settings: Mapping[str, Any]) -> int:
    limits = [settings.get(key) for key in ("max_source_positions", "max_target_positions")]
    return min([MAX_POSITIONS, *(limit for limit in limits if isinstance(limit, int) and limit > 1)])


def _learned_positions(tensors: Mapping[str, Array]) -> int:
    tables = [tensors.get(f"{part}.embed_positions.weight") for part in ("encoder", "decoder")]
    return min((len(table) - FIRST_POSITION for table in tables if table is not None and table.ndim), default=0)
