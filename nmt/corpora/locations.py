"""Where the text of a corpus lies, as a recipe says it.

A location is a path (a file, plain or compressed, or a pipe), ``-`` for standard input, a web address, a key of the
recipe's downloads, or ``KEY!MEMBER`` for a member of a downloaded archive.
"""

from __future__ import annotations

import itertools
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nmt.corpora.transfer import RemoteFile
from nmt.errors import DataError
from nmt.text.addresses import is_address
from nmt.text.languages import fitting
from nmt.text.lines import ARCHIVES, STDIN, open_bytes
from nmt.text.printable import listed

_LINES_LOOKED_AT = 10
_MOST_SHOWN = 5
_MEMBER = "!"
_OTHER_FORMS = (
    *(".csv", ".xlsx", ".xls", ".ods", ".json", ".jsonl", ".ndjson", ".parquet", ".docx", ".srt", ".vtt"),
    *(".sdlxliff", ".xml", ".sgm", ".sgml", ".html", ".tbx", ".sdltm"),
)


@dataclass(frozen=True)
class Input:
    """A file that a corpus is read from: the user's own, a pipe, standard input, or a download."""

    name: str
    """Its name in the manifest; of a download, its name in the cache."""
    path: Path = Path()
    """Where it is, as errors show it, unless it is a download."""
    remote: RemoteFile | None = None
    """The download."""
    folder: Path | None = None
    """Its folder in the cache; named by the address if unset."""
    shared_folder: Path | None = None
    """The folder that it has in common with another program, if the user named no cache."""


def locate(
    location: str, downloads: Mapping[str, RemoteFile], language: str = "", *, is_plain: bool = True
) -> tuple[Input, str]:
    """The file at a location, and the member of it that is read; empty for the whole file.

    Args:
        location: as in the recipe.
        downloads: the recipe's, by key.
        language: if given, the location is a prefix: the member is PREFIX.LANGUAGE; a file may be compressed, and the
            code at its end may be another one of the language (see :func:`files_of_prefix`).
        is_plain: whether it is read as plain text, which files of other forms are not, by their names.

    Raises:
        DataError: there is no such file, or there are several of the language.
    """
    if location == STDIN:
        return Input(STDIN, Path(STDIN)), ""
    if is_address(location):
        remote = RemoteFile(location)
        return Input(remote.name, remote=remote), ""
    key, member = key_and_member(location)
    if key in downloads:
        return Input(downloads[key].name, remote=downloads[key]), f"{member}.{language}" if language else member
    nor = f" It is no key of downloads either ({', '.join(downloads)})." if downloads else ""
    seen = _from_here(location)
    path = _file_of_prefix(seen, language, nor) if language else _file(Path(seen), nor, is_plain=is_plain)
    return Input(str(path if seen == location else Path.cwd() / path), path), ""


def _from_here(location: str) -> str:
    """A path as a user types it: relative to the current folder if it lies below."""
    path, here = Path(location), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else location


def key_and_member(location: str) -> tuple[str, str]:
    """A location as a key of downloads and the member, which is empty for the whole file."""
    key, _, member = location.partition(_MEMBER)
    return (location, "") if "/" in key else (key, member)


def is_unknown_download(location: str, downloads: Mapping[str, object]) -> bool:
    """Whether a location names a member of a download that a recipe does not have."""
    key, member = key_and_member(location)
    return bool(member) and key not in downloads


def is_path(location: str, downloads: Mapping[str, object]) -> bool:
    """Whether a location is a path."""
    return location != STDIN and not is_address(location) and key_and_member(location)[0] not in downloads


