"""Our model as three functions of tensors, as the graphs of ONNX need them: no packing, no search, no state.

Inputs and outputs have the names and shapes of Hugging Face's optimum, so that its users know them. Ids are ours.

Shapes: B sentences, S source pieces, T target pieces read now, P target pieces read before, H heads, K size of a head's
queries and keys, V size of a head's values; in logits, V target vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.checkpoint.bundle import Bundle
from nmt.checkpoint.skip_initialisation import SkipInitialisation
from nmt.config import ModelConfig
from nmt.model.attention import MultiHeadAttention, split_heads
from nmt.model.masks import AdditiveMask, Mask, PaddedRows, additive_mask
from nmt.model.slots import Slots
from nmt.model.transformer import Transformer

Shape = tuple[str | int, ...]
"""The size of each axis; a name where it varies."""
BATCH, SOURCE, TARGET, PAST = "batch", "source", "target", "past"
_SAMPLE_SIZES = {BATCH: 2, SOURCE: 5, TARGET: 3, PAST: 4}


class EveryPosition(Slots):
    """Every position of padded sentences (B, T) is a row, and the rows are views: nothing that a graph would have to
    decide."""

    def spread(self, *heads_NHK: Tensor) -> tuple[Tensor, ...]:
        """As :meth:`Slots.spread`."""
        return tuple(x_NHK.view(self.sentences, self.length, *x_NHK.shape[1:]).transpose(1, 2) for x_NHK in heads_NHK)

    def collect(self, x_BHTK: Tensor, rows: int) -> Tensor:
        """As :meth:`Slots.collect`."""
        return x_BHTK.transpose(1, 2).flatten(0, 1)


@dataclass
class _Past:
    """What a decoder layer attends to, and what it adds: keys and values of all pieces read so far."""

    rows: EveryPosition
    mask: Mask
    memory_mask: Mask
    read: tuple[Tensor, Tensor] | None = None
    """Keys and values of the pieces read before."""
    memory_keys: tuple[Tensor, Tensor] | None = None
    """Keys and values of the source, if they are known already."""
    states_MD: Tensor | None = None
    """The encoder's states, if not."""
    memory_rows: EveryPosition | None = None
    """Those of the states."""
    present: tuple[Tensor, Tensor] = field(init=False)

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Mask]:
        """As :meth:`nmt.model.state.Past.extend`."""
        key, value = self.rows.spread(key, value)
        if self.read is not None:
            key, value = torch.cat([self.read[0], key], dim=2), torch.cat([self.read[1], value], dim=2)
        self.present = key, value
        return key, value, self.mask

    def memory(self, attention: MultiHeadAttention) -> tuple[Tensor, Tensor, Mask]:
        """As :meth:`nmt.model.state.Past.memory`."""
        if self.memory_keys is None:
            assert self.states_MD is not None and self.memory_rows is not None
            key, value = self.memory_rows.spread(*attention.project_memory(self.states_MD))
            self.memory_keys = key, value
        return *self.memory_keys, self.memory_mask


class MemoryAttention(nn.Module):
    """The attention over the encoder with matrices of their own for queries and for the memory.

    In our model they are rows of one matrix. A graph would take these rows out anew in every run, and only whole
    matrices can be quantized.
    """

    def __init__(self, whole: MultiHeadAttention, config: ModelConfig) -> None:
        super().__init__()
        self.heads, self.attention, self.output = whole.heads, whole.attention, whole.output
        self.sizes = [config.heads * size for size in (config.key_size, config.key_size, config.value_size)]
        self.query = _rows(whole.query_key_value, slice(self.sizes[0]))
        self.key_value = _rows(whole.query_key_value, slice(self.sizes[0], None))

    def project_query(self, x_ND: Tensor) -> Tensor:
        """As :meth:`MultiHeadAttention.project_query`."""
        [query] = split_heads(self.query(x_ND), self.heads, self.sizes[:1])
        return query

    def project_memory(self, memory_MD: Tensor) -> tuple[Tensor, Tensor]:
        """As :meth:`MultiHeadAttention.project_memory`."""
        key, value = split_heads(self.key_value(memory_MD), self.heads, self.sizes[1:])
        return key, value

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        """As :meth:`MultiHeadAttention.forward`."""
        mixed: Tensor = self.output(mask.attend(self.attention, query, key, value, 0.0).flatten(1))
        return mixed


