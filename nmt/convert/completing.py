"""The last step of reading a model: what follows from its tensors and vocabularies together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from nmt.config import DecodingConfig
from nmt.convert.foreign import ForeignModel
from nmt.convert.segmenters import segmentation_remarks
from nmt.convert.tensors import check_position_tables, tied_embeddings

BEAM_OF_5 = DecodingConfig(beam=5, length_penalty=1, normalization="length")
"""The search that fairseq, OpenNMT-py 3 and Sockeye make by default."""


def completed(model: ForeignModel, name: str) -> ForeignModel:
    """A model with the tying of its embeddings found, its tables of positions checked, and remarks on its text.

    Args:
        name: of the file, for errors.

    Raises:
        CheckpointError: a table holds other positions than the settings promise.
    """
    tied = tied_embeddings(model.tensors, model.layout, model.source, model.target)
    model = replace(
        model,
        config=model.config.model_copy(update={"tied_embeddings": tied}),
        remarks=(*model.remarks, *segmentation_remarks(model.source, model.target)),
    )
    check_position_tables(model, name)
    return model


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
