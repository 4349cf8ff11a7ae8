"""What config.json and generation_config.json of a MarianMT mean in our settings.

A setting that we cannot express is refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from nmt.config import DecodingConfig, ModelConfig
from nmt.convert.settings import model_settings, unused_remarks
from nmt.errors import CheckpointError

NORM_EPSILON = 1e-5
"""MarianMT's layer norms have no setting for it."""
Activation = Literal["relu", "swish", "gelu", "quick_gelu"]
ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "swish": "swish",
    "silu": "swish",
    "gelu": "gelu",
    "quick_gelu": "quick_gelu",
}
# Setting -> the only values that MarianMT computes with, the first one by default. Older versions had more.
_EXPECTED: dict[str, tuple[Any, ...]] = {
    "model_type": ("marian",),
    "is_encoder_decoder": (True,),
    "static_position_embeddings": (True,),
    "normalize_embedding": (False,),
    "normalize_before": (False,),
    "add_final_layer_norm": (False,),
    "quantization_config": (None,),
}
# Options of transformers' search that a bundle does not keep -> the values without effect.
_SEARCH: dict[str, tuple[Any, ...]] = {
    "do_sample": (False,),
    "num_beam_groups": (1,),
    "repetition_penalty": (1.0,),
    "encoder_repetition_penalty": (1.0,),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "min_length": (0,),
}
_ARCHITECTURE = "MarianMTModel"
_LONGEST_SHOWN = 80


