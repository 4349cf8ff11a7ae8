"""Attention weights as files: the form is chosen by the suffix."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.errors import ConfigError
from nmt.files import replacing
from nmt.ownership import Kind, check_replaceable

if TYPE_CHECKING:
    from nmt.reports.labelled_attention import AttentionName
    from nmt.translation.attention_maps import AttentionMaps

_KEYS = {"model", "source_pieces", "encoder", "decoder", "memory"}


def _is_page(path: Path) -> bool:
    from nmt.reports.attention_page import FOOTER, TITLE

    with path.open("rb") as stream:
        return f"<title>{TITLE}".encode() in stream.read(1_000) and f"<footer>{FOOTER}".encode() in stream.read()


def _is_picture(path: Path) -> bool:
    from nmt.reports.attention_picture import SOFTWARE

    with path.open("rb") as stream:
        return SOFTWARE.encode() in stream.read(1_000)


def _is_json(path: Path) -> bool:
    with path.open("rb") as stream:
        try:
            return set(json.loads(stream.readline())) >= _KEYS
        except (ValueError, TypeError, RecursionError):
            return False


_KINDS: dict[str, Kind] = {
    ".html": Kind("a page about attention", _is_page),
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
        from nmt.reports.attention_picture import check_matplotlib

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
    from nmt.reports.attention_page import attention_page
    from nmt.reports.attention_picture import attention_picture

    check_attention_file(path)
    forms: dict[str, Callable[[], bytes]] = {
        ".html": lambda: attention_page(maps).encode("utf-8", errors="replace"),
        ".png": lambda: attention_picture(maps[0], picture),
        ".json": lambda: json_lines(maps).encode(),
    }
    content = forms[path.suffix]()
    with replacing(path) as stream:
        stream.write(content)


def json_lines(maps: Sequence[AttentionMaps]) -> str:
    """JSON, one line per sentence."""
    from nmt.reports.attention_json import attention_json

    return "".join(f"{attention_json(each)}\n" for each in maps)
