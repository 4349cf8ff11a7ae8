"""What Sockeye's settings of a model mean in ours. A setting that we cannot express is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from nmt.config import ModelConfig
from nmt.convert.foreign import Array
from nmt.convert.messages import shown
from nmt.convert.settings import check_equal, check_settings, choose, model_settings, positions_of_tables
from nmt.errors import CheckpointError

NORM_EPSILON = 1e-6
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish1": "swish"}
_POSITIONS = {"fixed": "sinusoidal_halves", "learned": "learned"}
_EXPECTED: dict[str, tuple[Any, ...]] = {
    "lhuc": (False,),
    "neural_vocab_selection": (None, ""),
    "config_data.num_source_factors": (1,),
    "config_data.num_target_factors": (1,),
    "config_embed_source.num_factors": (1,),
    "config_embed_target.num_factors": (1,),
    "config_encoder.use_lhuc": (False,),
    "config_decoder.use_lhuc": (False,),
    "config_encoder.use_glu": (False,),
    "config_decoder.use_glu": (False,),
    "config_decoder.decoder_type": ("transformer",),
    "config_decoder.block_prepended_cross_attention": (False,),
}
_NEEDS = {
    "lhuc": "a factor per hidden unit",
    "neural_vocab_selection": "a network that chooses among target pieces",
    "config_data.num_source_factors": "source factors",
    "config_data.num_target_factors": "target factors",
    "config_embed_source.num_factors": "source factors",
    "config_embed_target.num_factors": "target factors",
    "config_encoder.use_lhuc": "a factor per hidden unit",
    "config_decoder.use_lhuc": "a factor per hidden unit",
    "config_encoder.use_glu": "a gated feed-forward network",
    "config_decoder.use_glu": "a gated feed-forward network",
    "config_decoder.decoder_type": "a recurrent decoder (SSRU)",
    "config_decoder.block_prepended_cross_attention": "another attention mask",
}
TABLES = ("encoder.pos_embedding.weight", "decoder.pos_embedding.weight")
"""The positions, learned or computed once."""
_PARTS = ("config_encoder", "config_decoder")


def model_config(settings: Mapping[str, Any], tensors: Mapping[str, Array], name: str) -> ModelConfig:
    """The settings of a model, but for the tying of its embeddings.

    Args:
        settings: those of the file ``config``, flat: ``config_encoder.model_size``.
        tensors: by name; learned positions tell their number.
        name: of the file, for errors.

    Raises:
        CheckpointError: a setting is unknown here or missing. The message names it.
    """
    check_settings(settings, _EXPECTED, _NEEDS, name)

    def same(key: str, needs: str) -> Any:
        return check_equal(settings, tuple(f"{part}.{key}" for part in _PARTS), needs, name)

    activation = {"act_type": same("act_type", "two kinds of activation")}
    positions = {"positional_embedding_type": same("positional_embedding_type", "positions of two kinds")}
    kind = choose(positions, "positional_embedding_type", "fixed", _POSITIONS, name)
    return model_settings(
        name,
        encoder_layers=settings.get("config_encoder.num_layers"),
        decoder_layers=settings.get("config_decoder.num_layers"),
        d_model=same("model_size", "an encoder and a decoder of different sizes"),
        d_ff=same("feed_forward_num_hidden", "feed-forward networks of different sizes"),
        heads=same("attention_heads", "different numbers of heads"),
        norm=_norm(settings, name),
        norm_epsilon=NORM_EPSILON,
        activation=choose(activation, "act_type", "relu", _ACTIVATIONS, name),
        positions=kind,
        max_positions=positions_of_tables(tensors, TABLES, kind),
        attention_bias=False,
        output_bias=True,
    )


def _norm(settings: Mapping[str, Any], name: str) -> Literal["pre", "post"]:
    """Where layers are normalised: Sockeye spells the steps before and after a sub-layer as letters."""
    steps = [
        tuple(str(settings.get(f"{part}.{place}process_sequence", default)) for place, default in _DEFAULT_STEPS)
        for part in _PARTS
    ]
    places = {tuple(step.replace("d", "") for step in of_part) for of_part in steps}
    if places == {("n", "r")}:
        return "pre"
    if places == {("", "rn")}:
        return "post"
    listed = ", ".join(
        f"{part}.{place}process_sequence: '{shown(step)}'"
        for part, of_part in zip(_PARTS, steps, strict=True)
        for (place, _), step in zip(_DEFAULT_STEPS, of_part, strict=True)
    )
    raise CheckpointError(
        f"{name}: has {listed}, which nmt does not have. It has pre-norm ('n', 'dr') and post-norm ('', 'drn')."
    )


_DEFAULT_STEPS = (("pre", "n"), ("post", "dr"))
