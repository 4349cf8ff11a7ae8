"""Attention weights as files: a page or JSON, by the suffix."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.config.documents import parse_json
from nmt.errors import ConfigError
from nmt.io.files import replacing
from nmt.io.ownership import Kind, check_replaceable
from nmt.reports.attention_views import views
from nmt.reports.labelled_attention import ATTENTIONS, LabelledAttention, labelled
from nmt.reports.pages import Page
from nmt.text.printable import writable

if TYPE_CHECKING:
    from nmt.translation.attention_maps import AttentionMaps

ATTENTION = Page("nmt attention", "attention.html")
UNITS = 10_000
"""A weight of 1 in the integers of the page, which shows weights to 1/1,000. The script has the same number."""

# Enough to tell apart all float32 weights that differ by more than rounding.
_DIGITS = 7
_FIELDS = ("model", "source", "target", "source_pieces", "input_pieces", "output_pieces", *ATTENTIONS)


def _is_json(path: Path) -> bool:
    with path.open("rb") as stream:
        first = stream.readline()
    try:
        values = parse_json(first)
    except ValueError:
        return False
    return isinstance(values, dict) and values.keys() >= set(_FIELDS)


_KINDS = {".html": ATTENTION.kind, ".json": Kind("attention weights", _is_json)}


def check_attention_file(path: Path) -> None:
    """Check that a file can be written, before any work for it.

    Raises:
        ConfigError: no form has this suffix.
        OutputError: something else exists at ``path``.
    """
    if path.suffix not in _KINDS:
        raise ConfigError(f"--out {path}: expected a name that ends in {' or '.join(_KINDS)}.")
    check_replaceable(path, _KINDS[path.suffix])


def write_attention(maps: Sequence[AttentionMaps], path: Path) -> None:
    """Write a page or JSON, by the suffix.

    Raises:
        ConfigError: no form has this suffix.
        OutputError: something else exists at ``path``.
        WriteError: the file cannot be written.
    """
    check_attention_file(path)
    if path.suffix == ".html":
        ATTENTION.write(path, attention_page(maps))
        return
    with replacing(path) as stream:
        stream.write(json_lines(maps).encode())


def attention_page(maps: Sequence[AttentionMaps]) -> str:
    """A self-contained page about the attention in one or more pairs of sentences. Its script draws everything:
    every head as a small map, and figures 3 to 5 of the paper."""
    title = f"Attention: {', '.join(dict.fromkeys(each.model for each in maps))}"
    return ATTENTION.html(title, sentences=list(map(_sentence, maps)))


def _sentence(maps: AttentionMaps) -> dict[str, Any]:
    return {
        "source": maps.source,
        "target": maps.target,
        "attentions": {name: _attention(labelled(maps, name)) for name in ATTENTIONS},
        "views": [asdict(view) for view in views(maps)],
    }


def _attention(attention: LabelledAttention) -> dict[str, Any]:
    """Labels and weights, nested by layer, head, row and column."""
    return vars(attention) | {"weights": np.rint(attention.weights * UNITS).astype(int).tolist()}


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
