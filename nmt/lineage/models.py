"""The chain behind a model: its checkpoints, its data sets with their vocabularies, and the archives of these."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import nmt
from nmt.addresses import folder_parts
from nmt.cache_folder import default_cache
from nmt.checkpoint.bundle_files import BundleFolder
from nmt.checkpoint.kinds import read_json
from nmt.checkpoint.lineage import (
    AVERAGED,
    AVERAGED_SHA256,
    LINEAGE,
    data_lineage,
    described_origin,
    manifest_without_samples,
)
from nmt.checkpoint.run_folder import RunFolder
from nmt.data.data_folder import DataFolder
from nmt.data.manifest import Manifest, SourceRecord, read_manifest
from nmt.errors import DataError
from nmt.lineage.link import Link, entries_of, mapping_of, state_of
from nmt.text import STDIN

_UNKNOWN = "unknown: made by an earlier version, or by another program"


def model_link(origin: Mapping[str, Any]) -> Link:
    """A model by its record (:func:`nmt.checkpoint.lineage.described_origin`)."""
    path, checksums, notes = Path(origin["path"]), mapping_of(origin.get("sha256")), mapping_of(origin.get("notes"))
    state, change = state_of({path / name: str(sha256) for name, sha256 in checksums.items()})
    lineage = mapping_of(notes.get(LINEAGE))
    training = mapping_of(lineage.get("training"))
    facts = {"sha256 of the weights": str(checksums.get("model.safetensors", "unknown"))}
    averaged = notes.get(AVERAGED)
    if isinstance(averaged, list):
        facts["averaged"] = f"{len(averaged)} checkpoints"
    facts |= _training_facts(training) if training else {"origin": _UNKNOWN}
    first = training.get("init_from")
    made_from = [
        *_checkpoints(averaged, notes.get(AVERAGED_SHA256)),
        *([model_link(first)] if isinstance(first, dict) and "path" in first else []),
        *(data_link(entry, path) for entry in entries_of(lineage.get("data"))),
    ]
    return Link("model", str(path), facts, state, change, tuple(made_from), origin)


def bundle_link(folder: Path) -> Link:
    """A bundle on disk. It is compared with its own checksums."""
    files = BundleFolder(folder)
    origin = described_origin(folder)
    if files.notes.exists() and origin["notes"] is None:
        raise DataError(f"{files.notes}: is damaged: not an object of JSON.")
    recorded = read_json(files.checksums)
    if not isinstance(recorded, dict):
        link = model_link(origin | {"sha256": {}})
        why = f"{files.checksums} is missing or damaged, so its files cannot be checked"
        return replace(link, state="not checked", facts=link.facts | {"checksums": why})
    return model_link(origin | {"sha256": {str(name): str(sha256) for name, sha256 in recorded.items()}})


def _training_facts(training: Mapping[str, Any]) -> dict[str, str]:
    versions = ", ".join(f"{name} {version}" for name, version in mapping_of(training.get("versions")).items())
    ranks = training.get("ranks")
    return {
        "trained on": f"{training.get('hardware')}{f', {ranks} ranks' if ranks != 1 else ''}",
        "versions": versions,
    }


def _checkpoints(folders: object, checksums: object) -> list[Link]:
    if not isinstance(folders, list) or not isinstance(checksums, list):
        return []
    links = []
    for folder, sha256 in zip(folders, checksums, strict=False):
        state, change = state_of({BundleFolder(Path(str(folder))).weights: str(sha256)})
        facts = {"sha256 of the weights": str(sha256)}
        links.append(Link("checkpoint", str(folder), facts, state, change))
    return links


def data_link(entry: Mapping[str, Any], near: Path | None = None) -> Link:
    """A data set by its record in a model's lineage.

    Args:
        near: the model's folder, from which the data set is looked for.
    """
    manifest = Manifest.model_validate(entry["manifest"])
    vocabulary = mapping_of(entry.get("vocabulary"))
    folder = _folder_of(manifest, near)
    files = {folder / name: record.sha256 for name, record in manifest.files.items()} if folder else {}
    state, change = state_of(files) if folder else ("not here", "")
    dropped = {name: count for name, count in manifest.filters.items() if count and not name.endswith("_kept")}
    facts = {
        "languages": f"{manifest.source_lang} to {manifest.target_lang}",
        "licence": manifest.licence or "unknown",
        "fingerprint": manifest.fingerprint,
        "pairs": ", ".join(
            f"{name.rpartition('.')[0]} {record.lines:,}"
            for name, record in manifest.files.items()
            if name.endswith(f".{manifest.source_lang}")
        ),
        **({"dropped": ", ".join(f"{name} {count:,}" for name, count in dropped.items())} if dropped else {}),
    }
    made_from = [*_vocabulary(vocabulary, folder), *_sources(manifest)]
    return Link("data set", str(folder or manifest.name), facts, state, change, tuple(made_from), entry)


def data_folder_link(folder: Path) -> Link:
    """A data set on disk."""
    entry: dict[str, Any] = {"manifest": manifest_without_samples(folder)}
    with suppress(DataError):  # it has no vocabulary yet
        entry = data_lineage(folder)
    return data_link(entry, folder)


def _vocabulary(vocabulary: Mapping[str, Any], folder: Path | None) -> list[Link]:
    if not vocabulary:
        return []
    sha256, settings = str(vocabulary.get("sha256")), mapping_of(vocabulary.get("trained_with"))
    path = DataFolder(folder).vocab if folder else None
    state, change = state_of({path: sha256}) if path else ("not here", "")
    how = f"{settings.get('model_type')}, {settings.get('size'):,} pieces" if settings else "given, not trained here"
    facts = {"sha256": sha256, "trained": how, "maximum length of a line": f"{vocabulary.get('max_length')} pieces"}
    return [Link("vocabulary", str(path or "vocab.model"), facts, state, change)]


def _sources(manifest: Manifest) -> list[Link]:
    """The archives, and the files of the user's own or of this program."""
    links = []
    for source in manifest.sources:
        place = next((path for path in _places(source) if path.is_file()), None)
        state, change = state_of({place: source.sha256}) if place else ("not here", "")
        facts = {"sha256": source.sha256, "bytes": f"{source.bytes:,}"}
        if source.url is not None:
            links.append(Link("archive", str(place or source.file), {"url": source.url, **facts}, state, change))
        elif source.file == STDIN:
            links.append(Link("file", "standard input", facts))
        else:
            links.append(Link("file", str(place or source.file), facts, state, change))
    return links


