"""A folder of a model that Hugging Face transformers wrote: its weights, the ids of its special pieces, its search."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import DecodingConfig
from nmt.convert.fairseq import NAMES as FAIRSEQ_NAMES
from nmt.convert.files import optional_mapping, shown
from nmt.convert.foreign import OUTPUT_BIAS, Array, ForeignModel, ForeignVocabulary, Naming, matrices
from nmt.convert.settings import Settings, Table, flat, unknown_remarks, unused_remarks, valid_settings, version_of
from nmt.convert.tensors import NO_POWERS, UNSCALED, foreign_model, read_safetensors, read_tensors
from nmt.convert.torch_files import read_torch_file
from nmt.errors import CheckpointError

CONFIG, GENERATION, TOKENIZER = "config.json", "generation_config.json", "tokenizer_config.json"
WEIGHTS, _SHARDS, _PICKLED = "model.safetensors", "model-*-of-*.safetensors", "pytorch_model.bin"
NORM_EPSILON = 1e-5
"""Layer norms have no setting for it."""
_ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish", "gelu": "gelu", "quick_gelu": "quick_gelu"}
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
SHARED = "model.shared.weight"
MATRICES = (
    SHARED,
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
"""The matrices of pieces. A file holds those that are one under one name, or under several."""
NAMES = {ours: f"model.{theirs}" for ours, theirs in FAIRSEQ_NAMES.items()} | matrices(
    *MATRICES[1:],
    bias="final_logits_bias",
    positions=("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"),
)


def is_huggingface(path: Path) -> bool:
    """Whether a path looks like a model of Hugging Face: a folder with config.json and weights."""
    return (path / CONFIG).is_file() and bool(weight_files(path))


def sizes(config: Settings, activation: str) -> dict[str, Any]:
    """The settings of our model that have the same names in all kinds of models.

    Args:
        activation: the default one.

    Raises:
        CheckpointError: encoder and decoder differ, or the activation is another. The message names the setting.
    """
    return {
        "encoder_layers": config.get("encoder_layers"),
        "decoder_layers": config.get("decoder_layers"),
        "d_model": config.get("d_model"),
        "d_ff": config.of_both("ffn_dim", "feed-forward networks of different sizes"),
        "heads": config.of_both("attention_heads", "different numbers of heads"),
        "norm_epsilon": NORM_EPSILON,
        "activation": config.choose("activation_function", activation, _ACTIVATIONS),
        "max_positions": config.get("max_position_embeddings"),
        "output_bias": True,  # bos, where it is a copy of eos, must never be predicted
    }


def check_size(file: Path, vocabulary: ForeignVocabulary, size: object) -> None:
    """Refuse a vocabulary of another size than the settings say.

    Raises:
        CheckpointError: it has one.
    """
    if len(vocabulary.pieces) != size:
        raise CheckpointError(
            f"{file}: has {len(vocabulary.pieces):,} pieces, but {CONFIG} says {shown(size)}. The files belong to "
            "different models, or have added tokens, which nmt does not read."
        )


class HuggingFaceFolder:
    """The files of a model's folder, and what is read alike in all kinds of models."""

    def __init__(self, path: Path, config: Settings) -> None:
        """Read the files beside ``config.json``, but for the tensors.

        Raises:
            CheckpointError: a file is damaged.
        """
        self.path, self.config = path, config
        self.tokenizer = optional_mapping(path / TOKENIZER)
        self.generation = optional_mapping(path / GENERATION)
        self.options: Mapping[str, Any] = self.generation or config
        """The options of the search."""
        self.options_file = path / (GENERATION if self.generation else CONFIG)
        self.weights = weight_files(path)

    @functools.cached_property
    def tensors(self) -> dict[str, Array]:
        """All tensors, by name."""
        return _read_weights(self.weights)

    def model(
        self,
        ours: Mapping[str, Any],
        *,
        toolkit: str,
        table: Table,
        target: ForeignVocabulary,
        start: int,
        files: Iterable[Path],
        beam: int = 1,
        **others: Any,
    ) -> ForeignModel:
        """The model.

        Args:
            ours: the settings of ours.
            table: what ours can express of the settings.
            start: the id of the piece that the decoder reads first.
            files: further ones that were read, if they are there.
            beam: the default one.
            others: as for :func:`~nmt.convert.tensors.foreign_model`.

        Raises:
            CheckpointError: an option of the search is impossible in ours, or as for ``foreign_model``.
        """
        told = {key: value for key, value in self.options.items() if value is not None}
        found = (self.path / CONFIG, self.path / GENERATION, self.path / TOKENIZER, *files)
        return foreign_model(
            str(self.weights[0]),
            ours,
            toolkit=toolkit,
            version=version_of(self.config.get("transformers_version")),
            decoding=valid_settings(
                DecodingConfig,
                str(self.options_file),
                beam=told.get("num_beams", beam),
                length_penalty=told.get("length_penalty", 1.0),
                length_normalization="length",  # transformers divides scores by length^length_penalty
            ),
            tensors=self.tensors,
            target=target,
            start=target.pieces[start],
            powers=NO_POWERS if self.config.get("scale_embedding") else UNSCALED,
            files=[*self.weights, *filter(Path.is_file, found)],
            settings=flat({**self.config, "generation": self.generation}),
            remarks=[
                *unused_remarks(self.options, _SEARCH, self.options_file.name, "transformers"),
                *unknown_remarks(self.config, table, toolkit),
            ],
            **others,
        )

    def start_id(self, target: ForeignVocabulary) -> int:
        """The id of the piece that the decoder reads first.

        Raises:
            CheckpointError: the ids of special pieces are missing or contradict each other, or other pieces than those
                that our search never emits are suppressed.
        """
        name, pieces = str(self.options_file), target.pieces
        ids = {}
        for key in ("decoder_start_token_id", "pad_token_id", "eos_token_id"):
            given = [value for values in (self.generation, self.config) if (value := values.get(key)) is not None]
            if not given or any(type(id_) is not int or id_ != given[0] or not 0 <= id_ < len(pieces) for id_ in given):
                raise CheckpointError(
                    f"{name}: {key} is {' and '.join(map(shown, given)) or 'missing'}; expected one id below "
                    f"{len(pieces):,}, the same as in {CONFIG}. Correct it there."
                )
            ids[key] = given[0]
        for key, piece in (("pad_token_id", target.pad), ("eos_token_id", target.eos)):
            if pieces[ids[key]] != piece:
                raise CheckpointError(
                    f"{name}: {key} is {ids[key]}, '{shown(pieces[ids[key]])}', but the tokenizer has "
                    f"'{shown(piece)}': they belong to different models."
                )
        start: int = ids["decoder_start_token_id"]
        _check_suppressed(self.options, name, [start, ids["pad_token_id"], pieces.index(target.unk)])
        return start


