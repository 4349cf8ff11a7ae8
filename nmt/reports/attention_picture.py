"""Attention as a PNG picture: a grid of heat maps, one row per layer and one column per head."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nmt.errors import NmtError
from nmt.packages import require_package
from nmt.reports.labelled_attention import AttentionName, LabelledAttention, labelled
from nmt.translation.attention_maps import AttentionMaps

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOTS_PER_INCH = 150
SOFTWARE = "nmt attention"
"""What a picture says in its metadata."""
# Long sentences have fewer dots per inch: a larger picture would need much memory.
_MOST_DOTS = 8_000
# Inches: the side of a small map, and of a piece's row in a map with labels.
_SMALL_SIDE = 1.0
_PIECE_SIDE = 0.17
_LARGE_SIDE = 2.5
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


def attention_picture(
    maps: AttentionMaps, which: AttentionName, *, layer: int | None = None, heads: Sequence[int] | None = None
) -> bytes:
    """One attention as a PNG picture.

    Args:
        layer: the layer to draw, from 0, with the pieces as labels; None draws small maps of all layers.
        heads: the heads to draw, from 0; None draws all.

    Raises:
        NmtError: matplotlib is not installed, or the model has no such layer or head.
    """
    check_matplotlib()
    attention = labelled(maps, which)
    layers = range(attention.layers) if layer is None else _within([layer], attention.layers, "layer")
    chosen = range(attention.heads) if heads is None else _within(heads, attention.heads, "head")
    with _quiet():
        return _drawn(attention, layers, chosen, maps.model, with_pieces=layer is not None)


def _within(numbers: Sequence[int], count: int, name: str) -> Sequence[int]:
    for number in numbers:
        if not 0 <= number < count:
            raise NmtError(f"{name} {number + 1} does not exist: this attention has the {name}s 1 to {count}.")
    return numbers


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress matplotlib's messages: about characters that no font has, and about its cache of fonts."""
    log = logging.getLogger("matplotlib")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def _drawn(
    attention: LabelledAttention, layers: Sequence[int], heads: Sequence[int], model: str, *, with_pieces: bool
) -> bytes:
    from matplotlib import font_manager, rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    installed = set(font_manager.get_font_names())
    # The maps of one layer are wrapped, so that their labels are legible.
    columns = min(len(heads), 4) if with_pieces else len(heads)
    rows = -(-len(heads) // columns) if with_pieces else len(layers)
    height, width = attention.weights.shape[2:]
    if with_pieces:
        size = (columns * max(_LARGE_SIDE, width * _PIECE_SIDE + 1), rows * max(_LARGE_SIDE, height * _PIECE_SIDE + 1))
    else:
        shape = min(max(width / height, 0.6), 1.6)
        size = (columns * _SMALL_SIDE + 0.7, rows * _SMALL_SIDE / shape + 0.9)
    with rc_context({"font.family": [name for name in _FONTS if name in installed], "font.size": 8}):
        dpi = min(DOTS_PER_INCH, _MOST_DOTS / max(size))
        figure = Figure(figsize=(max(size[0], 3.5), size[1]), dpi=dpi, layout="constrained")
        layer_name = f", layer {layers[0] + 1}" if with_pieces else ""
        figure.suptitle(f"{attention.title}{layer_name}\n{model}", parse_math=False, fontsize=9)
        grid = figure.subplots(rows, columns, squeeze=False)
        places = [(layer, head) for layer in layers for head in heads]
        for axes, place in zip(grid.flat, places, strict=False):
            _draw_map(axes, attention, *place, with_pieces=with_pieces)
        for axes in list(grid.flat)[len(places) :]:
            axes.set_visible(False)
        for axes, head in zip(grid[0], heads, strict=False) if not with_pieces else ():
            axes.set_title(f"head {head + 1}", fontsize=8)
        for axes, layer in zip(grid[:, 0], layers, strict=False) if not with_pieces else ():
            axes.set_ylabel(f"layer {layer + 1}", fontsize=8)
        content = io.BytesIO()
        FigureCanvasAgg(figure).print_png(content, metadata={"Software": SOFTWARE})
    return content.getvalue()


def _draw_map(axes: Axes, attention: LabelledAttention, layer: int, head: int, *, with_pieces: bool) -> None:
    weights = attention.weights[layer, head]
    axes.imshow(weights**_EXPONENT, cmap="Blues", vmin=0, vmax=1, aspect="equal" if with_pieces else "auto")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_linewidth(0.4)
    if with_pieces:
        # A dollar sign in a piece is not the beginning of a formula.
        style: dict[str, Any] = {"fontsize": 7, "parse_math": False}
        axes.set_xticks(range(weights.shape[1]), attention.columns, rotation=90, **style)
        axes.set_yticks(range(weights.shape[0]), attention.rows, **style)
        axes.tick_params(length=0, pad=2, top=True, labeltop=True, bottom=False, labelbottom=False)
        axes.set_title(f"head {head + 1}", fontsize=8)
