"""The checks of a conversion that need no computing: tensors, vocabulary and settings are all there, and the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from nmt.checkpoint.bundle import Bundle
from nmt.convert.certificate.record import Check, exact_check
from nmt.convert.foreign import Array, ForeignModel
from nmt.convert.vocabulary import our_vocabulary
from nmt.convert.weights import our_weights
from nmt.data.vocab import Vocabulary

_ORACLE = "the other toolkit's files"


def tensor_record(tensors: Mapping[str, Array]) -> dict[str, dict[str, Any]]:
    """Name -> shape and sha256 of each tensor."""
    return {
        name: {"shape": list(array.shape), "sha256": hashlib.sha256(array.tobytes()).hexdigest()}
        for name, array in sorted(tensors.items())
    }


def structure(bundle: Bundle, model: ForeignModel) -> list[Check]:
    """Compare a bundle, as it was read from disk, with the other toolkit's files."""
    return [_tensors(bundle, model), _vocabulary(bundle, model), _settings(bundle, model)]


def _tensors(bundle: Bundle, model: ForeignModel) -> Check:
    expected = our_weights(model)
    differing = sorted(
        name
        for name in expected.keys() | bundle.weights.keys()
        if name not in expected or name not in bundle.weights or not _is_equal(expected[name], bundle.weights[name])
    )
    detail = f"{len(model.tensors)} tensors are the bundle's {len(expected)}, number by number"
    return exact_check("tensors", differing, detail, _ORACLE)


def _is_equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a, b)


def _vocabulary(bundle: Bundle, model: ForeignModel) -> Check:
    """Each piece has the vector of the other toolkit's piece of that name."""
    differing: list[str] = []
    expected = our_vocabulary(model)
    sides: tuple[tuple[str, Vocabulary, Vocabulary], ...] = (
        ("source", bundle.vocab, expected),
        ("target", bundle.vocab.target, expected.target),
    )
    for side, found, wanted in sides:
        differing += [f"{side} {piece}" for piece in _moved(found, wanted)]
    detail = f"{len(model.source.pieces):,} source and {len(model.target.pieces):,} target pieces have their ids"
    return exact_check("vocabulary", differing, detail, _ORACLE)


def _moved(found: Vocabulary, wanted: Vocabulary) -> Iterator[str]:
    """Pieces with another id than they should have."""
    ids = dict(zip(wanted.pieces(range(wanted.size)), range(wanted.size), strict=True))
    for index, piece in enumerate(found.pieces(range(found.size))):
        if ids.pop(piece, None) != index:
            yield piece
    yield from ids


def _settings(bundle: Bundle, model: ForeignModel) -> Check:
    expected, found = model.config.model_dump(), bundle.config.model.model_dump()
    differing = [f"{key}: {found[key]}, expected {expected[key]}" for key in expected if found[key] != expected[key]]
    detail = f"{len(expected)} settings of the model are those of the other toolkit"
    return exact_check("settings", differing, detail, _ORACLE)
