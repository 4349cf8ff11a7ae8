"""The chain behind a model: its checkpoints, its data sets with their vocabularies, and the archives of these."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import nmt
from nmt.checkpoint.bundle_files import BundleFolder
from nmt.checkpoint.fitting import weight_shapes
from nmt.checkpoint.kinds import read_json
from nmt.checkpoint.lineage import (
    AVERAGED,
    AVERAGED_SHA256,
    IMPORTED,
    LINEAGE,
    ORIGIN,
    data_lineage,
    described_origin,
)
from nmt.checkpoint.run_folder import RunFolder, best_checkpoint, bundle_to_use, validation_score
from nmt.checkpoint.scores import Score
from nmt.data.data_folder import DataFolder, vocabulary_fingerprint
from nmt.data.manifest import Manifest, SourceRecord, read_manifest, without_samples
from nmt.data.vocab_record import TEMPERATURE, joint_entries
from nmt.errors import CheckpointError, DataError
from nmt.lineage.facts import Fact, count_of, counts_of
from nmt.lineage.link import Link, entries_of, mapping_of, state_of
from nmt.machine.cache_folder import default_cache
from nmt.text.addresses import folder_parts
from nmt.text.lines import STDIN

_UNKNOWN = "unknown: made by an earlier version, or by another program"


def model_link(origin: Mapping[str, Any]) -> Link:
    """A model by its record (:func:`nmt.checkpoint.lineage.described_origin`)."""
    path, checksums, notes = Path(origin["path"]), mapping_of(origin.get("sha256")), mapping_of(origin.get("notes"))
    state, change = state_of({path / name: str(sha256) for name, sha256 in checksums.items()})
    lineage = mapping_of(notes.get(LINEAGE))
    training = mapping_of(lineage.get("training"))
    facts: dict[str, str | Fact] = {"sha256 of the weights": str(checksums.get("model.safetensors", "unknown"))}
    averaged = notes.get(AVERAGED)
    if isinstance(averaged, list):
        facts["averaged"] = count_of(len(averaged), "checkpoints")
    imported = mapping_of(notes.get(IMPORTED))
    if imported:
        facts["imported from"] = " ".join(str(imported[key]) for key in ("toolkit", "version") if imported.get(key))
    else:
        facts |= _training_facts(training) if training else {"origin": _UNKNOWN}
    first = training.get("init_from")
    made_from = [
        *_checkpoints(averaged, notes.get(AVERAGED_SHA256)),
        *([model_link(first)] if isinstance(first, dict) and "path" in first else []),
        *(data_link(entry, path) for entry in entries_of(lineage.get("data"))),
        *_originals(imported),
    ]
    return Link("model", str(path), facts, state, change, tuple(made_from), origin)


def _originals(imported: Mapping[str, Any]) -> Iterator[Link]:
    """The files of another toolkit that a bundle was imported from, by its notes."""
    for name, record in mapping_of(imported.get("files")).items():
        facts: dict[str, str | Fact] = {"sha256": str(mapping_of(record).get("sha256"))}
        size = mapping_of(record).get("bytes")
        if isinstance(size, int):
            facts["size"] = Fact(f"{size:,} bytes", size)
        yield Link("file", str(name), facts, "not here")


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
        return replace(link, state="not checked", facts={**_figures(folder), **link.facts, "checksums": why})
    link = model_link(origin | {"sha256": {str(name): str(sha256) for name, sha256 in recorded.items()}})
    return replace(link, facts={**_figures(folder), **link.facts})


def run_link(run: Path) -> Link:
    """The bundle of a run that is used, with the score of the run's best checkpoint."""
    link, best = bundle_link(bundle_to_use(run)), best_checkpoint(run)
    score = None if best is None else validation_score(best)
    if best is None or score is None:
        return link
    figures = {"checkpoint": best.name, **_value_of(score)}
    return replace(link, facts={"best checkpoint": Fact(f"{best.name}, {score}", figures), **link.facts})


def _figures(folder: Path) -> dict[str, str | Fact]:
    """How good and how large the model of a bundle is; what its files do not say is left out."""
    figures: dict[str, str | Fact] = {}
    if (score := validation_score(folder)) is not None:
        figures["validation"] = Fact(str(score), _value_of(score))
    weights = BundleFolder(folder).weights
    with suppress(CheckpointError):  # damaged: the checksums say so
        figures["parameters"] = count_of(sum(math.prod(shape) for shape in weight_shapes(weights).values()))
        figures["size of the weights"] = count_of(weights.stat().st_size, "bytes")
    return figures


