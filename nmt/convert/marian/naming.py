"""The names of Marian's tensors."""

from __future__ import annotations

from collections.abc import Container

from nmt.convert.foreign import PROJECTIONS, Naming, matrices

UNTIED_OUTPUT = "decoder_ff_logit_out_Wt"
"""The output projection, where it is not the target embedding."""
OUTPUT_BIAS_NAME = "decoder_ff_logit_out_b"


def marian_naming(tensors: Container[str], norm: str) -> Naming:
    """Where Marian keeps each tensor.

    Args:
        tensors: the names of a model's tensors, which tell how its embeddings are tied.
        norm: ``pre`` or ``post``.
    """
    place = "_pre" if norm == "pre" else ""
    names = {}
    for part in ("encoder", "decoder"):
        layer = f"{part}_l{{n}}"
        attentions = {"self": "self_attention"} | ({"context": "cross_attention"} if part == "decoder" else {})
        for theirs, ours in attentions.items():
            for letter, projection in zip("qkvo", (*PROJECTIONS, "output"), strict=True):
                names[f"{part}.{{n}}.{ours}.{projection}.weight"] = f"{layer}_{theirs}_W{letter}"
                names[f"{part}.{{n}}.{ours}.{projection}.bias"] = f"{layer}_{theirs}_b{letter}"
            names |= _norm(f"{part}.{{n}}.{ours}_norm", f"{layer}_{theirs}_Wo_ln", place)
        for number, ours in (("1", "inner"), ("2", "output")):
            names[f"{part}.{{n}}.feed_forward.{ours}.weight"] = f"{layer}_ffn_W{number}"
            names[f"{part}.{{n}}.feed_forward.{ours}.bias"] = f"{layer}_ffn_b{number}"
        names |= _norm(f"{part}.{{n}}.feed_forward_norm", f"{layer}_ffn_ffn_ln", place)
        names |= _norm(f"{part}_norm", f"{part}_top_ln", "")
    source, target = (name if name in tensors else "Wemb" for name in ("encoder_Wemb", "decoder_Wemb"))
    output = UNTIED_OUTPUT if UNTIED_OUTPUT in tensors else target
    names |= matrices(source, target, output, bias=OUTPUT_BIAS_NAME if OUTPUT_BIAS_NAME in tensors else None)
    return Naming(names, first_layer=1, is_transposed=True)


def _norm(ours: str, theirs: str, place: str) -> dict[str, str]:
    return {f"{ours}.weight": f"{theirs}_scale{place}", f"{ours}.bias": f"{theirs}_bias{place}"}
