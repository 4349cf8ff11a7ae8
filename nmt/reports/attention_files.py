"""Attention weights as files: the form is chosen by the suffix."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.errors import ConfigError
from nmt.io.files import replacing
from nmt.io.ownership import Kind, check_replaceable
from nmt.reports.attention_page import ATTENTION, attention_page
from nmt.reports.attention_picture import SOFTWARE, attention_picture, check_matplotlib
from nmt.reports.labelled_attention import ATTENTIONS, AttentionName
from nmt.text.printable import writable

if TYPE_CHECKING:
    from nmt.translation.attention_maps import AttentionMaps

# Enough to tell apart all float32 weights that differ by more than rounding.
_DIGITS = 7
_FIELDS = ("model", "source", "target", "source_pieces", "input_pieces", "output_pieces", *ATTENTIONS)


def _is_picture(path: Path) -> bool:
    with path.open("rb") as stream:
        return SOFTWARE.encode() in stream.read(1_000)


def _is_json(path: Path) -> bool:
    with path.open("rb") as stream:
        try:
            return set(json.loads(stream.readline())) >= set(_FIELDS)
        except (ValueError, TypeError, RecursionError):
            return False


_KINDS: dict[str, Kind] = {
    ".html": ATTENTION.kind,
    ".png": Kind("a picture of attention", _is_picture),
    ".json": Kind("attention weights", _is_json),
}


def check_attention_file(path: Path) -> None:
    """Check that a file can be written, before any work for it.

    Raises:
        ConfigError: no form has this suffix, or a picture needs matplotlib, which is not installed.
        OutputError: something else exists at ``path``.
    """
    if path.suffix not in _KINDS:
        raise ConfigError(f"--out {path}: expected a name that ends in {', '.join(_KINDS)}.")
    if path.suffix == ".png":
        check_matplotlib()
    check_replaceable(path, _KINDS[path.suffix])


def write_attention(maps: Sequence[AttentionMaps], path: Path, picture: AttentionName) -> None:
    """Write a page, a picture or JSON, by the suffix.

    Args:
        picture: the attention that a picture shows, of the first sentence.

    Raises:
        ConfigError: no form has this suffix, or a picture needs matplotlib, which is not installed.
        OutputError: something else exists at ``path``.
        WriteError: the file cannot be written.
    """
    check_attention_file(path)
    if path.suffix == ".html":
        ATTENTION.write(path, attention_page(maps))
        return
    content = attention_picture(maps[0], picture) if path.suffix == ".png" else json_lines(maps).encode()
    with replacing(path) as stream:
        stream.write(content)


def json_lines(maps: Sequence[AttentionMaps]) -> str:
    """One JSON object per sentence and line, with the fields of :class:`AttentionMaps`.

    Weights are nested lists (layer, head, query, key) of numbers with 7 significant digits.
    """
    records = ({name: _plain(getattr(each, name)) for name in _FIELDS} for each in maps)
    return "".join(f"{writable(json.dumps(record, ensure_ascii=False))}\n" for record in records)


def _plain(value: Any) -> Any:
    """A field for JSON."""
    if not isinstance(value, np.ndarray):
        return value
    rounded = [float(f"{weight:.{_DIGITS}g}") for weight in value.astype(np.float64).ravel()]
    return np.array(rounded).reshape(value.shape).tolist()