def _check_suppressed(options: Mapping[str, Any], name: str, allowed: Collection[int]) -> None:
    for key in ("bad_words_ids", "suppress_tokens"):
        value = options.get(key) or []
        for found in value if isinstance(value, list) else [value]:
            if (found[0] if isinstance(found, list) and len(found) == 1 else found) not in allowed:
                raise CheckpointError(
                    f"{name}: has {key}: {shown(found)}, but nmt suppresses only pad, unk and the decoder's first "
                    "piece. Remove it there to import."
                )


def weight_files(folder: Path) -> list[Path]:
    """The files that hold a folder's tensors; empty if there are none."""
    for pattern in (WEIGHTS, _SHARDS, _PICKLED):
        if found := sorted(filter(Path.is_file, folder.glob(pattern))):
            return found
    return []


def _read_weights(files: Sequence[Path]) -> dict[str, Array]:
    if files[0].name != _PICKLED:
        return read_safetensors(files)
    try:
        values = read_torch_file(files[0])
    except CheckpointError as error:
        raise CheckpointError(
            f"{error} nmt runs no pickled code: save the model as safetensors with transformers (save_pretrained), and "
            "import that."
        ) from None
    return read_tensors(files[0], values)


def tied_naming(tensors: Mapping[str, Array], config: Mapping[str, Any], file: Path) -> Naming:
    """The names of the tensors: of matrices that are one, that of a stored one.

    Raises:
        CheckpointError: a matrix is missing, or two differ that must be the same.
    """
    is_tied = config.get("tie_word_embeddings", True)
    shared, source, target, output = MATRICES

    def one_of(*names: str) -> str:
        present = [name for name in names if name in tensors]
        if not present:
            raise CheckpointError(f"{file}: lacks {names[0]}: is it a model of this kind?")
        for name in present[1:]:
            if is_tied and not np.array_equal(tensors[name], tensors[present[0]]):
                raise CheckpointError(
                    f"{file}: {present[0]} and {name} differ, but tie_word_embeddings of {CONFIG} says that they are "
                    "one matrix. Correct it there."
                )
        return present[0]

    if not is_tied:
        found = one_of(source, shared), one_of(target, shared), one_of(output)
    elif not config.get("share_encoder_decoder_embeddings", True):
        found = one_of(source), one_of(target, output), one_of(target, output)
    else:
        found = (one_of(shared, source, target, output),) * 3
    names = NAMES | matrices(*found)
    if NAMES[OUTPUT_BIAS] not in tensors:
        del names[OUTPUT_BIAS]
    return Naming(names)
