"""What config.json of Eole says.

It holds only what a user set, so the defaults are here. The encoder, the decoder and the embeddings take over what
``model`` sets and they do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nmt.convert.foreign import Part
from nmt.convert.messages import shown
from nmt.convert.settings import check_equal, version_of
from nmt.errors import CheckpointError

PARTS: tuple[Part, ...] = ("encoder", "decoder")
EMBEDDINGS = "embeddings"
_DEFAULTS = {"layers": 2, "hidden_size": 512, "heads": 8, "transformer_ff": 2048, "mlp_activation_fn": "relu"}
_UNSET_IF_NEGATIVE = ("layers", "hidden_size", "transformer_ff", "word_vec_size")
_BIASES: dict[str, tuple[str, ...]] = {
    "linear_query": ("add_qkvbias",),
    "linear_keys": ("add_key_bias", "add_qkvbias"),
    "linear_values": ("add_qkvbias",),
    "final_linear": ("add_final_linear_bias", "add_qkvbias"),
    "gate_up_proj": ("add_ffnbias",),
    "down_proj": ("add_ffnbias",),
}
"""Projection -> the setting that tells whether it has a bias, and the one that does where that is not set."""


@dataclass(frozen=True)
class EoleSettings:
    """The settings of config.json that tell of the model."""

    model: Mapping[str, Any]
    training: Mapping[str, Any]
    inference: Mapping[str, Any]
    name: str
    """Of the file, for errors."""

    @classmethod
    def of(cls, values: Mapping[str, Any], name: str) -> EoleSettings:
        """The settings of a config.json.

        Raises:
            CheckpointError: it has no model.
        """
        if not isinstance(values.get("model"), dict):
            raise CheckpointError(f"{name}: has no settings of a model: is it a model of Eole?")
        model, training, inference = (_mapping(values.get(key)) for key in ("model", "training", "inference"))
        return cls(model, training, inference, name)

    def section(self, section: str) -> Mapping[str, Any]:
        """``encoder``, ``decoder`` or ``embeddings`` of the model."""
        return _mapping(self.model.get(section))

    def of_section(self, section: str, key: str) -> Any:
        """A setting of ``encoder``, ``decoder`` or ``embeddings``: its own, the model's, or the default."""
        if key in self.section(section):
            return self.section(section)[key]
        value = self.model.get(key)
        is_unset = value is None or (key in _UNSET_IF_NEGATIVE and isinstance(value, int) and value < 0)
        return _DEFAULTS.get(key) if is_unset else value

    def common(self, key: str, needs: str) -> Any:
        """A setting that must be the same in encoder and decoder.

        Raises:
            CheckpointError: it is not. The message names both.
        """
        given = {f"model.{part}.{key}": self.of_section(part, key) for part in PARTS}
        return check_equal(given, tuple(given), needs, self.name)

    def head_size(self, part: Part) -> Any:
        """The size of a head; None if the settings are no numbers."""
        if (given := self.of_section(part, "head_dim")) is not None:
            return given
        size, heads = self.of_section(part, "hidden_size"), self.of_section(part, "heads")
        return size // heads if type(size) is type(heads) is int and heads > 0 else None

    def has_bias(self, part: Part, projection: str) -> bool:
        """Whether a projection of a layer has a bias."""
        found = (self.of_section(part, key) for key in _BIASES[projection])
        return bool(next((value for value in found if value is not None), False))

    @property
    def position_kind(self) -> Any:
        """``position_encoding_type``; None if there are no positions."""
        key = "position_encoding_type"
        has_it = key in self.section(EMBEDDINGS) or key in self.model
        return self.of_section(EMBEDDINGS, key) if has_it else "SinusoidalInterleaved"

    @property
    def is_normalized(self) -> bool:
        """Whether the sum of embeddings and positions is multiplied by sqrt(hidden_size)."""
        return bool(self.of_section(EMBEDDINGS, "normalize"))

    @property
    def eole_version(self) -> str | None:
        """The version that wrote the files, which they seldom tell."""
        return version_of(self.model.get("eole_version"))

    def flat(self) -> dict[str, Any]:
        """The settings of the model under names such as ``encoder.heads``."""
        sections = (*PARTS, EMBEDDINGS)
        flat = {key: value for key, value in self.model.items() if key not in sections or not isinstance(value, dict)}
        return flat | {f"{name}.{key}": value for name in sections for key, value in self.section(name).items()}

    def refused(self, key: str, value: object, needs: str) -> CheckpointError:
        """The error of a setting that ours cannot express."""
        return CheckpointError(
            f"{self.name}: has {key}: {shown(value)}, which nmt does not have. It would need {needs}."
        )


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
