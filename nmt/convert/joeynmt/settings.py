"""What JoeyNMT's settings of a model mean in ours. A setting that we cannot express is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from nmt.config import DecodingConfig, ModelConfig
from nmt.convert.foreign import Array
from nmt.convert.messages import shown
from nmt.convert.settings import check_equal, check_settings, choose, model_settings, positions_of_tables
from nmt.errors import CheckpointError

NORM_EPSILON = 1e-6
TABLES = ("encoder.pe.pe", "decoder.pe.pe")
"""Sinusoids, computed once."""
_FINAL_NORMS = ("encoder.layer_norm.weight", "decoder.layer_norm.weight")
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish"}
_EXPECTED: dict[str, tuple[Any, ...]] = {"type": ("transformer",), "alpha": (1.0,)}
_NEEDS = {"type": "recurrent layers", "alpha": "a factor of the residual"}
_TEXT_EXPECTED: dict[str, tuple[Any, ...]] = {
    "level": ("word", "bpe"),
    "lowercase": (False,),
    "normalize": (False,),
    "tokenizer_cfg.pretokenizer": ("none",),
}
_TEXT_NEEDS = {
    "level": "text split into characters",
    "lowercase": "source text in lower case",
    "normalize": "JoeyNMT's normaliser",
    "tokenizer_cfg.pretokenizer": "Moses' tokeniser before SentencePiece",
}


def model_config(settings: Mapping[str, Any], tensors: Mapping[str, Array], name: str) -> ModelConfig:
    """The settings of a model, but for the tying of its embeddings.

    Args:
        settings: the part ``model`` of config.yaml.
        tensors: by name; they tell the number of positions, and whether encoder and decoder end with a norm.
        name: of the file, for errors.

    Raises:
        CheckpointError: a setting is unknown here or missing. The message names it.
    """
    both = {part: part_settings(settings, part) for part in ("encoder", "decoder")}
    merged = {f"{part}.{key}": value for part, values in both.items() for key, value in values.items()}
    for part, values in both.items():
        check_settings(values, _EXPECTED, _NEEDS, f"{name}, model.{part}")
        if values.get("embeddings.scale") is not True:
            raise CheckpointError(
                f"{name}: has model.{part}.embeddings.scale: {shown(values.get('embeddings.scale', False))}, which nmt "
                "does not have. It would need embeddings that are not multiplied by sqrt(d_model)."
            )

    def same(key: str, needs: str) -> Any:
        return check_equal(merged, (f"encoder.{key}", f"decoder.{key}"), needs, name)

    merged |= {f"{part}.activation": values.get("activation") or "relu" for part, values in both.items()}
    activation = same("activation", "two kinds of activation")
    sizes = tuple(f"{part}.{key}" for part in both for key in ("hidden_size", "embeddings.embedding_dim"))
    return model_settings(
        name,
        encoder_layers=both["encoder"].get("num_layers"),
        decoder_layers=both["decoder"].get("num_layers"),
        d_model=check_equal(merged, sizes, "embeddings of another size than the layers", name),
        d_ff=same("ff_size", "feed-forward networks of different sizes"),
        heads=same("num_heads", "different numbers of heads"),
        norm=_norm(both, all(norm in tensors for norm in _FINAL_NORMS), name),
        norm_epsilon=NORM_EPSILON,
        activation=choose({"activation": activation}, "activation", "relu", _ACTIVATIONS, name),
        positions="sinusoidal",
        max_positions=positions_of_tables(tensors, TABLES, "sinusoidal"),
    )


def part_settings(settings: Mapping[str, Any], part: str) -> dict[str, Any]:
    """The settings of encoder or decoder, those of its embeddings as ``embeddings.KEY``."""
    return with_part(settings.get(part), "embeddings")


def with_part(settings: Any, part: str) -> dict[str, Any]:
    """Settings, with those of a part within as ``PART.KEY``."""
    flat = dict(settings) if isinstance(settings, dict) else {}
    within = flat.pop(part, None)
    return flat | {f"{part}.{key}": value for key, value in (within if isinstance(within, dict) else {}).items()}


def _norm(both: Mapping[str, Mapping[str, Any]], has_final_norms: bool, name: str) -> Literal["pre", "post"]:
    """Where layers are normalised. JoeyNMT 1 has no setting for it: always before, and once at the end."""
    given = {part: values.get("layer_norm") for part, values in both.items()}
    places = list(given.values())
    if places == ["pre", "pre"] or (places == [None, None] and has_final_norms):
        return "pre"
    if places == ["post", "post"]:
        return "post"
    listed = ", ".join(f"model.{part}.layer_norm: {shown(value)}" for part, value in given.items())
    raise CheckpointError(
        f"{name}: has {listed}, which nmt does not have: it has pre and post, in encoder and decoder alike. Without a "
        "setting, JoeyNMT 2 normalises before the encoder's layers and after the decoder's."
    )


def decoding_config(settings: Mapping[str, Any]) -> DecodingConfig:
    """The settings of the search: the length penalty is the paper's, and off by default."""
    beam, alpha = settings.get("beam_size"), settings.get("beam_alpha", settings.get("alpha"))
    return DecodingConfig(
        beam=beam if isinstance(beam, int) and 1 <= beam <= 1_000 else 1,
        length_penalty=float(alpha) if isinstance(alpha, int | float) and 0 <= alpha <= 100 else 0.0,
    )


def check_text(settings: Mapping[str, Any], name: str, *, is_segmented_here: bool) -> None:
    """Refuse what JoeyNMT does to text before it segments it.

    Args:
        settings: the part ``data.src`` or ``data.trg`` of config.yaml, flat (:func:`with_part`).
        is_segmented_here: whether a SentencePiece model segments text; otherwise text comes as pieces.

    Raises:
        CheckpointError: text is changed. The message names the setting.
    """
    expected = _TEXT_EXPECTED if is_segmented_here else {"level": _TEXT_EXPECTED["level"]}
    check_settings(settings, expected, _TEXT_NEEDS, name)
