"""The Transformer (Vaswani et al. 2017, figure 1): encode, decode, and decode one step at a time.

Shapes: B sentences, S source pieces, D d_model, V vocabulary, W hypotheses of a sentence (the beam); N target and M
source rows, one per piece of all sentences, or per hypothesis of a step (nmt/model/packing.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nmt.config import ModelConfig
from nmt.model.embeddings import PositionEmbedding, TokenEmbedding
from nmt.model.guiding import Guide
from nmt.model.layers import DecoderLayer, EncoderLayer, layer_norm
from nmt.model.masks import (
    AdditiveMask,
    Mask,
    PackedMask,
    PaddedMask,
    PaddedRows,
    StepAttention,
    causal_mask,
    source_mask,
)
from nmt.model.observing import NO_OBSERVER, AttentionObserver, observed
from nmt.model.packing import SPARE_SENTENCES, Lengths, PackedAttention, PackedSequences, PackedSize, rounded_up
from nmt.model.slots import Slots
from nmt.model.state import DecodingState, Encoded, LayerCache, Length, Past, WholeTarget
from nmt.model.variants import source_neighbourhood, target_neighbourhood
from nmt.special_ids import PAD

LogitsSummary = Callable[[Tensor, int], tuple[Tensor, Tensor]]
"""A function of logits (N, V) and the size of a block: the logarithm of the sum of each row's exponentials (N, 1), and
the largest number of each whole block of a row (N, V // size). Both are fp32."""


class Transformer(nn.Module):
    """Encoder and decoder.

    Args:
        vocab_size: number of target pieces.
        source_vocab_size: number of source pieces; by default source and target share one vocabulary.
    """

    def __init__(self, config: ModelConfig, vocab_size: int, *, source_vocab_size: int | None = None) -> None:
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(config, vocab_size, source_vocab_size or vocab_size)
        self.source_positions = PositionEmbedding(config)
        self.target_positions = self.source_positions
        if config.positions == "learned":
            self.target_positions = PositionEmbedding(config)
        norms = [layer_norm(config) if config.embedding_norm else nn.Identity() for _ in range(2)]
        self.source_embedding_norm, self.target_embedding_norm = norms
        self.dropout = nn.Dropout(config.dropout)
        # Parameters in the order of the forward pass: ranks send their gradients in the reverse order, as they come.
        # With pre-norm no layer normalises the residual stream itself, so it is normalised once at the end.
        is_pre = config.norm == "pre"
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.encoder_norm = layer_norm(config) if is_pre else nn.Identity()
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.decoder_norm = layer_norm(config) if is_pre else nn.Identity()
        # nmt.kernels.policy.accelerate sets these for a device.
        self.packed_attention: PackedAttention | None = None
        """Equation 1 within packed sequences; None if sentences are padded for attention."""
        self.rows_per_octave: int | None = None
        """The numbers of rows are rounded up, if given; see :func:`~nmt.model.packing.rounded_up`."""
        self.steps_per_look = 1
        """Steps of a search after which the host looks at its pieces; it waits for the device then."""
        self.recorder: Callable[[], Any] | None = None
        """Makes a :class:`~nmt.kernels.recording.Recorder`; None if the device has none."""
        self.step_attention: StepAttention | None = None
        """Equation 1 in a recorded step; None if the usual attention computes it, over all slots."""
        self.summarize_logits: LogitsSummary | None = None
        """Reads all logits once for a step of a search; None if torch's operations do."""

    @property
    def vocab_size(self) -> int:
        """Number of target pieces, without the rows that the embedding adds."""
        return self.embedding.vocab_size

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.embedding.weight.device

    def size_of(self, lengths_B: Lengths) -> PackedSize:
        """The size of packed sentences that suits the device."""
        spare = 0 if self.packed_attention is None else SPARE_SENTENCES
        return PackedSize.of(lengths_B, rows_per_octave=self.rows_per_octave, spare_sentences=spare)

    def packed(self, tokens_BT: Tensor, lengths_B: Lengths | None = None) -> PackedSequences:
        """Sentences padded with 0 on the right, as the model takes them.

        Args:
            lengths_B: pieces of each sentence, if the host knows them; else they are counted on the device.
        """
        if lengths_B is None:
            lengths_B = (tokens_BT != PAD).sum(dim=1).tolist()
        return PackedSequences.of_padded(tokens_BT, lengths_B, self.size_of(lengths_B))

    def forward(self, source: PackedSequences, target: PackedSequences, guide: Guide | None = None) -> Tensor:
        """Logits (N, V) of each next piece; see :meth:`encode` and :meth:`decode`."""
        return self.decode(target, self.encode(source), guide=guide)

    def encode(self, source: PackedSequences, *, observer: AttentionObserver = NO_OBSERVER) -> Encoded:
        """Encode sentences: pieces with eos.

        Args:
            observer: what to call with the weights of the attention.
        """
        mask: Mask
        if (attend := self._packed_attention(observer)) is not None:
            mask = PackedMask(attend, source, source, is_causal=False)
        else:
            mask = PaddedRows(source.slots, source.slots, self._source_mask(source))
        vectors_MD = self.source_positions(self.embedding.source(source.tokens_N), source.positions_N)
        x_MD = self.dropout(self.source_embedding_norm(vectors_MD))
        for index, layer in enumerate(self.encoder):
            x_MD = layer(x_MD, observed(mask, observer.encoder, index))
        return Encoded(self.encoder_norm(x_MD), source)

    def decode(
        self,
        target: PackedSequences,
        encoded: Encoded,
        *,
        observer: AttentionObserver = NO_OBSERVER,
        guide: Guide | None = None,
    ) -> Tensor:
        """Logits (N, V) of the piece after each of ``target`` (bos + pieces). Those of spare rows mean nothing.

        Args:
            observer: what to call with the weights of the attentions.
            guide: keeps what the head attends to that learns to align.
        """
        mask: Mask
        memory_mask: Mask
        if (attend := self._packed_attention(observer)) is not None:
            mask = PackedMask(attend, target, target, is_causal=True)
            memory_mask = PackedMask(attend, target, encoded.source, is_causal=False)
        else:
            mask = PaddedRows(target.slots, target.slots, self._target_mask(target))
            memory_mask = PaddedRows(target.slots, encoded.source.slots, AdditiveMask(self._seen(encoded.source)))
        memory_masks = [observed(memory_mask, observer.memory, index) for index in range(len(self.decoder))]
        if guide is not None:
            guided = memory_masks[guide.layer - 1]
            seen_B11S = self._seen(encoded.source)
            memory_masks[guide.layer - 1] = guide.around(guided, target.slots, encoded.source.slots, seen_B11S)
        pasts = [
            WholeTarget(encoded, observed(mask, observer.decoder, index), memory_mask)
            for index, memory_mask in enumerate(memory_masks)
        ]
        vectors_ND = self.target_positions(self.embedding.target(target.tokens_N), target.positions_N)
        return self.embedding.project(self._through_decoder(vectors_ND, pasts))

    def start(self, encoded: Encoded, *, beam: int, room: int) -> DecodingState:
        """The state before the first step: nothing written, the memory projected once for all steps and beams.

        Args:
            beam: hypotheses of each sentence.
            room: the number of steps that there is room for.
        """
        slots = encoded.source.slots
        layers = tuple(
            LayerCache.begin(slots.spread(*layer.cross_attention.project_memory(encoded.memory_MD)), room * beam)
            for layer in self.decoder
            if isinstance(layer, DecoderLayer)
        )
        # In the dtype of the keys, else autocast casts the masks in each layer of each step.
        mask_B11S = self._seen(encoded.source).to(layers[0].memory[0].dtype)
        return DecodingState.begin(mask_B11S, layers, beam, room)

    def step(self, tokens_BW: Tensor, state: DecodingState, length: Length, live_BW: Tensor | None = None) -> Tensor:
        """Read one more piece per hypothesis; returns logits (B · W, V) of the next piece. The state changes in place.

        Args:
            tokens_BW: the pieces; a sentence's hypotheses attend to the same past as queries side by side.
            length: the number of pieces of each hypothesis before them.
            live_BW: the hypotheses that are still searched; all if None. The logits of the others are 0.
        """
        hypotheses = Slots(*tokens_BW.shape) if live_BW is None else Slots.of_live(live_BW)
        rows = hypotheses.rows if self.rows_per_octave is None else rounded_up(hypotheses.rows, self.rows_per_octave)
        tokens_N = hypotheses.pack(tokens_BW, rows - hypotheses.rows)
        pasts = state.begin_step(length, hypotheses, self.config.target_neighbours, self.step_attention)
        x_ND = self._through_decoder(self.target_positions(self.embedding.target(tokens_N), length), pasts)
        return hypotheses.pad(self.embedding.project(x_ND)).flatten(0, 1)

    def _packed_attention(self, observer: AttentionObserver) -> PackedAttention | None:
        """The attention that needs no padding, unless its weights are observed."""
        return self.packed_attention if observer is NO_OBSERVER else None

    def _seen(self, source: PackedSequences) -> Tensor:
        """0 at the source pieces that queries attend to, -inf elsewhere (B, 1, 1, S)."""
        return source_mask(source, self.embedding.weight.dtype, sees_eos=self.config.source_eos)

    def _source_mask(self, source: PackedSequences) -> PaddedMask:
        near = self.config.source_neighbours
        return AdditiveMask(self._seen(source)) if near is None else source_neighbourhood(self._seen(source), near)

    def _target_mask(self, target: PackedSequences) -> PaddedMask:
        near, length = self.config.target_neighbours, target.slots.length
        given = self.embedding.weight.dtype, target.tokens_N.device
        return causal_mask(length, *given) if near is None else target_neighbourhood(length, near, *given)

    def _through_decoder(self, x_ND: Tensor, pasts: Sequence[Past]) -> Tensor:
        x_ND = self.dropout(self.target_embedding_norm(x_ND))
        for layer, past in zip(self.decoder, pasts, strict=True):
            x_ND = layer(x_ND, past)
        normed_ND: Tensor = self.decoder_norm(x_ND)
        return normed_ND
