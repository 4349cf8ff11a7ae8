"""Import of our own bundles: a bundle, or that of a run, is written anew."""

from __future__ import annotations

from pathlib import Path

from nmt.checkpoint.bundle_files import is_bundle
from nmt.checkpoint.run_folder import is_run
from nmt.convert.huggingface.reading import is_huggingface

OWN = "nmt"
"""The name of our own format."""


def is_own(folder: Path) -> bool:
    """Whether a path is a folder of a run or a bundle of ours, which name their weights as transformers does."""
    return folder.is_dir() and (is_run(folder) or (is_bundle(folder) and not is_huggingface(folder)))


def behind_link(folder: Path) -> Path:
    """The folder that a link names now. Training moves a run's ``last`` and ``best`` to other checkpoints."""
    return folder.resolve() if folder.is_symlink() else folder
