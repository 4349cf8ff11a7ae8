"""``data.json``: where the data sets of a run lie, so that the run can be resumed without naming them again."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.checkpoint.run_folder import RunFolder
from nmt.config import Config
from nmt.config.documents import parse_json
from nmt.data.manifest import read_manifest
from nmt.data.mixing import parse_weighted
from nmt.errors import CheckpointError, DataError
from nmt.files import replacing


def write_data_record(run: Path, data: Sequence[Path], config: Config) -> None:
    """Note the folders of a run's data sets, as seen from the run's folder and from the root of the disk."""
    shares = [(config.data.name, config.data.fingerprint, config.data.weight)]
    shares += [(part.name, part.fingerprint, part.weight) for part in config.data.mixed_with]
    entries = [
        {
            "name": name,
            "fingerprint": fingerprint,
            "weight": weight,
            "relative": os.path.relpath(folder.resolve(), run.resolve()),
            "absolute": str(folder.resolve()),
        }
        for folder, (name, fingerprint, weight) in zip(data, shares, strict=True)
    ]
    with replacing(RunFolder(run).data) as stream:
        stream.write((json.dumps(entries, indent=2, ensure_ascii=False) + "\n").encode())


def data_to_resume(run: Path, named: Sequence[str] | None = None) -> list[tuple[Path, float]]:
    """The data sets of a run with their weights, in the order that its settings name them.

    A data set is looked for where it lay as seen from the run, and then where it lay on the disk; the one with the text
    that the run began with is preferred. Whether that text has changed is checked when the run is resumed.

    Args:
        named: ``DIR[:WEIGHT]`` of data sets that have moved; the run's weights hold where none is given.

    Raises:
        CheckpointError: a data set is not where it was.
        DataError: a weight is not a positive number.
    """
    if named:
        try:
            entries = _read_entries(run)
        except CheckpointError:
            entries = None
        given = [parse_weighted(text) for text in named]
        if entries is None or len(entries) != len(given):
            return given
        return [
            (folder, float(entry["weight"]) if str(folder) == str(Path(text)) else weight)
            for (folder, weight), text, entry in zip(given, named, entries, strict=True)
        ]
    entries = _read_entries(run)
    if entries is None:
        raise CheckpointError(
            f"{run}: does not say where its data lies (no {RunFolder(run).data.name}). Name the folder with --data."
        )
    return [(_find(run, entry), float(entry["weight"])) for entry in entries]


def _read_entries(run: Path) -> list[Mapping[str, Any]] | None:
    path = RunFolder(run).data
    try:
        entries = parse_json(path.read_bytes())
        if isinstance(entries, list) and entries and all(map(_is_entry, entries)):
            return list(entries)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        pass
    raise CheckpointError(f"{path}: is damaged. Name the run's data with --data.")


def _is_entry(entry: Any) -> bool:
    """Whether an entry has a weight and paths that can be looked for."""
    paths = entry["relative"], entry["absolute"]
    for path in paths:
        os.fsencode(path)
    return 0 < float(entry["weight"]) < math.inf and all(path and "\0" not in path for path in paths)


def _find(run: Path, entry: Mapping[str, Any]) -> Path:
    places = [Path(os.path.normpath(run.resolve() / entry["relative"])), Path(entry["absolute"])]
    there = {folder: fingerprint for folder in places if (fingerprint := _fingerprint(folder)) is not None}
    for folder, fingerprint in there.items():
        if fingerprint == entry.get("fingerprint"):
            return _short(folder)
    if there:
        return _short(next(iter(there)))
    looked = " nor ".join(dict.fromkeys(map(str, places)))
    raise CheckpointError(
        f"{run}: its data set {entry.get('name')} is no longer there (not at {looked}). Name its folder with --data; "
        "of several data sets name all, in the same order."
    )


def _fingerprint(folder: Path) -> str | None:
    try:
        return read_manifest(folder).fingerprint
    except DataError:
        return None


def _short(folder: Path) -> Path:
    """Relative to the current folder where it lies below it."""
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