def _rows(linear: nn.Linear, rows: slice) -> nn.Linear:
    weight_OI = linear.weight[rows]
    with SkipInitialisation():
        part = nn.Linear(weight_OI.shape[1], weight_OI.shape[0], bias=linear.bias is not None)
    part.weight.data.copy_(weight_OI)
    if linear.bias is not None:
        part.bias.data.copy_(linear.bias[rows])
    return part


def graph_model(bundle: Bundle) -> Transformer:
    """A bundle's model with plain kernels, as the graphs take it."""
    with SkipInitialisation():
        model = Transformer(bundle.config.model, bundle.vocab.target.size, source_vocab_size=bundle.vocab.source.size)
    model.load_state_dict(bundle.weights)
    for layer in model.decoder:
        layer.cross_attention = MemoryAttention(layer.cross_attention, model.config)  # type: ignore[arg-type]
    return model.eval()


class EncoderGraph(nn.Module):
    """``encoder_model.onnx``: the encoder's states of sources with eos."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model
        self.inputs: dict[str, Shape] = {"input_ids": (BATCH, SOURCE), "attention_mask": (BATCH, SOURCE)}
        self.outputs = ["last_hidden_state"]

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """States (B, S, D); those of padding mean nothing.

        Args:
            input_ids: (B, S), padded on the right.
            attention_mask: (B, S), 1 at pieces and 0 at padding.
        """
        model, rows = self.model, EveryPosition(*input_ids.shape)
        mask = PaddedRows(rows, rows, _source_mask(attention_mask, model))
        vectors_BSD = model.source_positions(model.embedding.source(input_ids), slice(input_ids.shape[1]))
        x_ND = vectors_BSD.flatten(0, 1)
        for layer in model.encoder:
            x_ND = layer(x_ND, mask)
        states_BSD: Tensor = model.encoder_norm(x_ND).view(*input_ids.shape, -1)
        return states_BSD


class DecoderGraph(nn.Module):
    """``decoder_model.onnx``: logits of whole targets, with keys and values for the next steps."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model
        self.inputs: dict[str, Shape] = {
            "input_ids": (BATCH, TARGET),
            "encoder_hidden_states": (BATCH, SOURCE, model.config.d_model),
            "encoder_attention_mask": (BATCH, SOURCE),
        }
        self.outputs = ["logits", *keys_and_values("present", model, {"decoder": TARGET, "encoder": SOURCE})]

    def forward(
        self, input_ids: Tensor, encoder_hidden_states: Tensor, encoder_attention_mask: Tensor
    ) -> tuple[Tensor, ...]:
        """Logits (B, T, V), then keys and values of each layer: of the target (B, H, T, K), of the source (B, H, S, K).

        Args:
            input_ids: (B, T), the piece that begins every target and the pieces so far.
            encoder_hidden_states: (B, S, D).
            encoder_attention_mask: (B, S).
        """
        rows, memory_rows = EveryPosition(*input_ids.shape), EveryPosition(*encoder_hidden_states.shape[:2])
        mask = PaddedRows(rows, None, _causal_mask(input_ids, 0, self.model))
        memory_mask = PaddedRows(rows, None, _memory_mask(encoder_attention_mask, self.model))
        states_MD = encoder_hidden_states.flatten(0, 1)
        pasts = [
            _Past(rows, mask, memory_mask, states_MD=states_MD, memory_rows=memory_rows) for _ in self.model.decoder
        ]
        logits = _decode(self.model, input_ids, 0, pasts)
        present = (tensor for past in pasts for tensor in (*past.present, *(past.memory_keys or ())))
        return logits, *present


