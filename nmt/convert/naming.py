"""Default names of imported bundles and exported folders."""

from __future__ import annotations

from pathlib import Path

from nmt.convert.archives import SUFFIXES

MODELS = Path("models")
_OF_RUN = ("average", "best", "last")


def default_bundle(model: Path) -> Path:
    """``models/NAME`` for a model that is imported."""
    return MODELS / model_name(model)


def default_folder(model: Path, to: str, quantization: str | None) -> Path:
    """``models/NAME-FORMAT`` for a run or bundle that is exported."""
    return MODELS / "-".join(filter(None, (model_name(model), to, quantization)))


def model_name(model: Path) -> str:
    """The name of a run, a bundle or another toolkit's model: that of its folder, or of its archive without the
    suffix."""
    if model.is_file():
        if model.suffix in SUFFIXES:
            return model.stem
        model = model.absolute().parent
    path = model.resolve() if model.name not in _OF_RUN else model.absolute()
    parent = path.parent
    if path.name in _OF_RUN or parent.name == "checkpoints":
        run = parent.parent if parent.name == "checkpoints" else parent
        return f"{run.name}-{path.name}"
    return path.name
