"""Import of our own bundles: an older version's bundle, or a run's, written anew as this version writes it."""

from __future__ import annotations

from pathlib import Path

import torch

from nmt.checkpoint.bundle import Bundle
from nmt.checkpoint.bundle_files import is_bundle
from nmt.checkpoint.run_folder import is_run
from nmt.convert.certificate.record import Check, exact_check
from nmt.convert.huggingface.reading import is_huggingface

OWN = "nmt"
"""The name of our own format."""
_ORACLE = "the original bundle's files"


def is_own(folder: Path) -> bool:
    """Whether a path is a folder of a run or a bundle of ours, which name their weights as transformers does."""
    return folder.is_dir() and (is_run(folder) or (is_bundle(folder) and not is_huggingface(folder)))


def behind_link(folder: Path) -> Path:
    """The folder that a link names now. Training moves a run's ``last`` and ``best`` to other checkpoints."""
    return folder.resolve() if folder.is_symlink() else folder


def same_bundles(found: Bundle, expected: Bundle) -> list[Check]:
    """Compare two bundles: weights number by number, pieces and settings."""
    names = found.weights.keys() | expected.weights.keys()
    weights = sorted(
        name
        for name in names
        if name not in found.weights
        or name not in expected.weights
        or not torch.equal(found.weights[name].float(), expected.weights[name].float())
    )
    pieces = [] if found.vocab.fingerprint == expected.vocab.fingerprint else ["the vocabulary"]
    theirs, ours = expected.config.model_dump(), found.config.model_dump()
    settings = [section for section in ours if ours[section] != theirs[section]]
    return [
        exact_check("tensors", weights, f"{len(found.weights)} tensors are equal, number by number", _ORACLE),
        exact_check("vocabulary", pieces, f"{found.vocab.size:,} pieces have their ids", _ORACLE),
        exact_check("settings", settings, "all settings are those of the original", _ORACLE),
    ]
