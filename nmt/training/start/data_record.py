"""``data.json``: the paths of a run's data sets, so that the run resumes without ``--data``."""

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
from nmt.io.files import replacing
from nmt.io.regular import read_regular


def write_data_record(run: Path, data: Sequence[Path], config: Config) -> None:
    """Record the paths of a run's data sets from the run's folder: a project that is moved as a whole resumes."""
    entries = [
        {**part.model_dump(), "path": os.path.relpath(folder.resolve(), run.resolve())}
        for folder, part in zip(data, config.data.parts, strict=True)
    ]
    with replacing(RunFolder(run).data) as stream:
        # In ASCII: a path may hold bytes that are not UTF-8.
        stream.write((json.dumps(entries, indent=2) + "\n").encode())


def data_to_resume(run: Path, named: Sequence[str] | None = None) -> list[tuple[Path, float]]:
    """The data sets of a run with their weights, in the order of its settings.

    Whether their text has changed is checked when the run resumes.

    Args:
        named: ``DIR[:WEIGHT]`` of data sets that were moved. Weights default to the run's.

    Raises:
        CheckpointError: a data set is not found.
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
            f"{run}: has no record of its data ({RunFolder(run).data.name} is missing). Name the folder with --data."
        )
    return [(_find(run, entry), float(entry["weight"])) for entry in entries]


def _read_entries(run: Path) -> list[Mapping[str, Any]] | None:
    path = RunFolder(run).data
    try:
        entries = parse_json(read_regular(path))
        if isinstance(entries, list) and entries and all(map(_is_entry, entries)):
            return list(entries)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        pass
    raise CheckpointError(f"{path}: is damaged. Name the run's data with --data.")


def _is_entry(entry: Any) -> bool:
    """Whether an entry has a valid weight and a valid path."""
    os.fsencode(entry["path"])
    return 0 < float(entry["weight"]) < math.inf and entry["path"] and "\0" not in entry["path"]


def _find(run: Path, entry: Mapping[str, Any]) -> Path:
    folder = Path(os.path.normpath(run.resolve() / entry["path"]))
    try:
        read_manifest(folder)
    except DataError:
        raise CheckpointError(
            f"{run}: the data set {entry.get('name')} was not found (at {folder}). Name its folder with --data; if "
            "there are several data sets, name all, in the same order."
        ) from None
    # Relative to the current folder, if it is inside.
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
