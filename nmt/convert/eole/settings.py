"""What Eole's settings of a model mean in ours."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from nmt.config import DecodingConfig, ModelConfig
from nmt.config.mistakes import first_mistake
from nmt.convert.completing import BEAM_OF_5
from nmt.convert.eole.config_file import EMBEDDINGS, PARTS, EoleSettings
from nmt.convert.eole.refusals import ACTIVATIONS
from nmt.convert.messages import shown
from nmt.convert.settings import check_equal, model_settings
from nmt.errors import CheckpointError

PROJECTIONS = ("linear_query", "linear_keys", "linear_values", "final_linear")
"""Of queries, keys, values and outputs."""
_OLD_EPSILON, _NEW_EPSILON = 1e-6, 1e-5
"""Before Eole 0.2, and since."""


@dataclass(frozen=True)
class Epsilon:
    """What norms add to the variance."""

    value: object
    is_told: bool
    """Whether the files tell it, by themselves or by the version of Eole that wrote them."""


def norm_epsilon(settings: EoleSettings, *, has_specials: bool, has_scalars: bool) -> Epsilon:
    """The epsilon of norms, whose default changed with Eole 0.2.

    Args:
        has_specials: whether vocab.json names the special pieces, as since Eole 0.0.3.
        has_scalars: whether layers of the decoder have a ``layer_scalar``, as since Eole 0.6.

    Raises:
        CheckpointError: encoder and decoder have different ones.
    """
    default = _default_epsilon(settings, has_specials=has_specials, has_scalars=has_scalars)
    given = {f"model.{part}.norm_eps": settings.of_section(part, "norm_eps") for part in PARTS}
    told = {key: default.value if value is None else value for key, value in given.items()}
    value = check_equal(told, tuple(told), "norms with two epsilons", settings.name)
    return Epsilon(value, is_told=default.is_told or None not in given.values())


def _default_epsilon(settings: EoleSettings, *, has_specials: bool, has_scalars: bool) -> Epsilon:
    if settings.eole_version is not None:
        is_old = settings.eole_version.startswith(("0.0.", "0.1."))
        return Epsilon(_OLD_EPSILON if is_old else _NEW_EPSILON, is_told=True)
    if not has_specials:
        return Epsilon(_OLD_EPSILON, is_told=True)
    is_new = has_scalars or "with_cross_attn" in settings.section("decoder")  # written since Eole 0.5
    return Epsilon(_NEW_EPSILON, is_told=is_new)


def model_config(settings: EoleSettings, epsilon: object, positions: str, max_positions: int) -> ModelConfig:
    """The settings of a model, but for the tying of its embeddings.

    Args:
        settings: those that ours can express.
        epsilon: of norms.
        positions: their kind, in our terms.
        max_positions: the maximum length.

    Raises:
        CheckpointError: a setting is impossible, or encoder and decoder differ. The message names it.
    """
    sizes = {f"model.{part}.hidden_size": settings.of_section(part, "hidden_size") for part in PARTS}
    words = {key: settings.of_section(EMBEDDINGS, key) for key in ("src_word_vec_size", "tgt_word_vec_size")}
    sizes |= {f"model.{EMBEDDINGS}.{key}": size for key, size in words.items()}
    d_model = check_equal(sizes, tuple(sizes), "vectors of different sizes", settings.name)
    heads = settings.common("heads", "different numbers of heads")
    head_sizes = {f"head size of {part}": settings.head_size(part) for part in PARTS}
    head_size = check_equal(head_sizes, tuple(head_sizes), "heads of different sizes", settings.name)
    is_usual = type(heads) is type(head_size) is int and heads * head_size == d_model
    activation = settings.common("mlp_activation_fn", "two activations") or "relu"
    has_bias = any(settings.has_bias(part, projection) for part in PARTS for projection in PROJECTIONS)
    return model_settings(
        settings.name,
        encoder_layers=settings.of_section("encoder", "layers"),
        decoder_layers=settings.of_section("decoder", "layers"),
        d_model=d_model,
        d_ff=settings.common("transformer_ff", "feed-forward networks of different sizes"),
        heads=heads,
        d_k=None if is_usual else head_size,
        d_v=None if is_usual else head_size,
        norm="pre",
        norm_epsilon=epsilon,
        activation=ACTIVATIONS[activation],
        positions=positions,
        max_positions=max_positions,
        attention_bias=has_bias,
        output_bias=True,
        source_eos=False,
    )


def decoding_config(settings: EoleSettings) -> DecodingConfig:
    """The options of the search. Eole divides scores by length^alpha, or by the paper's penalty.

    Raises:
        CheckpointError: an option is impossible in ours. The message names it.
    """
    given = settings.inference
    penalty = given.get("length_penalty", "avg")
    if penalty not in ("avg", "wu", "none"):
        raise CheckpointError(
            f"{settings.name}: has inference.length_penalty: {shown(penalty)}; nmt has avg, wu and none. Correct it "
            "there."
        )
    try:
        return DecodingConfig(
            beam=given.get("beam_size", BEAM_OF_5.beam),
            length_penalty=0 if penalty == "none" else given.get("alpha", 1),
            normalization="paper" if penalty == "wu" else "length",
        )
    except ValidationError as error:
        mistake = shown(first_mistake(error))
        raise CheckpointError(
            f"{settings.name}: has impossible options in inference. {mistake} Correct them."
        ) from None
