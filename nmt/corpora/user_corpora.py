"""What a user's words mean as corpora: a prefix of two files, a file with both sides, a folder, standard input.

A file may lie on the web.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.corpora.corpus_kinds import Format
from nmt.corpora.formats import listed
from nmt.corpora.locations import files_of_prefix, has_columns, kind_of, other_form
from nmt.corpora.tab_separated import SOURCE, TARGET
from nmt.errors import ConfigError, DataError
from nmt.text.addresses import check_address, file_name, is_address, public_address
from nmt.text.languages import fitting, language_of_name
from nmt.text.lines import ARCHIVES, STDIN

UserText = str | tuple[str, str]
"""A word (a prefix that two files share, a file with both sides, a folder, ``-``), or source file and target file."""
_ENDINGS: dict[str, Format] = {
    ".tsv": "tsv",
    ".zip": "opus-zip",
    ".tmx": "tmx",
    ".po": "po",
    ".xlf": "xliff",
    ".xliff": "xliff",
}

_SEGMENTS = (".sgm", ".sgml", ".xml")
"""Endings of test sets of WMT and IWSLT, each of one side."""


def user_corpora(
    text: UserText,
    languages: tuple[str, str],
    *,
    columns: Sequence[str] | None = None,
    header: bool = False,
    notify: Callable[[str], object] = lambda notice: None,
) -> list[dict[str, Any]]:
    """The corpora of a recipe that a user's words name.

    Args:
        text: relative to the current folder.
        languages: source and target.
        columns: what the columns of tab-separated files hold.
        header: whether tab-separated files begin with a line of names.
        notify: called with the files that are read of a folder, and with what a file's text shows.

    Raises:
        ConfigError: an address is invalid, or its file holds one side alone.
        DataError: a folder holds no parallel text.
    """
    for word in (text,) if isinstance(text, str) else text:
        _name(word)
    table = {"columns": columns if header else list(columns or (SOURCE, TARGET)), "header": header}
    if not isinstance(text, str):
        have_segments = all(_plain_name(word).lower().endswith(_SEGMENTS) for word in text)
        files = dict(zip(languages, map(_absolute, text), strict=True))
        return [{"kind": "text", "files": files, **({"format": "ted-segments"} if have_segments else {})}]
    if text == STDIN or kind_of(text) == "other":
        return [_pair_file(text, "tsv", table)]
    form = format_by_name(text)
    if is_address(text) and form is None:
        raise ConfigError(
            f"{public_address(text)}: "
            + (
                other_form(_name(text))
                or "holds one side, by its name. Give the addresses of source and target one after the other; the name "
                "of a file with both sides ends in .tsv, .tmx, .po, .xlf or .zip. For tab-separated text of another "
                "name, write a recipe with format: tsv."
            )
        )
    if form is not None and (is_address(text) or kind_of(text) == "file" or not _is_prefix(text, languages)):
        return [_pair_file(text, form, table)]
    if kind_of(text) == "folder" and (text.endswith("/") or not _is_prefix(text, languages)):
        corpora = _in_folder(Path(text), languages, table)
        notify(f"{text}: reads {', '.join(corpora)}")
        return list(corpora.values())
    is_other = kind_of(text) != "file" or _is_prefix(text, languages) or other_form(text)
    if not is_other and has_columns(Path(text)):
        notify(f"{text}: is read as tab-separated text: its lines have columns")
        return [_pair_file(text, "tsv", table)]
    return [_prefix(text)]


def paired(texts: Iterable[str], languages: tuple[str, str]) -> list[UserText]:
    """A user's words, with two plain files or pipes in succession as source and target file.

    The names of the files may say that the target comes first.

    Raises:
        ConfigError: both are the same file.
        DataError: one of the two files does not exist.
    """
    found: list[UserText] = []
    for text in texts:
        last = found[-1] if found else None
        sides = [_is_side(word, languages) for word in (last, text)] if isinstance(last, str) else []
        if isinstance(last, str) and sides in ([True, False], [False, True]):
            side, other = (last, text) if sides[0] else (text, last)
            if _is_missing(other, languages):
                beside = [str(path) for path in Path(other).parent.glob("*")] if Path(other).parent.is_dir() else []
                near = difflib.get_close_matches(other, {*beside} - {side, other}, n=1)
                hint = f" (did you mean {near[0]}?)" if near else ""
                lacks = "is a link to nothing" if Path(other).is_symlink() else "there is no such file"
                raise DataError(f"{other}: {lacks}{hint}. It was given as one of two files, with {side}.")
        if isinstance(last, str) and all(sides):
            if text == last:
                shown = public_address(text) if is_address(text) else text
                raise ConfigError(f"{shown}: was given as source and as target.")
            codes = [language_of_name(Path(_side_name(word))) for word in (last, text)]
            # The names of pt and pt-BR fit both ways.
            found[-1] = (text, last) if _fit(codes, languages[::-1]) and not _fit(codes, languages) else (last, text)
        else:
            found.append(text)
    return found


def format_by_name(name: str) -> Format | None:
    """The format of a file that holds both sides, by its name, compressed or not; None if the name tells nothing."""
    plain = _plain_name(name).lower()
    return next((form for ending, form in _ENDINGS.items() if plain.endswith(ending)), None)


def _name(text: str) -> str:
    """A word as the name of a file.

    Raises:
        ConfigError: it is an address, but not one of a file on the web.
    """
    if "://" not in text:
        return text
    try:
        check_address(text)
    except ValueError as error:
        raise ConfigError(f"{public_address(text)}: the address {error}.") from None
    return file_name(text)


def _plain_name(text: str) -> str:
    return _without_compression(_name(text))


def _side_name(text: str) -> str:
    """The name of a side's file, which ends with its language, if it names one."""
    plain = _plain_name(text)
    return next((plain[: -len(ending)] for ending in _SEGMENTS if plain.lower().endswith(ending)), plain)


