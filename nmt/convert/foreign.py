"""A model of another toolkit: its tensors under its own names, its vocabulary, and what its settings mean in our terms.

Every importer makes a :class:`ForeignModel`. All else (the bundle, the independent forward pass, the certificate) works
on that, so a new format is one module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nmt.config import DecodingConfig, ModelConfig

Array = NDArray[np.float32]
Part = Literal["encoder", "decoder"]

ATTENTION = ("query", "key", "value", "output")
LINEARS: dict[Part, tuple[str, ...]] = {
    "encoder": (*(f"self_attention.{name}" for name in ATTENTION), "feed_forward.inner", "feed_forward.output"),
    "decoder": (
        *(f"self_attention.{name}" for name in ATTENTION),
        *(f"cross_attention.{name}" for name in ATTENTION),
        "feed_forward.inner",
        "feed_forward.output",
    ),
}
"""The matrices of a layer, as sites that every toolkit has."""
NORMS: dict[Part, tuple[str, ...]] = {
    "encoder": ("self_attention_norm", "feed_forward_norm"),
    "decoder": ("self_attention_norm", "cross_attention_norm", "feed_forward_norm"),
}
"""The norms of a layer, as sites that every toolkit has."""


def features(config: ModelConfig, site: str) -> tuple[int, int]:
    """Features out and in of a matrix of :data:`LINEARS`."""
    if site == "feed_forward.inner":
        return config.d_ff, config.d_model
    if site == "feed_forward.output":
        return config.d_model, config.d_ff
    query, key, value, output = ATTENTION
    sizes = {query: config.key_size, key: config.key_size, value: config.value_size}
    name = site.split(".")[1]
    if name == output:
        return config.d_model, config.heads * config.value_size
    return config.heads * sizes[name], config.d_model


@dataclass(frozen=True)
class Names:
    """The names of a tensor and of its bias, with ``{layer}`` for the number of the layer."""

    weight: str
    bias: str | None

    def of_layer(self, layer: int) -> Names:
        """The names in one layer."""
        return Names(self.weight.format(layer=layer), None if self.bias is None else self.bias.format(layer=layer))


@dataclass(frozen=True)
class Layout:
    """Where a toolkit keeps each tensor of a model."""

    linears: Mapping[tuple[Part, str], Names]
    """Part and site -> names of matrix and bias."""
    norms: Mapping[tuple[Part, str], Names]
    """Part and site -> names of scale and bias. The site ``norm`` is the final one of a pre-norm part."""
    source_embedding: str
    target_embedding: str
    output: str
    output_bias: str | None
    positions: Mapping[Part, str] = field(default_factory=dict)
    """The names of learned positions."""
    first_position_row: int = 0
    """The row of the first piece in learned positions."""
    position_tables: tuple[str, ...] = ()
    """The names of tables of sinusoids, which are compared with ours and not used."""
    first_layer: int = 0
    """The number of the first layer in names."""
    is_transposed: bool = False
    """Whether matrices of layers are stored as (in, out)."""


def weight_and_bias(name: str) -> Names:
    """The names of a module's tensors, as torch names them."""
    return Names(f"{name}.weight", f"{name}.bias")


@dataclass(frozen=True)
class LayerModules:
    """The names of the modules that each layer has, in a toolkit where a projection is a module."""

    layers: Mapping[Part, str]
    """Part -> prefix of the modules of a layer, with ``{layer}``."""
    attentions: Mapping[Part, Mapping[str, tuple[str, str]]]
    """Part and site -> attention and its norm."""
    projections: tuple[str, str, str, str]
    """Those of :data:`ATTENTION`."""
    feed_forward: tuple[str, str, str]
    """Inner and output projection, and the norm."""
    final_norm: str = "layer_norm"
    """The norm of a whole part, in pre-norm models."""

    def linears(self, names: Callable[[str], Names] = weight_and_bias) -> dict[tuple[Part, str], Names]:
        """As :attr:`Layout.linears`.

        Args:
            names: given a module's name, those of its tensors.
        """
        found: dict[tuple[Part, str], Names] = {}
        for part, layer in self.layers.items():
            for site, (attention, _) in self.attentions[part].items():
                for ours, theirs in zip(ATTENTION, self.projections, strict=True):
                    found[part, f"{site}.{ours}"] = names(f"{layer}.{attention}.{theirs}")
            inner, output, _ = self.feed_forward
            found[part, "feed_forward.inner"] = names(f"{layer}.{inner}")
            found[part, "feed_forward.output"] = names(f"{layer}.{output}")
        return found

    def norms(self) -> dict[tuple[Part, str], Names]:
        """As :attr:`Layout.norms`."""
        found: dict[tuple[Part, str], Names] = {}
        for part, layer in self.layers.items():
            for site, (_, norm) in self.attentions[part].items():
                found[part, f"{site}_norm"] = weight_and_bias(f"{layer}.{norm}")
            found[part, "feed_forward_norm"] = weight_and_bias(f"{layer}.{self.feed_forward[-1]}")
            found[part, "norm"] = weight_and_bias(f"{part}.{self.final_norm}")
        return found


@dataclass(frozen=True)
class ForeignVocabulary:
    """The vocabulary of one side, and how its text becomes pieces."""

    pieces: tuple[str, ...]
    """By the toolkit's ids."""
    unk: str
    eos: str
    segmenter: bytes | None
    """The SentencePiece model that segments text; None if the toolkit reads pieces separated by spaces."""
    pad: str | None = None


@dataclass(frozen=True)
class ForeignModel:
    """A model of another toolkit, read from its files."""

    toolkit: str
    """``Marian``, ``Hugging Face MarianMT``, …"""
    version: str | None
    """The version of the toolkit that wrote the files, if they tell."""
    config: ModelConfig
    decoding: DecodingConfig
    tensors: Mapping[str, Array]
    """All tensors of the file, by the toolkit's names."""
    layout: Layout
    source: ForeignVocabulary
    target: ForeignVocabulary
    start: str | None
    """The piece that the decoder reads first; None if it reads zeros."""
    files: Mapping[str, Path]
    """The files that were read: name within the model -> path."""
    punctuation: bool = False
    """Whether source text is normalised by Moses' punctuation script before it is segmented."""
    source_lang: str = ""
    target_lang: str = ""
    settings: Mapping[str, object] = field(default_factory=dict)
    """The toolkit's own settings, as read."""
    ignored: tuple[str, ...] = ()
    """Names of tensors that have no effect on the model, such as counters and tables of positions."""
    remarks: tuple[str, ...] = ()
    """What users of the imported model must know."""

    @property
    def folder(self) -> Path:
        """The folder of the files, for errors."""
        return next(iter(self.files.values()), Path()).parent

    def linear(self, part: Part, layer: int, site: str) -> tuple[Array, Array | None]:
        """A matrix as (out, in), and its bias."""
        names = self.layout.linears[part, site].of_layer(layer + self.layout.first_layer)
        weight = self.tensors[names.weight]
        bias = None if names.bias is None else self.tensors[names.bias].reshape(-1)
        return (weight.T if self.layout.is_transposed else weight), bias

    def norm(self, part: Part, site: str, layer: int = 0) -> tuple[Array, Array]:
        """Scale and bias of a norm."""
        names = self.layout.norms[part, site].of_layer(layer + self.layout.first_layer)
        assert names.bias is not None
        return self.tensors[names.weight].reshape(-1), self.tensors[names.bias].reshape(-1)
