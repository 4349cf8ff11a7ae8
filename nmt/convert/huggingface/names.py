"""The names of MarianMT's tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nmt.convert.foreign import ATTENTION, NORMS, Layout, Names, Part

_ATTENTIONS = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
_PROJECTIONS = dict(zip(ATTENTION, ("q_proj", "k_proj", "v_proj", "out_proj"), strict=True))
_FEED_FORWARD = {"feed_forward.inner": "fc1", "feed_forward.output": "fc2"}
_NORMS = {
    "self_attention_norm": "self_attn_layer_norm",
    "cross_attention_norm": "encoder_attn_layer_norm",
    "feed_forward_norm": "final_layer_norm",
}

SHARED = "model.shared.weight"
SOURCE_EMBEDDING = "model.encoder.embed_tokens.weight"
TARGET_EMBEDDING = "model.decoder.embed_tokens.weight"
OUTPUT = "lm_head.weight"
MATRICES = frozenset((SHARED, SOURCE_EMBEDDING, TARGET_EMBEDDING, OUTPUT))
"""The matrices of pieces. A file holds those that are one under one name, or under several."""
OUTPUT_BIAS = "final_logits_bias"
POSITIONS: dict[Part, str] = {
    "encoder": "model.encoder.embed_positions.weight",
    "decoder": "model.decoder.embed_positions.weight",
}


def _pair(part: Part, module: str) -> Names:
    name = f"model.{part}.layers.{{layer}}.{module}"
    return Names(f"{name}.weight", f"{name}.bias")


def _linears(part: Part) -> Iterator[tuple[tuple[Part, str], Names]]:
    for attention, theirs in _ATTENTIONS.items():
        if f"{attention}_norm" in NORMS[part]:
            for name, projection in _PROJECTIONS.items():
                yield (part, f"{attention}.{name}"), _pair(part, f"{theirs}.{projection}")
    for site, module in _FEED_FORWARD.items():
        yield (part, site), _pair(part, module)


_PARTS: tuple[Part, ...] = ("encoder", "decoder")
LINEARS = {site: names for part in _PARTS for site, names in _linears(part)}
"""Part and site -> names of matrix and bias, with ``{layer}``."""
LAYER_NORMS = {(part, site): _pair(part, _NORMS[site]) for part in _PARTS for site in NORMS[part]}
"""Part and site -> names of scale and bias, with ``{layer}``."""


def layout(
    positions: Mapping[Part, str],
    *,
    source: str = SHARED,
    target: str = SHARED,
    output: str = SHARED,
    output_bias: str | None = OUTPUT_BIAS,
) -> Layout:
    """Where MarianMT keeps each tensor.

    Args:
        positions: the names of positions that a model does not compute itself.
        source, target, output: the names of the matrices of pieces.
        output_bias: its name; None if there is none.
    """
    return Layout(LINEARS, LAYER_NORMS, source, target, output, output_bias, positions)
