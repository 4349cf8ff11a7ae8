"""An independent forward pass of another toolkit's model, in float64 with NumPy, from its own tensors and ids.

It shares no code with our model: it is what the certificate compares with where the toolkit itself is not installed. No
caches, no batches: each call computes one pair of sentences.

Shapes: S source pieces, T target pieces, D d_model, H heads, K size of a head, V vocabulary, I pairs of features.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from nmt.convert.foreign import OUTPUT, OUTPUT_BIAS, POSITIONS, SOURCE_EMBEDDING, TARGET_EMBEDDING, ForeignModel

Floats = NDArray[np.float64]
_ERROR_FUNCTION = np.vectorize(math.erf, otypes=[np.float64])
_ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "relu": lambda x: np.maximum(x, 0),
    "swish": lambda x: x / (1 + np.exp(-x)),
    "quick_gelu": lambda x: x / (1 + np.exp(-1.702 * x)),
    "gelu": lambda x: x * (1 + _ERROR_FUNCTION(x / math.sqrt(2))) / 2,
}


class Reference:
    """The forward pass of one foreign model."""

    def __init__(self, model: ForeignModel) -> None:
        self._model, self._config = model, model.config
        self._source_ids = {piece: index for index, piece in enumerate(model.source.pieces)}
        self._target_ids = {piece: index for index, piece in enumerate(model.target.pieces)}

    def encode(self, pieces: Sequence[str]) -> Floats:
        """The encoder's states (S, D) of a source, with eos if the model reads it."""
        end = [self._model.source.eos] if self._config.source_eos or not pieces else []
        ids = [self._source_ids[piece] for piece in (*pieces, *end)]
        x_SD = self._embed(SOURCE_EMBEDDING, ids) + self._positions(len(ids), POSITIONS[0])
        for layer in range(self._config.encoder_layers):
            x_SD = self._attend(x_SD, None, f"encoder.{layer}.self_attention", is_causal=False)
            x_SD = self._feed_forward(x_SD, f"encoder.{layer}.feed_forward")
        return self._norm(x_SD, "encoder_norm") if self._is_pre else x_SD

    def decode(self, pieces: Sequence[str], memory_SD: Floats) -> Floats:
        """The log-probabilities (T + 1, V) of each next piece, after the start and after each piece of a target."""
        start = None if self._model.config.decoder_start == "zero" else self._model.start
        ids = [None if start is None else self._target_ids[start], *(self._target_ids[piece] for piece in pieces)]
        x_TD = self._embed(TARGET_EMBEDDING, ids) + self._positions(len(ids), POSITIONS[1])
        for layer in range(self._config.decoder_layers):
            x_TD = self._attend(x_TD, None, f"decoder.{layer}.self_attention", is_causal=True)
            x_TD = self._attend(x_TD, memory_SD, f"decoder.{layer}.cross_attention", is_causal=False)
            x_TD = self._feed_forward(x_TD, f"decoder.{layer}.feed_forward")
        if self._is_pre:
            x_TD = self._norm(x_TD, "decoder_norm")
        logits_TV = x_TD @ self._output.T
        if (bias_V := self._parameter(OUTPUT_BIAS)) is not None:
            logits_TV = logits_TV + bias_V
        shifted_TV = logits_TV - logits_TV.max(axis=1, keepdims=True)
        log_probabilities: Floats = shifted_TV - np.log(np.exp(shifted_TV).sum(axis=1, keepdims=True))
        return log_probabilities

    @property
    def _is_pre(self) -> bool:
        return self._config.norm == "pre"

    @functools.cached_property
    def _output(self) -> Floats:
        return self._present(OUTPUT)

    def _parameter(self, name: str) -> Floats | None:
        array = self._model.parameter(name)
        return None if array is None else array.astype(np.float64)

    def _present(self, name: str) -> Floats:
        array = self._parameter(name)
        assert array is not None, name
        return array

    def _embed(self, matrix: str, ids: Sequence[int | None]) -> Floats:
        """The vectors of pieces (T, D), multiplied by sqrt(d_model); zeros for None."""
        rows_VD = self._model.parameter(matrix)
        assert rows_VD is not None
        known_T = np.array([index is not None for index in ids])
        vectors_TD = rows_VD[[index or 0 for index in ids]].astype(np.float64)
        found: Floats = vectors_TD * known_T[:, None] * math.sqrt(self._config.d_model)
        return found

    def _positions(self, length: int, table: str) -> Floats:
        width, kind = self._config.d_model, self._config.positions
        if kind == "learned":
            return self._present(table)[:length]
        pair_I = np.arange(width // 2)
        exponent_I = pair_I / (width / 2 - 1) if kind == "tensor2tensor" else 2 * pair_I / width
        angle_TI = (np.arange(length) + self._config.first_position)[:, None] / 10_000**exponent_I
        table_TD = np.empty((length, width))
        if kind == "sinusoidal":
            table_TD[:, ::2], table_TD[:, 1::2] = np.sin(angle_TI), np.cos(angle_TI)
        else:
            table_TD[:, : width // 2], table_TD[:, width // 2 :] = np.sin(angle_TI), np.cos(angle_TI)
        return table_TD

    def _attend(self, x_TD: Floats, memory_SD: Floats | None, module: str, *, is_causal: bool) -> Floats:
        """A sub-layer of attention to a memory, or to the sub-layer's own input."""
        normed_TD = self._norm(x_TD, f"{module}_norm") if self._is_pre else x_TD
        keys_SD = normed_TD if memory_SD is None else memory_SD
        query, key, value = (
            self._linear(rows, f"{module}.{name}").reshape(len(rows), self._config.heads, -1).transpose(1, 0, 2)
            for name, rows in (("query", normed_TD), ("key", keys_SD), ("value", keys_SD))
        )
        scores_HTS = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
        if is_causal:
            scores_HTS = np.where(np.tri(len(x_TD), dtype=bool), scores_HTS, -np.inf)
        weights_HTS = np.exp(scores_HTS - scores_HTS.max(axis=-1, keepdims=True))
        weights_HTS /= weights_HTS.sum(axis=-1, keepdims=True)
        mixed_TD = (weights_HTS @ value).transpose(1, 0, 2).reshape(len(x_TD), -1)
        sum_TD = x_TD + self._linear(mixed_TD, f"{module}.output")
        return sum_TD if self._is_pre else self._norm(sum_TD, f"{module}_norm")

    def _feed_forward(self, x_TD: Floats, module: str) -> Floats:
        normed_TD = self._norm(x_TD, f"{module}_norm") if self._is_pre else x_TD
        hidden_TF = _ACTIVATIONS[self._config.activation](self._linear(normed_TD, f"{module}.inner"))
        sum_TD = x_TD + self._linear(hidden_TF, f"{module}.output")
        return sum_TD if self._is_pre else self._norm(sum_TD, f"{module}_norm")

    def _linear(self, x: Floats, module: str) -> Floats:
        product: Floats = x @ self._present(f"{module}.weight").T
        bias = self._parameter(f"{module}.bias")
        return product if bias is None else product + bias

    def _norm(self, x: Floats, module: str) -> Floats:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred**2).mean(axis=-1, keepdims=True)
        normed: Floats = centred / np.sqrt(variance + self._config.norm_epsilon)
        scaled: Floats = normed * self._present(f"{module}.weight") + self._present(f"{module}.bias")
        return scaled