@dataclass(frozen=True)
class MarianSettings:
    """The settings of a MarianMT that decide what it computes."""

    values: Mapping[str, Any]
    name: str
    """Of the file, for errors."""

    def __post_init__(self) -> None:
        for key, allowed in _EXPECTED.items():
            if (value := self.values.get(key, allowed[0])) not in allowed:
                raise self.refused(key, value, f"nmt imports only MarianMT with {key}: {_json(allowed[0])}")
        architectures = self.values.get("architectures") or [_ARCHITECTURE]
        if not isinstance(architectures, list) or _ARCHITECTURE not in architectures:
            raise self.refused("architectures", architectures, f"nmt imports only {_ARCHITECTURE}")
        for what in ("attention_heads", "ffn_dim"):
            encoder, decoder = self.size(f"encoder_{what}"), self.size(f"decoder_{what}")
            if encoder != decoder:
                raise self.refused(f"decoder_{what}", decoder, f"nmt needs that of the encoder, {encoder}")

    def refused(self, key: str, value: object, reason: str) -> CheckpointError:
        """The error for a setting that we cannot express."""
        return CheckpointError(f"{self.name}: has {key}: {_json(value)}, but {reason}.")

    def size(self, key: str) -> int:
        """A whole number above 0.

        Raises:
            CheckpointError: it is missing, or something else.
        """
        value = self.values.get(key)
        if type(value) is not int or not 0 < value < 1 << 31:
            raise self.refused(key, value, "expected a whole number above 0")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """True or false.

        Raises:
            CheckpointError: it is something else.
        """
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise self.refused(key, value, "expected true or false")
        return value

    @property
    def activation(self) -> Activation:
        """The function inside the feed-forward sub-layer.

        Raises:
            CheckpointError: we do not have it.
        """
        value = self.values.get("activation_function", "gelu")
        if not isinstance(value, str) or value not in ACTIVATIONS:
            raise self.refused("activation_function", value, f"nmt has {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[value]

    @property
    def vocabulary_sizes(self) -> tuple[int, int]:
        """Number of source and target pieces."""
        source = self.size("vocab_size")
        return source, self.size("decoder_vocab_size") if self.values.get("decoder_vocab_size") else source

    def model_config(
        self,
        *,
        positions: Literal["sinusoidal_halves", "learned"],
        tied: Literal["all", "decoder", "none"],
        start: Literal["bos", "zero"],
    ) -> ModelConfig:
        """The settings of the model.

        Args:
            positions, tied, start: as the tensors tell.

        Raises:
            CheckpointError: a size is missing or impossible.
        """
        return model_settings(
            self.name,
            encoder_layers=self.size("encoder_layers"),
            decoder_layers=self.size("decoder_layers"),
            d_model=self.size("d_model"),
            d_ff=self.size("encoder_ffn_dim"),
            heads=self.size("encoder_attention_heads"),
            norm_epsilon=NORM_EPSILON,
            activation=self.activation,
            positions=positions,
            max_positions=self.size("max_position_embeddings"),
            tied_embeddings=tied,
            output_bias=True,
            decoder_start=start,
        )


@dataclass(frozen=True)
class GenerationSettings:
    """The settings of the search: generation_config.json, or in older folders config.json."""

    values: Mapping[str, Any]
    config: Mapping[str, Any]
    """config.json, which has some of them too."""
    name: str
    """Of the file, for errors."""

    def piece(self, key: str, count: int) -> int:
        """The id of a special piece.

        Args:
            count: number of pieces.

        Raises:
            CheckpointError: it is missing, or the two files contradict each other.
        """
        given = [value for values in (self.values, self.config) if (value := values.get(key)) is not None]
        if not given or any(type(value) is not int or value != given[0] or not 0 <= value < count for value in given):
            found = " and ".join(_json(value) for value in given) or "missing"
            raise CheckpointError(
                f"{self.name}: {key} is {found}; expected one id below {count:,}, the same as in config.json. Correct "
                "it there."
            )
        return int(given[0])

    def decoding(self) -> DecodingConfig:
        """The options of the search: transformers divides scores by length^length_penalty.

        Raises:
            CheckpointError: an option is impossible in ours.
        """
        beam, penalty = self._get("num_beams", 1), self._get("length_penalty", 1.0)
        try:
            return DecodingConfig(beam=beam, length_penalty=penalty, normalization="length")
        except ValidationError as error:
            key = "num_beams" if error.errors()[0]["loc"] == ("beam",) else "length_penalty"
            raise CheckpointError(
                f"{self.name}: has {key}: {_json(self._get(key, None))}; {error.errors()[0]['msg']}. Change it there."
            ) from None

    def remarks(self) -> Iterator[str]:
        """What users must know about options of the search that a bundle does not keep."""
        options = {key: self._get(key, None) for key in _SEARCH}
        return unused_remarks(options, _SEARCH, Path(self.name).name, "transformers")

    def check_suppressed(self, allowed: set[int]) -> None:
        """Check that no piece is suppressed but those that our search never emits either.

        Args:
            allowed: the ids of pad, unk and the piece that the decoder reads first.

        Raises:
            CheckpointError: another piece is suppressed, or forced. The message names the setting.
        """
        if (forced := self._get("forced_bos_token_id", None)) is not None:
            raise self._unknown("forced_bos_token_id", forced, "nmt forces no first piece")
        suppressed = self._get("suppress_tokens", None) or []
        sequences = self._get("bad_words_ids", None) or []
        if not isinstance(suppressed, list) or not isinstance(sequences, list):
            raise self._unknown("bad_words_ids and suppress_tokens", [sequences, suppressed], "expected lists of ids")
        known = [[one] for one in allowed]
        for key, found in (("suppress_tokens", [[one] for one in suppressed]), ("bad_words_ids", sequences)):
            for sequence in found:
                if sequence not in known:
                    raise self._unknown(key, sequence, "nmt suppresses only pad, unk and the decoder's first piece")

    def _get(self, key: str, default: Any) -> Any:
        value = self.values.get(key, self.config.get(key) if not self.values else None)
        return default if value is None else value

    def _unknown(self, key: str, value: object, reason: str) -> CheckpointError:
        return CheckpointError(f"{self.name}: has {key}: {_json(value)}, but {reason}. Remove it there to import.")


def _json(value: object) -> str:
    """A value as it stands in the file, in ASCII, cut off if it is long."""
    return json.dumps(value)[:_LONGEST_SHOWN]
