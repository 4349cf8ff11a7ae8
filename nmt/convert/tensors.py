"""The tensors of files, and what they tell of a model: which embeddings are one, and what its positions are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from nmt.checkpoint.fitting import in_words
from nmt.convert.files import listed, shown
from nmt.convert.foreign import (
    COMPOSED,
    OUTPUT,
    POSITIONS,
    SOURCE_EMBEDDING,
    TARGET_EMBEDDING,
    Array,
    ForeignModel,
    ForeignVocabulary,
    Naming,
    files_by_name,
)
from nmt.convert.segmenters import segmentation_remarks
from nmt.convert.settings import MAX_POSITIONS, model_settings, plain_settings
from nmt.convert.vocabulary import with_tags
from nmt.convert.weights import our_parameters, split
from nmt.errors import CheckpointError
from nmt.model.positions import fixed_positions
from nmt.text.steps import TextSteps

STORED_POSITIONS = (
    "The stored positions are not those that nmt computes (16 bits, another order or another rate). They are taken as "
    "they are, as learned positions."
)
NO_POWERS: Mapping[str, int] = {}
UNSCALED = {SOURCE_EMBEDDING: -1, TARGET_EMBEDDING: -1}
"""The powers of sqrt(d_model) for a toolkit that does not multiply embeddings by it."""
_SAME_POSITIONS = 1.5e-4
"""The largest difference of a table of fp32 from ours of float64; that of a table of 16 bits is larger."""
_COMPUTED = (("sinusoidal", 0), ("sinusoidal_halves", 0), *(("tensor2tensor", first) for first in range(3)))
"""The kinds of computed positions, each with a first one that toolkits have."""


def read_tensors(path: Path, values: object, ignored: Iterable[str] = ()) -> dict[str, Array]:
    """The tensors of a state dict, as float32.

    Args:
        path: of the file, for errors.
        values: the state dict, within what was read from the file.
        ignored: endings of the names of tensors that are not read.

    Raises:
        CheckpointError: it is no state dict, or a tensor is damaged or quantised.
    """
    if not isinstance(values, Mapping):
        raise CheckpointError(f"{path}: has no tensors by name where the model's should be.")
    tensors = {}
    for name, tensor in values.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise CheckpointError(f"{path}: {shown(name)} of the model is not a tensor.")
        if not name.endswith(tuple(ignored)):
            tensors[name] = _array(tensor, path, name)
    return tensors


def read_safetensors(files: Sequence[Path]) -> dict[str, Array]:
    """All tensors of files of safetensors as float32, by name.

    Raises:
        CheckpointError: a file is damaged, or holds numbers that are not floating-point, or a tensor of another file.
    """
    tensors: dict[str, Array] = {}
    for path in files:
        try:
            read = load_file(path)
        except (SafetensorError, OSError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"{path}: cannot be read ({error}). Copy the model again.") from None
        if (twice := next((name for name in read if name in tensors), None)) is not None:
            raise CheckpointError(
                f"{path}: holds '{shown(twice)}', which another file of the model holds too. Copy the model again."
            )
        tensors |= {name: _array(tensor, path, name) for name, tensor in read.items()}
    return tensors


def _array(tensor: torch.Tensor, path: Path, name: str) -> Array:
    """The numbers of a tensor, as float32."""
    if not tensor.is_floating_point():
        raise CheckpointError(
            f"{path}: '{shown(name)}' is not a tensor of floating-point numbers: the model is quantised. Import the "
            "model that it was made from."
        )
    # A view may show each number of its storage many times.
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise CheckpointError(f"{path}: '{shown(name)}' is damaged: a tensor is larger than its storage.")
    try:
        return tensor.detach().float().contiguous().numpy()
    except (RuntimeError, ValueError, TypeError) as error:
        raise CheckpointError(f"{path}: '{shown(name)}' is damaged: it cannot be read ({shown(str(error))}).") from None


def foreign_model(
    name: str,
    ours: Mapping[str, Any],
    *,
    tensors: Mapping[str, Array],
    naming: Naming,
    source: ForeignVocabulary,
    target: ForeignVocabulary,
    powers: Mapping[str, int] = NO_POWERS,
    languages: tuple[str, str],
    files: Iterable[Path | None],
    settings: Mapping[str, Any],
    ignored: Iterable[str] = (),
    remarks: Iterable[str] = (),
    text: TextSteps = COMPOSED,
    **others: Any,
) -> ForeignModel:
    """A model of another toolkit, each of whose tensors has its place and its size.

    The tensors tell which embeddings are one. Positions that a file holds are computed ones if they are equal to those
    of a kind, and learned ones if not.

    Args:
        name: of the model's file, for errors.
        ours: the settings of our :class:`ModelConfig`, but for the tying of embeddings. ``positions`` is the kind that
            is computed where no positions are stored.
        powers: our parameter -> the power of sqrt(d_model) that their numbers must be multiplied by to be ours.
        languages: the codes of both languages, no text where they are unknown.
        files: those that were read; None is left out.
        settings: the toolkit's own, of which plain values are kept.
        ignored: names of tensors that have no effect on the model.
        remarks, text, others: as the attributes of :class:`ForeignModel`.

    Raises:
        CheckpointError: a setting is missing or impossible; or a tensor is missing, of another size or without a place
            in our model. The message names it.
    """
    tied = "none" if TARGET_EMBEDDING in powers else _tied_embeddings(tensors, naming, source, target)
    ours_as_stored = _with_stored_positions(name, ours, tensors, naming)
    config = model_settings(name, **ours_as_stored, tied_embeddings=tied)
    if config.positions == "learned" != ours["positions"]:
        remarks = [*remarks, STORED_POSITIONS]
        tensors = _both_tables(name, ours, tensors, naming)
    model = ForeignModel(
        config=config,
        tensors=tensors,
        naming=naming,
        source=source,
        target=target,
        source_lang=languages[0],
        target_lang=languages[1],
        files=files_by_name(files),
        settings=plain_settings(settings),
        factors={scaled: config.d_model ** (power / 2) for scaled, power in powers.items()},
        text=with_tags(text, source),
        remarks=(*remarks, *segmentation_remarks(source, target, text)),
        **others,
    )
    _check_tensors(model, name, ignored)
    return model


def _tied_embeddings(
    tensors: Mapping[str, Array],
    naming: Naming,
    source: ForeignVocabulary,
    target: ForeignVocabulary,
) -> Literal["all", "decoder", "none"]:
    """Which embeddings are equal, number by number. Matrices that are missing are equal to none."""
    source_VD, target_VD, output_VD = (
        tensors.get(naming.tensors[name]) for name in (SOURCE_EMBEDDING, TARGET_EMBEDDING, OUTPUT)
    )
    if target_VD is None or output_VD is None or not np.array_equal(target_VD, output_VD):
        return "none"
    is_shared = source.pieces == target.pieces and source_VD is not None and np.array_equal(source_VD, target_VD)
    return "all" if is_shared else "decoder"


def _with_stored_positions(
    name: str, settings: Mapping[str, Any], tensors: Mapping[str, Array], naming: Naming
) -> dict[str, Any]:
    """The settings, with the kind and the number of the positions that the file holds."""
    model_settings(name, **{"max_positions": MAX_POSITIONS, **settings})  # they are possible
    usual, width = settings["positions"], settings["d_model"]
    names = [theirs for ours in POSITIONS if (theirs := naming.tensors.get(ours, "")) in tensors]
    if not names:
        return {"max_positions": MAX_POSITIONS, **settings}
    for table in names:
        if (shape := tensors[table].shape)[-1:] != (width,) or tensors[table].size != max(
            shape[:-1], default=0
        ) * width:
            raise CheckpointError(f"{name}: {table} is {in_words(shape)}, expected a number of positions x {width}.")
    rows = min(tensors[table].size // width for table in names) - naming.first_position
    if rows < settings.get("max_positions", 0):
        raise CheckpointError(
            f"{name}: {names[0]} has {rows:,} positions, but the settings say {settings['max_positions']:,}: they "
            "belong to different models."
        )
    if usual == "learned":
        return {**settings, "max_positions": rows}
    settings = {**settings, "max_positions": settings.get("max_positions", min(MAX_POSITIONS, rows))}
    stored = [tensors[table].reshape(-1, width)[naming.first_position :] for table in names]
    others = _COMPUTED if len(names) == len(POSITIONS) else ()  # a side without a table has the toolkit's kind
    for kind, first in ((usual, settings.get("first_position", 0)), *others):
        found = {**settings, "positions": kind, "first_position": first}
        computed = fixed_positions(model_settings(name, **found))
        assert computed is not None
        if all(np.abs(table[: len(computed)] - computed.numpy()).max() <= _SAME_POSITIONS for table in stored):
            return found
    return {**settings, "positions": "learned", "first_position": 0}


def _both_tables(
    name: str, settings: Mapping[str, Any], tensors: Mapping[str, Array], naming: Naming
) -> Mapping[str, Array]:
    """The tensors, with the computed positions of a side that stores none beside one that does."""
    computed = fixed_positions(model_settings(name, **{"max_positions": MAX_POSITIONS, **settings}))
    assert computed is not None
    table = np.pad(computed.float().numpy(), ((naming.first_position, 0), (0, 0)))
    return {**{naming.tensors[ours]: table for ours in POSITIONS}, **tensors}


def _check_tensors(model: ForeignModel, name: str, ignored: Iterable[str]) -> None:
    layers = model.config.encoder_layers + model.config.decoder_layers
    if layers > len(model.tensors):  # found out before a model of so many layers is made
        raise CheckpointError(
            f"{name}: its settings say {layers:,} layers, but it holds {len(model.tensors):,} tensors."
        )
    expected = [*_expected(model)]
    names = dict.fromkeys(tensor for tensor, _ in expected)
    if missing := [tensor for tensor in names if tensor not in model.tensors]:
        raise CheckpointError(f"{name}: lacks {listed(missing)}: the file is not whole, or its settings are wrong.")
    # A matrix may be stored for each of its uses, and positions although they are computed.
    stored_again = {model.naming.theirs(ours) for ours in (SOURCE_EMBEDDING, OUTPUT, *POSITIONS)}
    if left_over := sorted(model.tensors.keys() - names.keys() - stored_again - {*ignored}):
        raise CheckpointError(
            f"{name}: holds {listed(left_over)}, which have no place in our model. It may be a kind of Transformer "
            "that nmt does not have; please report it with the settings of the model."
        )
    for tensor, size in expected:
        found = model.tensors[tensor].shape
        is_row = len(size) == 1 and found == (1, *size)  # as Marian stores vectors
        if found != size and not is_row and size:
            raise CheckpointError(
                f"{name}: {tensor} is {in_words(found)}, expected {in_words(size)}. Its files belong to different "
                "models, or are damaged."
            )


def _expected(model: ForeignModel) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name -> shape of each tensor, as the settings say; no shape for positions, which are checked before."""
    for whole, shapes in our_parameters(model.config).items():
        for ours, parameter in split(whole, shapes, model.config).items():
            if (theirs := model.naming.theirs(ours)) is None:
                continue
            size = tuple(parameter.shape)
            if ours.startswith("embedding."):
                side = model.source if ours == SOURCE_EMBEDDING else model.target
                size = (len(side.pieces), *size[1:])
            is_matrix = len(size) == 2 and not ours.startswith("embedding.")
            yield theirs, () if ours in POSITIONS else size[::-1] if is_matrix and model.naming.is_transposed else size
