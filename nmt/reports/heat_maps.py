"""Small heat maps as PNG images in data URIs: a few hundred bytes per head of a model."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

# One colour, --colour-0 of assets/charts.css, at 16 levels of opacity: so a map fits a light and a dark page.
_COLOUR = (0x00, 0x72, 0xB2)
_LEVELS = 16
# Each weight becomes a square of pixels, so that a browser scales down and all rows look equally high.
_SMALLEST_SIDE = 96


def heat_map(weights: NDArray[np.floating]) -> str:
    """The data URI of a picture with one square per weight.

    Args:
        weights: (rows, columns), from 0 to 1. The opacity is the square root of the weight, so that low weights stay
            visible.
    """
    levels = np.rint(np.sqrt(np.clip(weights, 0, 1)) * (_LEVELS - 1)).astype(np.uint8)
    factor = -(-_SMALLEST_SIDE // max(levels.shape))
    pixels = levels.repeat(factor, axis=0).repeat(factor, axis=1)
    return "data:image/png;base64," + base64.b64encode(_png(pixels)).decode("ascii")


def _png(pixels: NDArray[np.uint8]) -> bytes:
    """A PNG with a palette of 16 entries. Two pixels share a byte; each row begins with its filter type, 0."""
    height, width = pixels.shape
    even = np.pad(pixels, ((0, 0), (0, width % 2)))
    packed = even[:, 0::2] << 4 | even[:, 1::2]
    rows = np.pad(packed, ((0, 0), (1, 0)))
    opacities = bytes(round(255 * level / (_LEVELS - 1)) for level in range(_LEVELS))
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 4, 3, 0, 0, 0)),
        (b"PLTE", bytes(_COLOUR) * _LEVELS),
        (b"tRNS", opacities),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