def kind_of(path: Path | str) -> Literal["", "file", "folder", "other"]:
    """What a path is, with links followed; empty if nothing is there, or nothing can be, as under a name too long."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return ""
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"


def _file(path: Path, nor: str, *, is_plain: bool) -> Path:
    kind = kind_of(path)
    if form := other_form(path.name) if kind == "file" and is_plain else "":
        raise DataError(f"{path}: {form}{nor}")
    if kind in ("file", "other"):
        return path
    found = "is a folder, not a text file" if kind == "folder" else "does not exist"
    raise DataError(f"{path}: {found}.{nor}")


def files_of_prefix(prefix: str, language: str) -> dict[str, Path]:
    """The files of a prefix in a language by the code at their ends. A plain file comes before its compressed copies.

    A code that is equal to the language's comes before others that fit, such as ``zho_CN`` for ``zh``.
    """
    start = Path(prefix)
    found: dict[str, Path] = {}
    for ending in ("", *ARCHIVES):
        for name in _names_of_prefix(start):
            code = name.removeprefix(f"{start.name}.").removesuffix(ending)
            if name.endswith(ending) and "." not in code and kind_of(start.with_name(name)) == "file":
                found.setdefault(code, start.with_name(name))
    return {code: found[code] for code in fitting(found, language)}


def _names_of_prefix(prefix: Path) -> list[str]:
    """The names in its folder that begin with a prefix and a dot."""
    try:
        return sorted(path.name for path in prefix.parent.iterdir() if path.name.startswith(f"{prefix.name}."))
    except (OSError, ValueError):
        return []


def _file_of_prefix(prefix: str, language: str, nor: str) -> Path:
    existing = files_of_prefix(prefix, language)
    if not existing and (form := other_form(Path(prefix).name)):
        raise DataError(f"{prefix}: {form}{nor}")
    if not existing:
        *others, last = ARCHIVES
        names = _names_of_prefix(Path(prefix))
        beside = f"; there is {listed(names, _MOST_SHOWN)}" if names else ""
        missing = f"there is no {prefix}.{language} (nor {', '.join(others)} or {last}){beside}"
        raise DataError(f"{missing}. {_advice(prefix)}{nor}")
    if len(existing) > 1:
        raise DataError(
            f"{' and '.join(map(str, existing.values()))} may both be {language}: name both files, one after the "
            "other, or give the code with its region or script."
        )
    return next(iter(existing.values()))


def other_form(name: str) -> str:
    """What to do with a file in a form that is not read, by its name; empty for others."""
    if not name.lower().removesuffix(".gz").endswith(_OTHER_FORMS):
        return ""
    return (
        "this form is not read as parallel text. Write its pairs to a file NAME.tsv, one pair per line, with a tab "
        "between source and target: from a spreadsheet or CSV by exporting tab-separated text, from others by a script."
    )


def _advice(prefix: str) -> str:
    """What to give instead of a prefix without files."""
    path = Path(prefix)
    if prefix.endswith("."):  # The shell completes two file names up to this point.
        return f"Two files are named by their prefix: leave off the . at the end and write {prefix.rstrip('.')}."
    plain = path.with_suffix("") if path.suffix in ARCHIVES else path
    if kind_of(path) == "file" and plain.suffix:
        stem = str(plain.with_suffix(""))
        if has_columns(path):
            return f"{prefix} has columns separated by tabs: add format: tsv to its corpus in the recipe."
        return (
            f"{prefix} is one file, and two are named by their prefix, also in --train, --valid and --test: leave off "
            f"{prefix.removeprefix(stem)} and write {stem}, or name both files, one after the other. The name of a "
            "file with both sides must end in .tsv, .tmx, .po, .xlf or .zip."
        )
    return (
        "Two files are named by their prefix, also in --train, --valid and --test: corpus/europarl reads "
        "corpus/europarl.en and corpus/europarl.de. Other text is NAME.tsv, NAME.tmx, NAME.po, NAME.xlf, a zip from "
        "OPUS, the web address of one of these, a folder, or - for standard input."
    )


def has_columns(path: Path) -> bool:
    """Whether the first lines of a file have tabs, equally many each, like text of two or more columns."""
    try:
        with open_bytes(path) as stream:
            lines = list(itertools.islice(stream, _LINES_LOOKED_AT))
    except (OSError, EOFError, DataError):  # the file is named in another error
        return False
    tabs = {line.count(b"\t") for line in lines if not line.startswith(b"#")}  # Anki's exports begin with comments
    return len(tabs) == 1 and tabs != {0}
