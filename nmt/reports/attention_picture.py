"""Attention as a PNG picture: a grid of heat maps, one row per layer and one column per head."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from nmt.machine.packages import require_package, silence
from nmt.reports.labelled_attention import AttentionName, LabelledAttention, labelled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from nmt.translation.attention_maps import AttentionMaps

DOTS_PER_INCH = 150
SOFTWARE = "nmt attention"
"""What a picture says in its metadata."""
# Many heads have fewer dots per inch: a larger picture would need much memory.
_MOST_DOTS = 8_000
# Inches: the side of a map.
_SIDE = 1.0
# The square root of the weight, as in the page, so that low weights stay visible.
_EXPONENT = 0.5
# The first font has Latin, Greek and Cyrillic letters, among others; the others are used if they are installed.
_FONTS = (
    "DejaVu Sans", "Noto Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Noto Sans Arabic",
    "Noto Sans Hebrew", "Noto Sans Devanagari", "Noto Sans Thai", "Arial Unicode MS", "Hiragino Sans",
)  # fmt: skip


def check_matplotlib() -> None:
    """Check that matplotlib is installed and works.

    Raises:
        NmtError: it is not, or does not.
    """
    advice = "Install it: `pip install matplotlib`, or write an HTML page, which does not need it."
    require_package("matplotlib.figure", "matplotlib", what="A PNG picture", advice=advice)


def attention_picture(maps: AttentionMaps, which: AttentionName) -> bytes:
    """One attention as a PNG picture: small maps of all layers and heads.

    Raises:
        NmtError: matplotlib is not installed.
    """
    check_matplotlib()
    with silence():  # matplotlib's messages about characters that no font has, and about its cache of fonts
        return _drawn(labelled(maps, which), maps.model)


def _drawn(attention: LabelledAttention, model: str) -> bytes:
    from matplotlib import font_manager, rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    installed = set(font_manager.get_font_names())
    layers, heads, height, width = attention.weights.shape
    shape = min(max(width / height, 0.6), 1.6)
    size = (heads * _SIDE + 0.7, layers * _SIDE / shape + 0.9)
    with rc_context({"font.family": [name for name in _FONTS if name in installed], "font.size": 8}):
        dpi = min(DOTS_PER_INCH, _MOST_DOTS / max(size))
        figure = Figure(figsize=(max(size[0], 3.5), size[1]), dpi=dpi, layout="constrained")
        figure.suptitle(f"{attention.title}\n{model}", parse_math=False, fontsize=9)
        grid = figure.subplots(layers, heads, squeeze=False)
        for weights, row in zip(attention.weights, grid, strict=True):
            for of_head, axes in zip(weights, row, strict=True):
                _draw_map(axes, of_head)
        for head, axes in enumerate(grid[0], start=1):
            axes.set_title(f"head {head}", fontsize=8)
        for layer, axes in enumerate(grid[:, 0], start=1):
            axes.set_ylabel(f"layer {layer}", fontsize=8)
        content = io.BytesIO()
        FigureCanvasAgg(figure).print_png(content, metadata={"Software": SOFTWARE})
    return content.getvalue()


def _draw_map(axes: Axes, weights: NDArray[Any]) -> None:
    axes.imshow(weights**_EXPONENT, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_linewidth(0.4)
