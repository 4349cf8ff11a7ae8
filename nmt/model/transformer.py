"""The Transformer (Vaswani et al. 2017, figure 1): encode, decode, and decode one step at a time.

Shapes: B sentences, S source pieces, T target pieces, D d_model, H heads, V vocabulary, W hypotheses of a sentence (the
beam); N target and M source rows, one per position of a batch or per hypothesis of a step (nmt/kernels/packing.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from nmt.config import ModelConfig
from nmt.kernels.packing import Lengths, Packing
from nmt.kernels.policy import PLAIN, Kernels
from nmt.kernels.private import compiled_for_any_shape
from nmt.kernels.sentence_rows import SentenceRows, suits_flash_attention
from nmt.model.embeddings import PositionEmbedding, TokenEmbedding
from nmt.model.layers import DecoderLayer, EncoderLayer, layer_norm
from nmt.model.masks import AdditiveMask, Mask, SentenceMask, additive_mask, causal_mask, unseen_source
from nmt.model.observing import NO_OBSERVER, AttentionObserver, observed
from nmt.model.state import DecodingState, Encoded, LayerState, Past, SearchState, WholeTarget
from nmt.model.variants import source_neighbourhood, target_neighbourhood

State = TypeVar("State", bound=SearchState)


class Transformer(nn.Module):
    """Encoder and decoder.

    Args:
        vocab_size: number of target pieces.
        source_vocab_size: number of source pieces; by default source and target share one vocabulary.
        kernels: the implementations to compute with; by default the plain equations. Choose them for the device that
            the model is moved to (:func:`~nmt.kernels.policy.choose_kernels`).
    """

    def __init__(
        self, config: ModelConfig, vocab_size: int, kernels: Kernels = PLAIN, *, source_vocab_size: int | None = None
    ) -> None:
        super().__init__()
        self.config = config
        self.kernels = kernels
        self.embedding = TokenEmbedding(config, vocab_size, source_vocab_size or vocab_size)
        self.source_positions = PositionEmbedding(config)
        self.target_positions = self.source_positions
        if config.positions == "learned":
            self.target_positions = PositionEmbedding(config)
        self.dropout = kernels.dropout(config.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(config, kernels) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config, kernels) for _ in range(config.decoder_layers))
        # With pre-norm no layer normalises the residual stream itself, so it is normalised once at the end.
        is_pre = config.norm == "pre"
        self.encoder_norm = layer_norm(config) if is_pre else nn.Identity()
        self.decoder_norm = layer_norm(config) if is_pre else nn.Identity()
        self._compiled_layers: dict[type[nn.Module], Callable[..., Tensor]] = {}

    @property
    def vocab_size(self) -> int:
        """Number of target pieces, without the rows that the embedding adds."""
        return self.embedding.vocab_size

    @property
    def takes_sentence_rows(self) -> bool:
        """Whether :meth:`forward` also takes sentences one after the other, without padding."""
        config = self.config
        return (
            self.kernels.sentence_attention is not None
            and config.attention == "scaled_dot_product"
            and not config.attention_dropout
            and config.source_neighbours is None
            and config.target_neighbours is None
            and config.source_eos
            and suits_flash_attention(config.key_size, config.value_size)
        )

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.embedding.weight.device

    def compile_layers(self) -> None:
        """Compile the layers for training: a graph for all layers of a kind, for batches of any shape.

        The gradients of a layer are there when its backward pass is done, as without compilation.
        """
        self._compiled_layers = {kind: compiled_for_any_shape(_apply) for kind in (EncoderLayer, DecoderLayer)}

    def forward(
        self,
        source_BS: Tensor,
        target_BT: Tensor,
        source_lengths_B: Lengths | SentenceRows | None = None,
        target_lengths_B: Lengths | SentenceRows | None = None,
    ) -> Tensor:
        """Logits (B, T, V) of each next piece; see :meth:`encode` and :meth:`decode`.

        Where :attr:`takes_sentence_rows`, a batch may be a single line of many sentences, with their places.
        """
        return self.decode(target_BT, self.encode(source_BS, source_lengths_B), target_lengths_B)

    def encode(
        self,
        source_BS: Tensor,
        lengths_B: Lengths | SentenceRows | None = None,
        *,
        observer: AttentionObserver = NO_OBSERVER,
    ) -> Encoded:
        """Encode sentences: pieces with eos, padded with 0 on the right.

        Args:
            lengths_B: pieces of each sentence with eos, if the host knows them; counted if not given.
            observer: what to call with the weights of the attention.
        """
        unseen_BS = unseen_source(source_BS, sees_eos=self.config.source_eos)
        mask_B11S = additive_mask(unseen_BS, self.embedding.weight.dtype)[:, None, None, :]
        packing = self._packing(source_BS, lengths_B)
        mask = self._sentence_mask(packing, packing) or self._source_mask(mask_B11S)
        x_MD = self.dropout(packing.pack(self.source_positions(self.embedding.source(source_BS), packing.positions)))
        for index, layer in enumerate(self.encoder):
            x_MD = self._through(layer, x_MD, observed(mask, observer.encoder, index), packing)
        return Encoded(self.encoder_norm(x_MD), packing, mask_B11S)

    def decode(
        self,
        target_BT: Tensor,
        encoded: Encoded,
        lengths_B: Lengths | SentenceRows | None = None,
        *,
        observer: AttentionObserver = NO_OBSERVER,
    ) -> Tensor:
        """Logits (B, T, V) of the piece after each of ``target_BT`` (bos + pieces, padded with 0 on the right).

        The logits of padding mean nothing.

        Args:
            lengths_B: as for :meth:`encode`, of the targets with bos.
            observer: what to call with the weights of the attentions.
        """
        packing = self._packing(target_BT, lengths_B)
        past = WholeTarget(
            encoded,
            self._sentence_mask(packing, packing, is_causal=True) or self._target_mask(target_BT),
            self._sentence_mask(packing, encoded.packing) or AdditiveMask(encoded.mask_B11S),
        )
        pasts = [past.observed(observer, index) for index in range(len(self.decoder))]
        x_ND = packing.pack(self.target_positions(self.embedding.target(target_BT), packing.positions))
        x_ND = self._through_decoder(x_ND, pasts, packing)
        return packing.pad_product(self.embedding.project, x_ND)

    def start(self, encoded: Encoded) -> DecodingState:
        """The state before the first step: nothing written, the memory projected once for all steps and beams."""
        layers = tuple(
            LayerState.begin(*layer.cross_attention.project_memory(encoded.memory_MD, encoded.packing))
            for layer in self.decoder
            if isinstance(layer, DecoderLayer)
        )
        # In the dtype of the keys, else autocast casts the masks in each layer of each step.
        mask_B11S = encoded.mask_B11S.to(layers[0].memory_key_BHSK.dtype)
        past_BWX = mask_B11S.new_empty(len(mask_B11S), 1, 0)
        return DecodingState(0, layers, mask_B11S, past_BWX)

    def step(self, tokens_BW: Tensor, state: State, live_BW: Tensor | None = None) -> tuple[Tensor, State]:
        """Read one more piece per hypothesis; returns logits (B · W, V) of the next piece, and the state after it.

        Args:
            tokens_BW: the pieces; a sentence's hypotheses attend to the same past as queries side by side.
            live_BW: the hypotheses that are still searched; all if None. The logits of the others are 0.
        """
        packing = self.kernels.packing_of_hypotheses(tokens_BW, live_BW)
        pasts, after = state.begin_step(tokens_BW.shape[1], self.config.target_neighbours)
        vectors_ND = self.target_positions(self.embedding.target(tokens_BW.view(-1, 1)), state.position)
        x_ND = self._through_decoder(packing.pack(vectors_ND.view(*tokens_BW.shape, -1)), pasts, packing)
        logits_NV = packing.pad(self.embedding.project(x_ND)).flatten(0, 1)
        return logits_NV, after.end_step(pasts)

    def _packing(self, tokens_BT: Tensor, lengths_B: Lengths | SentenceRows | None) -> Packing:
        is_compiled = self.training and self._compiled_layers
        return (self.kernels.for_compiled_layers() if is_compiled else self.kernels).packing(tokens_BT, lengths_B)

    def _through(self, layer: nn.Module, x_ND: Tensor, attended: Mask | Past, packing: Packing) -> Tensor:
        apply = self._compiled_layers.get(type(layer), _apply) if self.training else _apply
        return apply(layer, x_ND, attended, packing)

    def _sentence_mask(self, queries: Packing, keys: Packing, *, is_causal: bool = False) -> Mask | None:
        """The mask of sentences that lie one after the other; None if they are padded."""
        attend = self.kernels.sentence_attention
        if attend is None or not isinstance(queries, SentenceRows) or not isinstance(keys, SentenceRows):
            return None
        return SentenceMask(attend, queries, keys, is_causal)

    def _source_mask(self, mask_B11S: Tensor) -> Mask:
        near = self.config.source_neighbours
        return AdditiveMask(mask_B11S) if near is None else source_neighbourhood(mask_B11S, near)

    def _target_mask(self, target_BT: Tensor) -> Mask:
        near, dtype = self.config.target_neighbours, self.embedding.weight.dtype
        return causal_mask(target_BT, dtype) if near is None else target_neighbourhood(target_BT, near, dtype)

    def _through_decoder(self, x_ND: Tensor, pasts: Sequence[Past], packing: Packing) -> Tensor:
        x_ND = self.dropout(x_ND)
        for layer, past in zip(self.decoder, pasts, strict=True):
            x_ND = self._through(layer, x_ND, past, packing)
        normed_ND: Tensor = self.decoder_norm(x_ND)
        return normed_ND


def _apply(layer: nn.Module, x_ND: Tensor, attended: Mask | Past, packing: Packing) -> Tensor:
    """A layer as a function, which can be compiled once for all layers of a kind."""
    y_ND: Tensor = layer(x_ND, attended, packing)
    return y_ND