def _without_compression(name: str) -> str:
    """The name of a file without the ending of its compression."""
    return next((name[: -len(suffix)] for suffix in ARCHIVES if name.lower().endswith(suffix)), name)


def _fit(codes: Iterable[str], languages: tuple[str, str]) -> bool:
    """Whether files whose names end with these codes may hold these languages."""
    return all(fitting([code], own) for code, own in zip(codes, languages, strict=True))


def _is_side(text: str, languages: tuple[str, str]) -> bool:
    """Whether a word is a file that holds one side. A pipe is one if it stands beside another such file."""
    is_file = text != STDIN and (is_address(text) or kind_of(text) in ("file", "other"))
    return is_file and format_by_name(text) is None and not _is_prefix(text, languages)


def _is_missing(text: str, languages: tuple[str, str]) -> bool:
    """Whether a word names nothing: neither a file nor a prefix of one."""
    is_found = text == STDIN or is_address(text) or kind_of(text) or format_by_name(text) is not None
    return not is_found and not any(files_of_prefix(text, language) for language in languages)


def _in_folder(folder: Path, languages: tuple[str, str], table: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The corpora in a folder by their names, and in the order of these; folders within it are left alone.

    Raises:
        DataError: there are none, or the folder cannot be read.
    """
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_file() and not entry.name.startswith("."))
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror}).") from None
    files: dict[str, Path] = {}
    stems = set()
    for name in names:
        plain = _without_compression(name)
        if format_by_name(name) is not None:
            files.setdefault(plain, folder / name)  # a plain file before its compressed copies
        elif fitting([code := plain.rpartition(".")[2]], languages[0]):
            stems.add(plain.removesuffix(f".{code}"))
    prefixes = [stem for stem in stems if _is_prefix(str(folder / stem), languages)]
    found = [(stem, _prefix(str(folder / stem))) for stem in prefixes]
    for path in files.values():
        form = format_by_name(path.name)
        assert form is not None
        found.append((path.name, _pair_file(str(path), form, table)))
    if not found:
        raise DataError(
            f"{folder}: has no parallel text for {languages[0]} and {languages[1]}, such as NAME.{languages[0]} with "
            f"NAME.{languages[1]}, NAME.tsv, NAME.tmx, NAME.po, NAME.xlf or a zip from OPUS. It holds "
            f"{listed(names) or 'no file'}."
        )
    return dict(sorted(found, key=lambda corpus: corpus[0]))


def _prefix(text: str) -> dict[str, Any]:
    return {"kind": "text", "files": str(Path(text).parent.resolve() / Path(text).name)}


def _pair_file(file: str, form: Format, table: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": "text", "files": _absolute(file), "format": form, **(table if form == "tsv" else {})}


def _is_prefix(text: str, languages: tuple[str, str]) -> bool:
    """Whether a word is the common prefix of two files."""
    source, target = (files_of_prefix(text, language) for language in languages)
    return bool(source and target) and len(source | target) > 1


def _absolute(file: str) -> str:
    """A file's absolute path, or its address. A pipe (``/dev/fd/63``) is not resolved: its link leads to no path."""
    if file == STDIN or is_address(file):
        return file
    path = Path(file)
    return str(path.absolute() if kind_of(path) in ("folder", "other") else path.resolve())