def _places(source: SourceRecord) -> list[Path]:
    """Where a source may lie: in the cache, in this program (the toy grammar), or where the user had it."""
    cached = [default_cache().joinpath(*folder_parts(source.url), source.file)] if source.url else []
    return [*cached, Path(nmt.__file__).parent.parent / source.file, Path(source.file)]


def _folder_of(manifest: Manifest, near: Path | None) -> Path | None:
    """The data set's folder: the one that is inspected, the run's, or the usual one. One with this text goes first."""
    places = [] if near is None else [near]
    for folder in [] if near is None else [near.parent, near.parent.parent, near.resolve().parent.parent]:
        for entry in entries_of(read_json(RunFolder(folder).data)):
            if entry.get("name") == manifest.name:
                places += [folder / str(entry.get("relative", "")), Path(str(entry.get("absolute", "")))]
    places.append(Path("data") / manifest.name)
    there = [place for place in places if DataFolder(place).manifest.is_file()]
    same = [place for place in there if _fingerprint(place) == manifest.fingerprint]
    found = next(iter([*same, *there]), None)
    return None if found is None else Path(os.path.relpath(found)) if _is_below_here(found) else found


def _is_below_here(path: Path) -> bool:
    return path.resolve().is_relative_to(Path.cwd())


def _fingerprint(folder: Path) -> str | None:
    try:
        return read_manifest(folder).fingerprint
    except DataError:
        return None
