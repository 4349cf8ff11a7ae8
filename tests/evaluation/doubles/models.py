"""Tiny models for the doubles of COMET's and BLEURT's packages, which lie in this folder."""

from __future__ import annotations

import json
from pathlib import Path

DOUBLES = Path(__file__).parent
"""A folder for Python's path."""


def comet_model(folder: Path, **settings) -> Path:
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "hparams.yaml").write_text("class_identifier: regression_metric\n")
    (folder / "checkpoints" / "model.ckpt").write_text(json.dumps(settings))
    return folder


def bleurt_model(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 64}))
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder
