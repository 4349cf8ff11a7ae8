"""What a user's words mean as corpora: a prefix of two files, a file that holds both sides, standard input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.corpora.pair_formats import format_by_name
from nmt.corpora.schema import SOURCE, TARGET
from nmt.text import ARCHIVES, STDIN

OwnText = str | tuple[str, str]
"""A prefix that two files share, a file that holds both sides, or ``-``; or the source file and the target file."""


def own_corpora(
    text: OwnText, languages: tuple[str, str], *, columns: Sequence[str] | None = None, header: bool = False
) -> list[dict[str, Any]]:
    """The corpora of a recipe that a user's words name.

    Args:
        text: relative to the current folder.
        languages: source and target.
        columns: what the columns of tab-separated files hold.
        header: whether tab-separated files begin with a line of names.
    """
    table = {"columns": columns if header else list(columns or (SOURCE, TARGET)), "header": header}
    if not isinstance(text, str):
        return [{"kind": "local-files", "files": dict(zip(languages, map(_absolute, text), strict=True))}]
    if text == STDIN or _is_pipe(Path(text)):
        return [_pair_file(text, "tsv", table)]
    form = format_by_name(text)
    if form is not None and (Path(text).is_file() or not _is_prefix(text, languages)):
        return [_pair_file(text, form, table)]
    return [{"kind": "local", "prefix": str(Path(text).resolve())}]


def _pair_file(file: str, form: str, table: Mapping[str, Any]) -> dict[str, Any]:
    path = file if file == STDIN else _absolute(file)
    return {"kind": "pair-file", "file": path, "format": form, **(table if form == "tsv" else {})}


def _is_prefix(text: str, languages: tuple[str, str]) -> bool:
    """Whether a word is the common prefix of two files."""
    return all(
        any(Path(f"{text}.{language}{ending}").is_file() for ending in ("", *ARCHIVES)) for language in languages
    )


def _is_pipe(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


def _absolute(file: str) -> str:
    """A file's absolute path. A pipe (``/dev/fd/63``) is not resolved: its link leads to no path."""
    path = Path(file)
    return str(path.absolute() if path.exists() and not path.is_file() else path.resolve())
