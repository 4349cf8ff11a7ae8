"""The last step of reading a model: what follows from its tensors and vocabularies together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from nmt.config import DecodingConfig
from nmt.convert.foreign import ForeignModel
from nmt.convert.segmenters import segmentation_remarks
from nmt.convert.tensors import check_tensors, tied_embeddings

BEAM_OF_5 = DecodingConfig(beam=5, length_penalty=1, normalization="length")
"""The search that fairseq, OpenNMT-py and Sockeye make by default."""


def completed(model: ForeignModel, name: str) -> ForeignModel:
    """A model with the tying of its embeddings found, its tensors checked, and remarks on its text.

    Args:
        name: of the file, for errors.

    Raises:
        CheckpointError: a tensor is missing, unknown, or has another shape.
    """
    tied = tied_embeddings(model.tensors, model.layout, model.source, model.target)
    model = replace(
        model,
        config=model.config.model_copy(update={"tied_embeddings": tied}),
        remarks=(*model.remarks, *segmentation_remarks(model.source, model.target)),
    )
    check_tensors(model, name)
    return model


def files_by_name(paths: Iterable[Path | None]) -> dict[str, Path]:
    """The files that were read, as :attr:`ForeignModel.files`; None is left out."""
    return {path.name: path for path in paths if path is not None}
