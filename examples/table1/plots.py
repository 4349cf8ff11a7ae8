"""Curves of the measurements, drawn by matplotlib."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from measuring import Measurement

from nmt.errors import ConfigError
from nmt.io.files import replacing
from nmt.io.ownership import Kind, check_replaceable

_MARK = "nmt table1"


def _is_ours(path: Path) -> bool:
    return _MARK.encode() in path.read_bytes()


_PICTURE = Kind("a picture of this example", _is_ours)


def check_picture(path: Path) -> None:
    """Check that a picture can be drawn, before any work for it.

    Raises:
        ConfigError: the suffix is that of no picture, or matplotlib is not installed.
        OutputError: something else exists at ``path``.
    """
    if path.suffix not in (".png", ".svg"):
        raise ConfigError(f"--picture {path}: expected a name that ends in .png or .svg.")
    if importlib.util.find_spec("matplotlib") is None:
        raise ConfigError("pictures need matplotlib, which is not installed: `pip install matplotlib`.")
    check_replaceable(path, _PICTURE)


def draw_times(
    over_n: Mapping[str, Sequence[Measurement]], over_d: Mapping[str, Sequence[Measurement]], path: Path
) -> None:
    """Draw seconds over n and over d, on logarithmic axes."""
    figure, axes = _figure(2)
    for axis, name, measured in zip(axes, ("n", "d"), (over_n, over_d), strict=True):
        for layer, measurements in measured.items():
            axis.loglog([one.size for one in measurements], [one.seconds for one in measurements], "o-", label=layer)
        axis.set_xlabel(name)
        axis.set_xscale("log", base=2)
        axis.set_ylabel("seconds, forward and backward")
        axis.grid(alpha=0.3)
    axes[0].legend()
    _save(figure, path)


def draw_scale(norms: Sequence[tuple[int, float, float]], path: Path) -> None:
    """Draw the gradient of the softmax over d_k."""
    figure, [axis] = _figure(1)
    sizes, scaled, plain = zip(*norms, strict=True)
    axis.plot(sizes, scaled, "o-", label="scaled by 1/√d_k")
    axis.plot(sizes, plain, "o-", label="unscaled")
    axis.set_xscale("log", base=2)
    axis.set_ylim(0)
    axis.set_xlabel("d_k")
    axis.set_ylabel("mean norm of the softmax's gradient")
    axis.grid(alpha=0.3)
    axis.legend()
    _save(figure, path)


def _figure(count: int) -> tuple[Any, Sequence[Any]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6 * count, 4.5), layout="constrained")
    return figure, figure.subplots(1, count, squeeze=False)[0]


def _save(figure: Any, path: Path) -> None:
    key = "Software" if path.suffix == ".png" else "Title"
    with replacing(path) as stream:
        figure.savefig(stream, format=path.suffix[1:], dpi=150, metadata={key: _MARK})
