"""An independent forward pass of another toolkit's model, in float64 with NumPy, from its own tensors and ids.

It shares no code with our model: it is what the certificate compares with where the toolkit itself is not installed. No
caches, no batches: each call computes one pair of sentences.

Shapes: S source pieces, T target pieces, D d_model, H heads, K size of a head, V vocabulary.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from nmt.convert.foreign import Array, ForeignModel, Part

Floats = NDArray[np.float64]
_ERROR_FUNCTION = np.vectorize(math.erf, otypes=[np.float64])


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
        x_SD = self._embed(self._model.layout.source_embedding, ids, "encoder")
        for layer in range(self._config.encoder_layers):
            x_SD = self._attend(x_SD, x_SD, "encoder", layer, "self_attention", is_causal=False)
            x_SD = self._feed_forward(x_SD, "encoder", layer)
        return self._final_norm(x_SD, "encoder")

    def decode(self, pieces: Sequence[str], memory_SD: Floats) -> Floats:
        """The log-probabilities (T + 1, V) of each next piece, after the start and after each piece of a target."""
        start = self._model.start
        ids = [None if start is None else self._target_ids[start], *(self._target_ids[piece] for piece in pieces)]
        x_TD = self._embed(self._model.layout.target_embedding, ids, "decoder")
        for layer in range(self._config.decoder_layers):
            x_TD = self._attend(x_TD, x_TD, "decoder", layer, "self_attention", is_causal=True)
            x_TD = self._attend(x_TD, memory_SD, "decoder", layer, "cross_attention", is_causal=False)
            x_TD = self._feed_forward(x_TD, "decoder", layer)
        x_TD = self._final_norm(x_TD, "decoder")
        logits_TV = x_TD @ self._output.T
        if self._model.layout.output_bias is not None:
            logits_TV = logits_TV + self._tensor(self._model.layout.output_bias).reshape(-1)
        shifted_TV = logits_TV - logits_TV.max(axis=1, keepdims=True)
        log_probabilities: Floats = shifted_TV - np.log(np.exp(shifted_TV).sum(axis=1, keepdims=True))
        return log_probabilities

    @functools.cached_property
    def _output(self) -> Floats:
        return self._tensor(self._model.layout.output)

    def _tensor(self, name: str) -> Floats:
        return self._model.tensors[name].astype(np.float64)

    def _embed(self, matrix: str, ids: Sequence[int | None], part: Part) -> Floats:
        rows = self._model.tensors[matrix]
        vectors = [np.zeros(self._config.d_model) if index is None else rows[index].astype(np.float64) for index in ids]
        return np.stack(vectors) * math.sqrt(self._config.d_model) + self._positions(len(ids), part)

    def _positions(self, length: int, part: Part) -> Floats:
        if (learned := self._model.layout.positions.get(part)) is not None:
            first = self._model.layout.first_position_row
            return self._tensor(learned)[first : first + length]
        width, kind = self._config.d_model, self._config.positions
        table = np.empty((length, width))
        for position in range(length):
            for pair in range(width // 2):
                exponent = pair / (width / 2 - 1) if kind == "tensor2tensor" else 2 * pair / width
                angle = (position + self._config.first_position) / 10_000**exponent
                sine, cosine = (2 * pair, 2 * pair + 1) if kind == "sinusoidal" else (pair, pair + width // 2)
                table[position, sine], table[position, cosine] = math.sin(angle), math.cos(angle)
        return table

    def _attend(self, x_TD: Floats, memory_SD: Floats, part: Part, layer: int, site: str, *, is_causal: bool) -> Floats:
        is_pre, heads = self._config.norm == "pre", self._config.heads
        normed_TD = self._norm(x_TD, part, f"{site}_norm", layer) if is_pre else x_TD
        keys_SD = normed_TD if site == "self_attention" else memory_SD
        query, key, value = (
            self._linear(rows, part, layer, f"{site}.{name}").reshape(len(rows), heads, -1).transpose(1, 0, 2)
            for name, rows in (("query", normed_TD), ("key", keys_SD), ("value", keys_SD))
        )
        scores_HTS = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
        if is_causal:
            scores_HTS = np.where(np.tri(len(x_TD), dtype=bool), scores_HTS, -np.inf)
        weights_HTS = np.exp(scores_HTS - scores_HTS.max(axis=-1, keepdims=True))
        weights_HTS /= weights_HTS.sum(axis=-1, keepdims=True)
        mixed_TD = (weights_HTS @ value).transpose(1, 0, 2).reshape(len(x_TD), -1)
        sum_TD = x_TD + self._linear(mixed_TD, part, layer, f"{site}.output")
        return sum_TD if is_pre else self._norm(sum_TD, part, f"{site}_norm", layer)

    def _feed_forward(self, x_TD: Floats, part: Part, layer: int) -> Floats:
        is_pre = self._config.norm == "pre"
        normed_TD = self._norm(x_TD, part, "feed_forward_norm", layer) if is_pre else x_TD
        hidden_TF = self._activation(self._linear(normed_TD, part, layer, "feed_forward.inner"))
        sum_TD = x_TD + self._linear(hidden_TF, part, layer, "feed_forward.output")
        return sum_TD if is_pre else self._norm(sum_TD, part, "feed_forward_norm", layer)

    def _activation(self, x: Floats) -> Floats:
        functions: dict[str, Callable[[Floats], Floats]] = {
            "relu": lambda x: np.maximum(x, 0),
            "swish": lambda x: x / (1 + np.exp(-x)),
            "quick_gelu": lambda x: x / (1 + np.exp(-1.702 * x)),
            "gelu": lambda x: x * (1 + _ERROR_FUNCTION(x / math.sqrt(2))) / 2,
        }
        return functions[self._config.activation](x)

    def _linear(self, x: Floats, part: Part, layer: int, site: str) -> Floats:
        weight, bias = self._model.linear(part, layer, site)
        product: Floats = x @ weight.astype(np.float64).T
        return product if bias is None else product + bias

    def _final_norm(self, x: Floats, part: Part) -> Floats:
        return self._norm(x, part, "norm", 0) if self._config.norm == "pre" else x

    def _norm(self, x: Floats, part: Part, site: str, layer: int) -> Floats:
        scale, bias = self._model.norm(part, site, layer)
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred**2).mean(axis=-1, keepdims=True)
        normed: Floats = centred / np.sqrt(variance + self._config.norm_epsilon) * _wide(scale) + _wide(bias)
        return normed


def _wide(array: Array) -> Floats:
    return array.astype(np.float64)
