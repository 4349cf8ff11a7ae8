"""The matrices of pieces and of positions of a model of Eole: which tensors they are, and their scale."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch

from nmt.convert.eole.config_file import EMBEDDINGS, EoleSettings
from nmt.convert.eole.refusals import POSITIONS
from nmt.convert.foreign import Array, Part
from nmt.convert.settings import positions_of_tables
from nmt.convert.unscaled import divided, exact_scale, scaled_name
from nmt.errors import CheckpointError
from nmt.model.positions import halves, sinusoids, tensor2tensor_rates

TABLES = ("src_emb.pe.pe", "tgt_emb.pe.pe")
"""Sinusoids, computed once and stored."""
_SOURCE, _TARGET, _OUTPUT = "src_emb.embeddings.weight", "tgt_emb.embeddings.weight", "generator.weight"
_LEARNED = ("src_emb.pe.weight", "tgt_emb.pe.weight")
_PARTS: tuple[Part, Part] = ("encoder", "decoder")
_SAME_TABLE = 1.5e-4
"""The largest difference of a table of fp32 from ours of float64; that of a table of 16 bits is larger."""
STORED_POSITIONS = (
    "The stored positions differ from computed ones, as those of 16 bits do. They are taken as they are, as learned "
    "positions."
)


@dataclass(frozen=True)
class Embeddings:
    """The names of the matrices, and the tensors that were made of stored ones to have our scale."""

    source: str
    target: str
    output: str
    positions: Mapping[Part, str] = field(default_factory=dict)
    """Those that are weights, or stored sinusoids that differ from ours."""
    first_row: int = 0
    """The row of the first piece in learned positions."""
    kind: str = "learned"
    """The positions, in our terms."""
    max_positions: int = 0
    made: Mapping[str, Array] = field(default_factory=dict)
    replaced: tuple[str, ...] = ()
    """Stored tensors that others stand for."""


def find_embeddings(
    settings: EoleSettings, tensors: Mapping[str, Array], name: str, *, has_specials: bool
) -> Embeddings:
    """The matrices among the tensors of a model.

    Args:
        name: of the file of tensors, for errors.
        has_specials: whether vocab.json names the special pieces, as since Eole 0.0.3.

    Raises:
        CheckpointError: one is missing, two differ that must be the same, or ours cannot express them.
    """
    source, target, output = _matrices(settings, tensors, name)
    if POSITIONS[settings.position_kind] == "learned":
        return _learned(settings, tensors, name, (source, target, output))
    if settings.is_normalized:
        raise settings.refused(
            f"model.{EMBEDDINGS}.normalize", True, "sinusoids that are multiplied by sqrt(hidden_size)"
        )
    tables = [table for table in TABLES if table in tensors]
    if not tables and not has_specials:  # Eole 0.0.1 has sinusoids only where they are asked for
        raise settings.refused(f"model.{EMBEDDINGS}.position_encoding", False, "no positions")
    kind = POSITIONS[settings.position_kind]
    if all(_is_computed(tensors[table], kind) for table in tables):
        return Embeddings(source, target, output, kind=kind, max_positions=positions_of_tables(tensors, TABLES, kind))
    missing = [table for table in TABLES if table not in tensors]
    if missing:
        raise CheckpointError(f"{name}: lacks {missing[0]}, but holds {tables[0]}. Copy the model again.")
    rows = positions_of_tables(tensors, TABLES, kind)
    made = {f"{table}[:{rows}]": _flat(tensors[table])[:rows] for table in TABLES}
    return Embeddings(
        source,
        target,
        output,
        dict(zip(_PARTS, made, strict=True)),
        max_positions=rows,
        made=made,
        replaced=TABLES,
    )


def _matrices(settings: EoleSettings, tensors: Mapping[str, Array], name: str) -> tuple[str, str, str]:
    """Those of source pieces, target pieces and outputs. Eole stores a shared one once."""
    if _SOURCE not in tensors:
        raise CheckpointError(f"{name}: lacks {_SOURCE}: is it a Transformer of Eole?")
    target = _shared(settings, tensors, name, "share_embeddings", _TARGET, _SOURCE)
    return _SOURCE, target, _shared(settings, tensors, name, "share_decoder_embeddings", _OUTPUT, target)


def _shared(
    settings: EoleSettings, tensors: Mapping[str, Array], name: str, setting: str, matrix: str, other: str
) -> str:
    """A matrix, or the other one that stands for it."""
    if settings.model.get(setting) is not True:
        return matrix
    if matrix in tensors and not (other in tensors and np.array_equal(tensors[matrix], tensors[other])):
        raise CheckpointError(
            f"{name}: {other} and {matrix} differ, but model.{setting} of {settings.name} says that they are one "
            "matrix. Correct it there."
        )
    return other


def _learned(
    settings: EoleSettings, tensors: Mapping[str, Array], name: str, matrices: tuple[str, str, str]
) -> Embeddings:
    """Learned positions, beside which Eole does not multiply embeddings by sqrt(hidden_size), or multiplies both."""
    source, target, output = matrices
    shift = settings.of_section(EMBEDDINGS, "position_shift") or 0
    if type(shift) is not int or shift < 0:
        raise settings.refused(f"model.{EMBEDDINGS}.position_shift", shift, "positions before the first")
    missing = [matrix for matrix in (target, *_LEARNED) if matrix not in tensors]
    if missing:
        raise CheckpointError(f"{name}: lacks {missing[0]}: is it a Transformer of Eole, with these settings?")
    width = tensors[source].shape[-1] if tensors[source].ndim else 0
    if (scale := exact_scale(width)) is None:
        raise settings.refused(
            f"model.{EMBEDDINGS}.position_encoding_type",
            settings.position_kind,
            f"embeddings that are not multiplied by sqrt(hidden_size) = {math.sqrt(width):g}, no power of two",
        )
    rows = positions_of_tables(tensors, _LEARNED, "learned") - shift
    if settings.is_normalized:
        made = divided(tensors, _LEARNED, 1 / scale)
        positions = dict(zip(_PARTS, made, strict=True))
        return Embeddings(source, target, output, positions, shift, max_positions=rows, made=made, replaced=_LEARNED)
    made = divided(tensors, (source, target), scale)
    return Embeddings(
        scaled_name(source, scale),
        scaled_name(target, scale),
        output,
        dict(zip(_PARTS, _LEARNED, strict=True)),
        shift,
        max_positions=rows,
        made=made,
        replaced=tuple({source, target} - {output}),
    )


def _is_computed(table: Array, kind: str) -> bool:
    """Whether a table holds the sinusoids that we compute, but for the rounding of fp32."""
    rows_TD = _flat(table)[: positions_of_tables({"table": table}, ["table"], kind)]
    width = rows_TD.shape[-1]
    if width % 2 or width < 4:
        return False
    position_T = torch.arange(len(rows_TD), dtype=torch.float64)
    ours_TD = sinusoids(position_T, width) if kind == "sinusoidal" else halves(position_T, tensor2tensor_rates(width))
    return bool(np.abs(rows_TD - ours_TD.numpy()).max(initial=0) <= _SAME_TABLE)


def _flat(table: Array) -> Array:
    """A table as (positions, features); Eole has an axis of sentences between them."""
    return table.reshape(-1, table.shape[-1]) if table.ndim and table.shape[-1] else table.reshape(0, 0)
