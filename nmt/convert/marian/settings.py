"""What Marian's settings of a model mean in ours. A setting that we cannot express is refused by name."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Literal

from nmt.config import ModelConfig
from nmt.convert.settings import MAX_POSITIONS, check_settings, choose, model_settings
from nmt.errors import CheckpointError

DECODES_OTHERWISE = (
    "Marian (as of 1.12) decodes pre-norm models differently from how it trains them: after the first piece, the "
    "decoder's self-attention reads keys and values that are not normalised. nmt computes the model as it was trained, "
    "so translations differ from Marian's."
)
"""A remark on pre-norm models."""
NORM_EPSILON = 1e-6
_ACTIVATIONS = {"relu": "relu", "swish": "swish", "gelu": "gelu"}
# Setting -> the values that make no difference to our model. The first one is Marian's default.
_EXPECTED: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-attention-mask": ("default",),
    # Marian multiplies embeddings by sqrt(dim-emb) only where it adds sinusoids (addPositionalEmbeddings).
    "transformer-train-position-embeddings": (False,),
    "transformer-disable-position-embeddings": (False,),
    "transformer-alibi-shift": (False,),
    "transformer-no-affine": (False,),
    "transformer-no-bias": (False,),
    "transformer-no-projection": (False,),
    "transformer-pool": (False,),
    "transformer-tied-layers": ([],),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-postprocess-emb": ("d", ""),
    "factors-dim-emb": (0,),
    "lemma-dim-emb": (0,),
    "ulr": (False,),
    "input-types": ([],),
    "right-left": (False,),
}
_NEEDS = {
    "transformer-decoder-autoreg": "a decoder of another kind (rnn with ssru: students of the Bergamot project)",
    "transformer-attention-mask": "another attention mask",
    "transformer-train-position-embeddings": "embeddings that are not multiplied by sqrt(d_model)",
    "transformer-tied-layers": "layers that share their weights",
    "transformer-postprocess-emb": "a norm of the embeddings",
    "right-left": "writing from right to left",
}


def model_config(settings: Mapping[str, Any], tensors: Container[str], name: str) -> ModelConfig:
    """The settings of a model.

    Args:
        settings: those of ``special:model.yml``.
        tensors: the names of all tensors, which tell how embeddings are tied.
        name: of the file, for errors.

    Raises:
        CheckpointError: a setting is unknown here or missing. The message names it.
    """
    check_settings(settings, _EXPECTED, _NEEDS, name)
    return model_settings(
        name,
        encoder_layers=settings.get("enc-depth"),
        decoder_layers=settings.get("dec-depth"),
        d_model=settings.get("dim-emb"),
        d_ff=settings.get("transformer-dim-ffn"),
        heads=settings.get("transformer-heads"),
        norm=_norm_place(settings, name),
        norm_epsilon=NORM_EPSILON,
        activation=choose(settings, "transformer-ffn-activation", "swish", _ACTIVATIONS, name),
        positions="tensor2tensor",
        max_positions=MAX_POSITIONS,
        tied_embeddings=_tied(tensors),
        output_bias=True,
        decoder_start="zero",
    )


def _norm_place(settings: Mapping[str, Any], name: str) -> Literal["post", "pre"]:
    """Where layers are normalised: Marian spells the steps before and after a sub-layer as letters."""
    steps = tuple(str(settings.get(f"transformer-{place}") or "") for place in ("preprocess", "postprocess"))
    without_dropout = tuple("".join(letter for letter in step if letter != "d") for step in steps)
    top = str(settings.get("transformer-postprocess-top") or "").replace("d", "")
    match (*without_dropout, top):
        case ("", "an", ""):
            return "post"
        case ("n", "a", "n"):
            return "pre"
    raise CheckpointError(
        f"{name}: has transformer-preprocess: {steps[0]!r}, transformer-postprocess: {steps[1]!r} and "
        f"transformer-postprocess-top: {top!r}, which nmt does not have. It has post-norm ('', 'dan', '') and pre-norm "
        "('n', 'da', 'n')."
    )


def _tied(tensors: Container[str]) -> Literal["all", "decoder", "none"]:
    if "decoder_ff_logit_out_Wt" in tensors:
        return "none"
    return "all" if "Wemb" in tensors else "decoder"
