"""A model of another toolkit: its tensors under its own names, its vocabulary, and what its settings mean in our terms.

Every reader makes a :class:`ForeignModel`. All else (the bundle, the independent forward pass, the certificate) works
on that, so a new toolkit is one file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nmt.config import DecodingConfig, ModelConfig
from nmt.errors import ConfigError
from nmt.text.languages import is_well_formed
from nmt.text.steps import Nfc, TextSteps

Array = NDArray[np.float32]

SOURCE_EMBEDDING, TARGET_EMBEDDING = "embedding.source_weight", "embedding.weight"
OUTPUT, OUTPUT_BIAS = "embedding.output_weight", "embedding.output_bias"
POSITIONS = ("source_positions.weight", "target_positions.weight")
PROJECTIONS = ("query", "key", "value")
"""The parameters of which our model has one matrix, in its order. Toolkits have three."""
BEAM_OF_5 = DecodingConfig(beam=5, length_penalty=1, length_normalization="length")
"""The search that fairseq, OpenNMT-py 3 and Sockeye make by default."""
COMPOSED = TextSteps((Nfc(),), (Nfc(),))
"""Decomposed letters are rare in training text, whatever a toolkit does to text."""
_LAYER = re.compile(r"(encoder|decoder)\.(\d+)\.")


@dataclass(frozen=True)
class Given:
    """Options of an import; None where the files tell."""

    source_spm: Path | None = None
    target_spm: Path | None = None
    source_lang: str | None = None
    target_lang: str | None = None
    ignore_unknown_steps: bool = False
    """Whether a model is read whose scripts do something unknown to text."""

    def __post_init__(self) -> None:
        """Check the codes of languages."""
        for side, code in (("source", self.source_lang), ("target", self.target_lang)):
            if code and not is_well_formed(code):
                raise ConfigError(f"--{side}-lang {code!r}: must be a language code such as en, pt-BR or sr@latin.")

    def languages(self, source: object = None, target: object = None) -> tuple[str, str]:
        """The codes of both languages: the user's, or else those of the files; no text where there is none.

        Args:
            source, target: what the files' settings say.
        """
        found = [value if isinstance(value, str) and is_well_formed(value) else "" for value in (source, target)]
        return self.source_lang or found[0], self.target_lang or found[1]


@dataclass(frozen=True)
class Naming:
    """Where a toolkit keeps the parameters of a model."""

    tensors: Mapping[str, str]
    """Our parameter -> their tensor, with ``{n}`` for the number of a layer. Queries, keys and values are parameters of
    their own: ``encoder.{n}.self_attention.query.weight``."""
    first_layer: int = 0
    """The number of the first layer in their names."""
    first_position: int = 0
    """The row of the first piece in stored positions."""
    is_transposed: bool = False
    """Whether matrices of layers are stored as (in, out)."""

    def theirs(self, ours: str) -> str | None:
        """Their tensor of one of our parameters, such as ``encoder.0.self_attention.query.weight``; None without."""
        if (layer := _LAYER.match(ours)) is None:
            return self.tensors.get(ours)
        name = self.tensors.get(f"{layer[1]}.{{n}}.{ours[layer.end() :]}")
        return None if name is None else name.format(n=int(layer[2]) + self.first_layer)

    def as_theirs(self, ours: str, array: Array) -> Array:
        """A parameter of ours, stored as theirs. The same again leads back."""
        is_matrix = array.ndim == 2 and _LAYER.match(ours) is not None
        return array.T if is_matrix and self.is_transposed else array


def weights_and_biases(modules: Mapping[str, str]) -> dict[str, str]:
    """The entries of :attr:`Naming.tensors` for modules that name their tensors as torch does.

    Args:
        modules: our module -> theirs.
    """
    return {f"{ours}.{end}": f"{theirs}.{end}" for ours, theirs in modules.items() for end in ("weight", "bias")}


def matrices(
    source: str, target: str, output: str, *, bias: str | None = None, positions: Sequence[str] = ()
) -> dict[str, str]:
    """The entries of :attr:`Naming.tensors` for the matrices of pieces and of positions.

    Args:
        source, target, output: the embeddings of both sides, and the projection to the target's pieces.
        bias: of that projection.
        positions: of source and target, if a file may hold them.
    """
    names = {SOURCE_EMBEDDING: source, TARGET_EMBEDDING: target, OUTPUT: output}
    return names | ({} if bias is None else {OUTPUT_BIAS: bias}) | dict(zip(POSITIONS, positions, strict=False))


def torch_names(
    prefixes: tuple[str, str], encoder: Mapping[str, str], decoder: Mapping[str, str], projections: Sequence[str]
) -> dict[str, str]:
    """The entries of :attr:`Naming.tensors` for all layers, and for final norms of the name ``layer_norm``.

    Args:
        prefixes: of the names in a layer of encoder and decoder, with ``{n}`` for the number of the layer.
        encoder, decoder: our modules of a layer -> theirs; an attention stands for its four projections.
        projections: their names of the projections of queries, keys, values and outputs.
    """
    modules = {
        "encoder_norm": "encoder.layer_norm",
        "decoder_norm": "decoder.layer_norm",
        "source_embedding_norm": "encoder.layernorm_embedding",
        "target_embedding_norm": "decoder.layernorm_embedding",
    }
    for part, prefix, of_layer in zip(("encoder", "decoder"), prefixes, (encoder, decoder), strict=True):
        for ours, theirs in of_layer.items():
            if ours.endswith("attention"):
                for projection, name in zip((*PROJECTIONS, "output"), projections, strict=True):
                    modules[f"{part}.{{n}}.{ours}.{projection}"] = f"{prefix}.{theirs}.{name}"
            else:
                modules[f"{part}.{{n}}.{ours}"] = f"{prefix}.{theirs}"
    return weights_and_biases(modules)


@dataclass(frozen=True)
class StoredTensor:
    """A tensor as a file holds it."""

    name: str
    numbers: Array
    """What is stored, or what stored integers stand for."""
    step: Array | float = 0.0
    """How far apart the numbers are that the integers can stand for; 0 where no integers are stored."""


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
    codes: str | None = None
    """The merges that split words (:mod:`nmt.data.byte_pair_codes`); None if words are pieces."""
    is_restricted: bool = False
    """Whether merges are undone whose result is not a piece."""
    silent: tuple[str, ...] = ()
    """Pieces that no text becomes and that become no text."""


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
    naming: Naming
    source: ForeignVocabulary
    target: ForeignVocabulary
    start: str | None
    """The piece that the decoder reads first; None if it reads zeros."""
    files: Mapping[str, Path]
    """The files that were read: name within the model -> path."""
    factors: Mapping[str, float] = field(default_factory=dict)
    """Our parameter -> what their numbers are multiplied by, where the toolkit scales them otherwise."""
    text: TextSteps = COMPOSED
    """What text goes through before it is segmented."""
    source_lang: str = ""
    target_lang: str = ""
    settings: Mapping[str, object] = field(default_factory=dict)
    """The toolkit's own settings, as read."""
    remarks: tuple[str, ...] = ()
    """What users of the imported model must know."""

    @property
    def folder(self) -> Path:
        """The folder of the files, for errors."""
        return next(iter(self.files.values()), Path()).parent

    def parameter(self, ours: str) -> Array | None:
        """One of our parameters, from the toolkit's tensors; None if the toolkit has none, such as a bias.

        Embeddings have the toolkit's rows; positions begin with that of the first piece.
        """
        if (theirs := self.naming.theirs(ours)) is None:
            return None
        array = self.tensors[theirs]
        if ours in POSITIONS:
            array = array.reshape(-1, array.shape[-1])[self.naming.first_position :][: self.config.max_positions]
        elif ours.endswith(("bias", "norm.weight")):
            array = array.reshape(-1)
        array = self.naming.as_theirs(ours, array)
        return array * np.float32(self.factors[ours]) if ours in self.factors else array


def files_by_name(paths: Iterable[Path | None]) -> dict[str, Path]:
    """The files that were read, as :attr:`ForeignModel.files`; None is left out.

    A file gets the names of as many folders above it as tell it from the other files.
    """
    files: dict[str, Path] = {}
    for path in paths:
        if path is None:
            continue
        parts = path.absolute().parts
        names = ("/".join(parts[-count:]) for count in range(1, len(parts) + 1))
        files[next(name for name in names if files.get(name, path) == path)] = path
    return files
