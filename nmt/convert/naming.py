"""Default names of exported folders."""

from __future__ import annotations

from pathlib import Path

MODELS = Path("models")
_OF_RUN = ("average", "best", "last")


def default_folder(model: Path, to: str, quantization: str | None) -> Path:
    """``models/NAME-FORMAT``, where NAME is that of the run or bundle."""
    path = model.resolve() if model.name not in _OF_RUN else model.absolute()
    parent = path.parent
    if path.name in _OF_RUN or parent.name == "checkpoints":
        run = parent.parent if parent.name == "checkpoints" else parent
        name = f"{run.name}-{path.name}"
    else:
        name = path.name
    return MODELS / "-".join(filter(None, (name, to, quantization)))