class DecoderWithPastGraph(nn.Module):
    """``decoder_with_past_model.onnx``: logits of the next pieces, given keys and values of all earlier ones."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model
        self.inputs: dict[str, Shape] = {
            "input_ids": (BATCH, TARGET),
            "encoder_attention_mask": (BATCH, SOURCE),
            **keys_and_values("past_key_values", model, {"decoder": PAST, "encoder": SOURCE}),
        }
        self.outputs = ["logits", *keys_and_values("present", model, {"decoder": TARGET})]

    def forward(
        self, input_ids: Tensor, encoder_attention_mask: Tensor, *past_key_values: Tensor
    ) -> tuple[Tensor, ...]:
        """Logits (B, T, V), then keys and values of each layer, of the target alone (B, H, P + T, K).

        Args:
            input_ids: (B, T), the pieces to read now; one per sentence in a search.
            encoder_attention_mask: (B, S).
            past_key_values: per layer keys and values of the target (B, H, P, K), and of the source (B, H, S, K).
        """
        before = past_key_values[0].shape[2]
        rows = EveryPosition(*input_ids.shape)
        mask = PaddedRows(rows, None, _causal_mask(input_ids, before, self.model))
        memory_mask = PaddedRows(rows, None, _memory_mask(encoder_attention_mask, self.model))
        pasts = [
            _Past(
                rows,
                mask,
                memory_mask,
                read=(past_key_values[place], past_key_values[place + 1]),
                memory_keys=(past_key_values[place + 2], past_key_values[place + 3]),
            )
            for place in range(0, len(past_key_values), 4)
        ]
        logits = _decode(self.model, input_ids, before, pasts)
        return logits, *(tensor for past in pasts for tensor in past.present)


Graph = EncoderGraph | DecoderGraph | DecoderWithPastGraph


def keys_and_values(prefix: str, model: Transformer, lengths: dict[str, str]) -> dict[str, Shape]:
    """``PREFIX.LAYER.SIDE.key`` and ``.value`` -> their shapes, for each layer of the decoder.

    Args:
        lengths: side (decoder, encoder) -> the name of its length.
    """
    sizes = {"key": model.config.key_size, "value": model.config.value_size}
    return {
        f"{prefix}.{layer}.{side}.{what}": (BATCH, model.config.heads, length, size)
        for layer in range(len(model.decoder))
        for side, length in lengths.items()
        for what, size in sizes.items()
    }


def sample_inputs(graph: Graph) -> list[Tensor]:
    """Inputs for an exporter to trace with; sizes that vary differ from each other."""
    shapes = [[_SAMPLE_SIZES[size] if isinstance(size, str) else size for size in of] for of in graph.inputs.values()]
    return [torch.ones(shape, dtype=torch.int64 if len(shape) == 2 else torch.float32) for shape in shapes]


def _decode(model: Transformer, input_ids: Tensor, before: int, pasts: list[_Past]) -> Tensor:
    """The logits of pieces that follow ``before`` others."""
    positions = torch.arange(before, before + input_ids.shape[1])
    # A lookup of rows, which exporters keep as such; they rewrite a table that is indexed.
    position_TD = F.embedding(positions, model.target_positions.weight)
    x_ND = (model.embedding.target(input_ids) + position_TD).flatten(0, 1)
    for layer, past in zip(model.decoder, pasts, strict=True):
        x_ND = layer(x_ND, past)
    return model.embedding.project(model.decoder_norm(x_ND)).view(*input_ids.shape, -1)


def _memory_mask(attention_mask: Tensor, model: Transformer) -> AdditiveMask:
    """0 at pieces and -inf at padding (B, 1, 1, S)."""
    return AdditiveMask(additive_mask(attention_mask == 0, model.embedding.weight.dtype)[:, None, None, :])


def _source_mask(attention_mask: Tensor, model: Transformer) -> AdditiveMask:
    """0 at the pieces that a piece may attend to, else -inf (B, 1, 1 or S, S). Padding may attend to itself."""
    neighbours = model.config.source_neighbours
    if neighbours is None:
        return _memory_mask(attention_mask, model)
    position = torch.arange(attention_mask.shape[1])
    distance_SS = (position[:, None] - position).abs()
    forbidden_BSS = (distance_SS > neighbours) | ((attention_mask == 0)[:, None] & (distance_SS > 0))
    return AdditiveMask(additive_mask(forbidden_BSS, model.embedding.weight.dtype)[:, None])


def _causal_mask(input_ids: Tensor, before: int, model: Transformer) -> AdditiveMask:
    """0 where a piece may attend, to itself and to (the nearest of) those before it, else -inf (T, P + T)."""
    end, neighbours = before + input_ids.shape[1], model.config.target_neighbours
    query_T, key_X = torch.arange(before, end), torch.arange(end)
    forbidden_TX = key_X > query_T[:, None]
    if neighbours is not None:
        forbidden_TX = forbidden_TX | (key_X < query_T[:, None] - neighbours)
    return AdditiveMask(additive_mask(forbidden_TX, model.embedding.weight.dtype))