def _value_of(score: Score) -> dict[str, float]:
    return {"bleu": score.value} if score.is_bleu else {"loss": -score.value}


def _training_facts(training: Mapping[str, Any]) -> dict[str, str | Fact]:
    versions = ", ".join(f"{name} {version}" for name, version in mapping_of(training.get("versions")).items())
    hardware, ranks = training.get("hardware"), training.get("ranks")
    return {
        "trained on": Fact(
            f"{hardware}{f', {ranks} ranks' if ranks != 1 else ''}", {"hardware": hardware, "ranks": ranks}
        ),
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
    facts: dict[str, str | Fact] = {
        "languages": f"{manifest.source_lang} to {manifest.target_lang}",
        "licence": manifest.licence or "unknown",
        "fingerprint": manifest.fingerprint,
        "pairs": counts_of(
            {
                name.rpartition(".")[0]: record.lines
                for name, record in manifest.files.items()
                if name.endswith(f".{manifest.source_lang}")
            }
        ),
        **({"dropped": counts_of(dropped)} if dropped else {}),
    }
    made_from = [*_vocabulary(vocabulary, folder, manifest), *_sources(manifest)]
    return Link("data set", str(folder or manifest.name), facts, state, change, tuple(made_from), entry)


def data_folder_link(folder: Path) -> Link:
    """A data set on disk."""
    entry: dict[str, Any] = {"manifest": without_samples(read_manifest(folder))}
    with suppress(DataError):  # it has no vocabulary yet
        entry = data_lineage(folder)
    return data_link(entry, folder)


def _vocabulary(vocabulary: Mapping[str, Any], folder: Path | None, manifest: Manifest) -> list[Link]:
    """The vocabulary of a data set. It was made from the data sets that it was trained on, but for this one."""
    if not vocabulary:
        return []
    sha256, settings = str(vocabulary.get("sha256")), mapping_of(vocabulary.get("trained_with"))
    path = DataFolder(folder).vocab if folder else None
    state, change = state_of({path: sha256}) if path else ("not here", "")
    if path and path.is_file() and vocabulary_fingerprint(path) == sha256:  # of several files, if it was imported
        state, change = "unchanged", ""
    origin, joint = mapping_of(vocabulary.get(ORIGIN)), joint_entries(settings)
    longest = vocabulary.get("max_length")
    facts: dict[str, str | Fact] = {
        "sha256": sha256,
        "trained": _how_trained(settings, origin, joint),
        "maximum length of a line": Fact(f"{longest} pieces", longest),
    }
    others = [
        {"manifest": each["manifest"]} for each in joint if each["manifest"]["fingerprint"] != manifest.fingerprint
    ]
    made_from = tuple(data_link(entry) for entry in ([origin] if origin else others))
    return [Link("vocabulary", str(path or "vocab.model"), facts, state, change, made_from)]


def _how_trained(
    settings: Mapping[str, Any], origin: Mapping[str, Any], joint: Sequence[Mapping[str, Any]]
) -> str | Fact:
    if origin:
        return f"given, trained on {origin['manifest']['name']}"
    if not settings:
        return "given, not trained here"
    kind, size = settings.get("model_type"), settings.get("size")
    how = f"{kind}, {size:,} pieces"
    if not joint:
        return Fact(how, {"model_type": kind, "pieces": size})
    names, temperature = [str(entry["manifest"]["name"]) for entry in joint], settings[TEMPERATURE]
    return Fact(
        f"{how}, on {', '.join(names)} (sampling temperature {temperature:g})",
        {"model_type": kind, "pieces": size, "data": names, "sampling_temperature": temperature},
    )


def _sources(manifest: Manifest) -> list[Link]:
    """The archives, and the files of the user's own or of this program."""
    links = []
    for source in manifest.sources:
        place = next((path for path in _places(source) if path.is_file()), None)
        state, change = state_of({place: source.sha256}) if place else ("not here", "")
        facts: dict[str, str | Fact] = {"sha256": source.sha256, "bytes": count_of(source.bytes)}
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
