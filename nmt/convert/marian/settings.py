"""What Marian's settings of a model mean in ours. A setting that we cannot express is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from nmt.config import ModelConfig
from nmt.errors import CheckpointError

DECODES_OTHERWISE = (
    "Marian (as of 1.12) decodes a pre-norm model otherwise than it trains it: after the first piece, the decoder's "
    "self-attention reads keys and values that are not normalised. nmt computes the model as it was trained, so "
    "translations differ from Marian's."
)
"""A remark on pre-norm models."""
MAX_POSITIONS = 1024
"""Marian's sinusoids have no end; its default of ``--max-length`` is 1,000 words."""
NORM_EPSILON = 1e-6
_ACTIVATIONS: dict[str, Literal["relu", "swish", "gelu"]] = {"relu": "relu", "swish": "swish", "gelu": "gelu"}
# Setting -> the values that make no difference to our model.
_EXPECTED: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-attention-mask": ("default",),
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
    "transformer-tied-layers": "layers that share their weights",
    "transformer-postprocess-emb": "a norm of the embeddings",
    "right-left": "writing from right to left",
}


def model_config(settings: Mapping[str, Any], tensors: Mapping[str, Any], name: str) -> ModelConfig:
    """The settings of a model.

    Args:
        settings: those of ``special:model.yml``.
        tensors: by name; they tell how embeddings are tied.
        name: of the file, for errors.

    Raises:
        CheckpointError: a setting is unknown here or missing. The message names it.
    """
    for key, allowed in _EXPECTED.items():
        value = settings.get(key, allowed[0])
        if value not in allowed and not (value is None and allowed[0] in ("", [], False)):
            needs = f" It would need {_NEEDS[key]}." if key in _NEEDS else ""
            raise CheckpointError(f"{name}: has {key}: {value}, which nmt does not have.{needs}")
    try:
        learned = bool(settings.get("transformer-train-position-embeddings", False))
        if learned and "Wpos" not in tensors:
            raise CheckpointError(
                f"{name}: has transformer-train-position-embeddings, but no tensor Wpos with learned positions."
            )
        return ModelConfig(
            encoder_layers=settings["enc-depth"],
            decoder_layers=settings["dec-depth"],
            d_model=settings["dim-emb"],
            d_ff=settings["transformer-dim-ffn"],
            heads=settings["transformer-heads"],
            norm=_norm_place(settings, name),
            norm_epsilon=NORM_EPSILON,
            activation=_activation(settings, name),
            positions="learned" if learned else "tensor2tensor",
            max_positions=len(tensors.get("Wpos", ())) if learned else MAX_POSITIONS,
            tied_embeddings=_tied(tensors),
            output_bias=True,
            decoder_start="zero",
        )
    except KeyError as error:
        raise CheckpointError(f"{name}: its settings lack {error}: was it written by Marian 1.5 or newer?") from None


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


def _activation(settings: Mapping[str, Any], name: str) -> Literal["relu", "swish", "gelu"]:
    activation = settings.get("transformer-ffn-activation", "swish")
    if activation not in _ACTIVATIONS:
        raise CheckpointError(
            f"{name}: has transformer-ffn-activation: {activation}; nmt has {', '.join(_ACTIVATIONS)}."
        )
    return _ACTIVATIONS[activation]


def _tied(tensors: Mapping[str, Any]) -> Literal["all", "decoder", "none"]:
    if "decoder_ff_logit_out_Wt" in tensors:
        return "none"
    return "all" if "Wemb" in tensors else "decoder"
