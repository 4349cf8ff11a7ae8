"""What the files of an exported folder say, compared with the bundle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.checkpoint.bundle import Bundle
from nmt.convert.certificate.record import Check
from nmt.convert.exported_files import file_check, read_bytes, settings_check
from nmt.convert.exported_segmenters import (
    SOURCE_MODEL,
    TARGET_MODEL,
    check_segmenters,
    check_vocabulary,
    read_pieces_list,
    spm_pieces,
)
from nmt.convert.onnx.graphs import graph_model
from nmt.convert.onnx.writing import (
    CONFIG_NAME,
    DECODER_NAME,
    DECODER_WITH_PAST_NAME,
    ENCODER_NAME,
    SOURCE_PIECES_NAME,
    TARGET_PIECES_NAME,
    model_settings,
)
from nmt.errors import CheckpointError

HOLDS = (ENCODER_NAME, DECODER_NAME, DECODER_WITH_PAST_NAME, CONFIG_NAME, "*_vocabulary.json", "*.spm")
_PREFIX = "model."


def vocabularies(folder: Path) -> tuple[list[str], list[str]]:
    """The source and the target pieces of a model, by the graphs' ids: a list, or the SentencePiece model's pieces.

    Raises:
        CheckpointError: a file is missing or damaged.
    """
    files = ((SOURCE_PIECES_NAME, SOURCE_MODEL), (TARGET_PIECES_NAME, TARGET_MODEL))
    source, target = (_pieces(folder / listed, folder / model) for listed, model in files)
    return source, target


def _pieces(listed: Path, model: Path) -> list[str]:
    return read_pieces_list(listed) if listed.exists() else spm_pieces(model)


def check_onnx_files(folder: Path, bundle: Bundle, quantization: str) -> list[Check]:
    """Compare weights, settings, vocabularies and SentencePiece models with those of the bundle."""
    checks = [
        settings_check(folder / CONFIG_NAME, model_settings(bundle)),
        check_vocabulary(vocabularies(folder), bundle),
        check_segmenters(folder, bundle),
    ]
    return [_tensors(folder, bundle), *checks] if quantization == "float32" else checks


def _tensors(folder: Path, bundle: Bundle) -> Check:
    """All weights are in the graphs, number by number."""
    expected = {name: tensor.numpy() for name, tensor in graph_model(bundle).state_dict().items()}
    found, differing, unnamed = set(), set(), set()
    for name in (ENCODER_NAME, DECODER_NAME, DECODER_WITH_PAST_NAME):
        for tensor, array in _stored(folder / name):
            if tensor not in expected:
                unnamed.add(array.tobytes())
                continue
            found.add(tensor)
            if not np.array_equal(array, expected[tensor]):
                differing.add(f"{tensor} in {name}")
    # Exporters name a tensor anew where they give it another shape.
    found |= {tensor for tensor, array in expected.items() if array.tobytes() in unnamed}
    missing = [f"{tensor} (not found)" for tensor in sorted(expected.keys() - found)]
    return file_check(
        "tensors", sorted(differing) + missing, f"{len(found)} tensors are the bundle's, number by number"
    )


def _stored(path: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """The tensors of a graph, by our names."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        for tensor in onnx.load_model_from_string(read_bytes(path)).graph.initializer:
            yield tensor.name.removeprefix(_PREFIX), onnx.numpy_helper.to_array(tensor)
    except (DecodeError, ValueError) as error:
        raise CheckpointError(f"{path}: is damaged ({error}). Export the model again.") from None
