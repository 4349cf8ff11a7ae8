"""The Transformer (Vaswani et al. 2017, figure 1): encode, decode, and decode one step at a time.

Shapes: B sentences, S source pieces, T target pieces, D d_model, H heads, K size of a head's queries and keys,
V vocabulary (in ``logits``) or size of a head's values; N target and M source rows (see packing.py), in a search of
beam W those of its B · W hypotheses; X pieces written so far (see state.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nmt.config import ModelConfig
from nmt.model.attention import Attention
from nmt.model.dropout import Dropout
from nmt.model.embeddings import PositionEmbedding, TokenEmbedding
from nmt.model.layers import DecoderLayer, EncoderLayer, FeedForward
from nmt.model.packing import PAD, Packing
from nmt.model.state import DecodingState, LayerState


@dataclass(frozen=True)
class Encoded:
    """What the encoder made of a batch of sentences."""

    memory_MD: Tensor
    packing: Packing
    mask_B11S: Tensor
    """0 at pieces, -inf at padding."""


class Transformer(nn.Module):
    """Encoder and decoder over one shared vocabulary."""

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(vocab_size, config.d_model)
        if config.positions == "learned":
            self.source_positions = PositionEmbedding("learned", config.max_positions, config.d_model)
            self.target_positions = PositionEmbedding("learned", config.max_positions, config.d_model)
        else:
            self.source_positions = PositionEmbedding("sinusoidal", config.max_positions, config.d_model)
            self.target_positions = self.source_positions
        self.dropout = Dropout(config.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        # With pre-norm the residual stream itself is never normalised, so it is once at the end.
        is_pre = config.norm == "pre"
        self.encoder_norm = nn.LayerNorm(config.d_model, eps=config.norm_epsilon) if is_pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.d_model, eps=config.norm_epsilon) if is_pre else nn.Identity()
        self._has_spare_rows = False

    @property
    def vocab_size(self) -> int:
        """Number of pieces, without the rows that the embedding adds."""
        return self.embedding.vocab_size

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.embedding.weight.device

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> Tensor:
        """Logits (B, T, V) of each next piece; see :meth:`encode` and :meth:`decode`."""
        return self.decode(target_BT, self.encode(source_BS))

    def encode(self, source_BS: Tensor) -> Encoded:
        """Read sentences: pieces with eos, padded with 0 on the right."""
        mask_B11S = _additive(source_BS == PAD, self.embedding.weight.dtype)[:, None, None, :]
        packing = Packing.of(source_BS, has_spare_rows=self._has_spare_rows)
        x_MD = self.dropout(packing.pack(self.source_positions(self.embedding(source_BS))))
        for layer in self.encoder:
            x_MD = layer(x_MD, mask_B11S, packing)
        return Encoded(self.encoder_norm(x_MD), packing, mask_B11S)

    def decode(
        self, target_BT: Tensor, encoded: Encoded, *, watch: Callable[[int, Tensor], None] | None = None
    ) -> Tensor:
        """Logits (B, T, V) of the piece after each of ``target_BT`` (bos + pieces, padded with 0 on the right).

        Padding needs no mask of its own: it lies behind all that a piece may look at. Its own logits mean nothing.

        Args:
            watch: called for each layer, from 0, with the weights (B, H, T, S) of its attention over the encoder.
        """
        length = target_BT.shape[1]
        ahead_TT = torch.ones(length, length, dtype=torch.bool, device=target_BT.device).triu(1)
        causal_TT = _additive(ahead_TT, self.embedding.weight.dtype)
        packing = Packing.of(target_BT, has_spare_rows=self._has_spare_rows)
        x_ND = self.dropout(packing.pack(self.target_positions(self.embedding(target_BT))))
        for index, module in enumerate(self.decoder):
            layer = _decoder_layer(module)

            def attend_self(x_ND: Tensor, attention: Attention = layer.self_attention) -> Tensor:
                return attention.attend(*attention.project(x_ND, packing), causal_TT, packing)

            def attend_memory(x_ND: Tensor, attention: Attention = layer.cross_attention, index: int = index) -> Tensor:
                query = attention.project_query(x_ND, packing)
                key, value = attention.project_memory(encoded.memory_MD, encoded.packing)
                if watch is not None:
                    watch(index, attention.weights(query, key, encoded.mask_B11S))
                return attention.attend(query, key, value, encoded.mask_B11S, packing)

            x_ND = layer(x_ND, attend_self, attend_memory)
        x_ND = self.decoder_norm(x_ND)
        if self._has_spare_rows:
            return packing.pad(self.embedding.project(x_ND))
        # To pad logits would be to copy them, which are many times as wide.
        return self.embedding.project(packing.pad(x_ND))

    def start(self, encoded: Encoded) -> DecodingState:
        """The state before the first step: nothing written, the memory projected once for all steps and beams."""
        layers = tuple(
            LayerState.begin(*_decoder_layer(module).cross_attention.project_memory(encoded.memory_MD, encoded.packing))
            for module in self.decoder
        )
        past_BWX = encoded.mask_B11S.new_empty(encoded.packing.sentences, 1, 0)
        return DecodingState(0, layers, encoded.mask_B11S, past_BWX)

    def step(
        self, tokens_BW: Tensor, state: DecodingState, live_BW: Tensor | None = None
    ) -> tuple[Tensor, DecodingState]:
        """Read one more piece in each hypothesis; returns logits (N, V) of the next piece, and the state after it.

        Args:
            tokens_BW: for each sentence of the state as many pieces as it has hypotheses.
            live_BW: which of them go on, where that is not all: nothing is computed for the others, whose logits are 0.
        """
        beam = tokens_BW.shape[1]
        # The hypotheses of a sentence are so many queries, to the pieces that they wrote as to the memory.
        packing = Packing(len(tokens_BW), beam, live_BW, has_spare_rows=self._has_spare_rows)
        vectors_ND = self.target_positions(self.embedding(tokens_BW.view(-1, 1)), state.length)
        x_ND = self.dropout(packing.pack(vectors_ND.view(*tokens_BW.shape, -1)))
        past_BWX = state.past_and_present(beam)
        past_B1WX, written = past_BWX[:, None], state.written + beam
        layers = []
        for module, past in zip(self.decoder, state.layers, strict=True):
            layer = _decoder_layer(module)

            def attend_self(
                x_ND: Tensor, attention: Attention = layer.self_attention, past: LayerState = past
            ) -> Tensor:
                query, key, value = attention.project(x_ND, packing)
                now = past.append(state.written, key, value)
                layers.append(now)
                keys, values = now.self_key_BHXK[:, :, :written], now.self_value_BHXV[:, :, :written]
                return attention.attend(query, keys, values, past_B1WX, packing)

            def attend_memory(
                x_ND: Tensor, attention: Attention = layer.cross_attention, past: LayerState = past
            ) -> Tensor:
                return attention.attend(
                    attention.project_query(x_ND, packing),
                    past.memory_key_BHSK,
                    past.memory_value_BHSV,
                    state.memory_mask_B11S,
                    packing,
                )

            x_ND = layer(x_ND, attend_self, attend_memory)
        logits_NV = packing.pad(self.embedding.project(self.decoder_norm(x_ND))).flatten(0, 1)
        return logits_NV, DecodingState(state.length + 1, tuple(layers), state.memory_mask_B11S, past_BWX)

    def lay_out(self, dtype: torch.dtype) -> None:
        """Make ready to translate, and no longer to learn: products are made in ``dtype`` from now on, by weights that
        lie as this machine multiplies fastest. They take the place of the linear layers' own."""
        # oneDNN compiles its products for each number of rows, and keeps half a megabyte of each for ever.
        self._has_spare_rows = self.device.type == "cpu" and dtype != torch.int8
        self.embedding.lay_out(dtype)
        for module in self.modules():
            if isinstance(module, Attention | FeedForward):
                module.lay_out(dtype)

    def parameter_counts(self) -> dict[str, int]:
        """Trained numbers by part; a shared matrix counts once."""
        parts = {
            "embedding": self.embedding,
            "positions": nn.ModuleList([self.source_positions, self.target_positions]),
            "encoder": nn.ModuleList([self.encoder, self.encoder_norm]),
            "decoder": nn.ModuleList([self.decoder, self.decoder_norm]),
        }
        return {name: sum(p.numel() for p in part.parameters()) for name, part in parts.items()}


def _additive(forbidden: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where allowed, -inf where forbidden."""
    return torch.zeros(forbidden.shape, dtype=dtype, device=forbidden.device).masked_fill_(forbidden, -torch.inf)


def _decoder_layer(module: nn.Module) -> DecoderLayer:
    assert isinstance(module, DecoderLayer)
    return module
