"""Where a model comes from, written into the notes of every bundle: so a bundle that was copied still says it.

The lineage of a model holds the manifests of its data sets (archives with their checksums and licences, the recipe),
how the vocabulary was made, and what the training ran on. It holds no date, no path but those of the user's own text,
and no text of a corpus: the same commands on the same machine write the same lineage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from nmt.checkpoint.bundle_files import BundleFolder, model_checksums
from nmt.checkpoint.kinds import read_json
from nmt.checkpoint.scores import VALIDATION
from nmt.data.data_folder import DataFolder
from nmt.data.made import digest_of
from nmt.data.manifest import read_manifest, without_samples
from nmt.data.shards import build_command, read_index
from nmt.data.vocab_record import read_vocabulary_record
from nmt.errors import DataError

LINEAGE, UPDATE = "lineage", "update"
ORIGIN = "origin"
AVERAGED, AVERAGED_SHA256 = "averaged", "averaged_sha256"
IMPORTED = "imported"
CHANGED = "changed_on_resume"
"""Names in the notes."""


def training_lineage(
    data: Sequence[Path],
    *,
    versions: Mapping[str, str],
    hardware: str,
    ranks: int,
    init_from: Any,
    changed: Sequence[str] = (),
) -> dict[str, Any]:
    """The lineage of a run's checkpoints.

    Args:
        data: the folders of its data sets.
        versions: of the program and of the packages that compute.
        init_from: the lineage and the checksums of the bundle that the weights began with; None for random ones.
        changed: the settings that changed when the run was resumed, each with its values.
    """
    return {
        "data": [data_lineage(folder) for folder in data],
        "training": {
            "versions": dict(versions),
            "hardware": hardware,
            "ranks": ranks,
            "init_from": init_from,
            **({CHANGED: list(changed)} if changed else {}),
        },
    }


def data_lineage(folder: Path) -> dict[str, Any]:
    """The lineage of a data set: its manifest, and how its vocabulary was made.

    The manifest's samples of dropped pairs are left out. A bundle is passed on; the text of its corpus may be private.

    Raises:
        DataError: the folder is not an encoded data set.
    """
    index, vocabulary = read_index(folder), read_vocabulary_record(folder)
    model = DataFolder(folder).vocab
    if vocabulary.files.get(model.name) != digest_of(model):
        raise DataError(
            f"{model}: is not the vocabulary that {DataFolder(folder).vocab_record.name} records. Run "
            f"{build_command(folder)} again."
        )
    origin = {} if vocabulary.origin is None else {ORIGIN: vocabulary.origin}
    return {
        "manifest": without_samples(read_manifest(folder)),
        "vocabulary": {
            "sha256": index.vocab_fingerprint,
            "trained_with": vocabulary.trained_with,
            "max_length": index.max_length,
            "source_normalization": index.source_normalization,
            **origin,
        },
    }


def vocabulary_origin(folder: Path, sha256: str) -> dict[str, Any] | None:
    """The lineage of the data set that a vocabulary was trained on; None if it is not known.

    Args:
        folder: where the vocabulary lies: that of a data set or of a bundle.
        sha256: of the vocabulary, which is its fingerprint. Its file is not read: a pipe can be read only once.
    """
    entries: list[Any] = []
    with suppress(DataError):
        entries.append(data_lineage(folder))
    of_bundle = (lineage_of(folder) or {}).get("data")
    entries += of_bundle if isinstance(of_bundle, list) else []
    for entry in entries:
        vocabulary = entry.get("vocabulary") if isinstance(entry, dict) else None
        if not isinstance(vocabulary, dict) or vocabulary.get("sha256") != sha256:
            continue
        if vocabulary.get("trained_with") is not None:
            return dict(entry)
        if isinstance(vocabulary.get(ORIGIN), dict):
            return dict(vocabulary[ORIGIN])
    return None


def averaging_notes(folders: Sequence[Path], validation: Mapping[str, float | None] | None) -> dict[str, Any]:
    """The notes of an average: which checkpoints, its validation (None: there was none), and the last one's lineage."""
    notes: dict[str, Any] = {
        AVERAGED: [str(folder) for folder in folders],
        AVERAGED_SHA256: [model_checksums(folder)[BundleFolder(folder).weights.name] for folder in folders],
    }
    if validation is not None:
        notes[VALIDATION] = dict(validation)
    lineage = lineage_of(folders[-1])
    return notes if lineage is None else notes | {LINEAGE: lineage}


def lineage_of(bundle: Path) -> dict[str, Any] | None:
    """The lineage in a bundle's notes; None in bundles of earlier versions."""
    notes = read_json(BundleFolder(bundle).notes)
    lineage = notes.get(LINEAGE) if isinstance(notes, dict) else None
    return lineage if isinstance(lineage, dict) else None


def origin_of_weights(checkpoint: Path) -> Any:
    """The bundle that a run's weights began with, by one of its checkpoints; None for random ones."""
    return _training_of(checkpoint).get("init_from")


def changed_on_resume(checkpoint: Path) -> list[str]:
    """The settings that changed when a run was resumed, by one of its checkpoints."""
    changed = _training_of(checkpoint).get(CHANGED)
    return [str(each) for each in changed] if isinstance(changed, list) else []


def _training_of(checkpoint: Path) -> Mapping[str, Any]:
    training = (lineage_of(checkpoint) or {}).get("training")
    return training if isinstance(training, dict) else {}


def described_origin(bundle: Path) -> dict[str, Any]:
    """A bundle, for the record of what was made with it: its path, its checksums, its notes and its settings."""
    notes = read_json(BundleFolder(bundle).notes)
    return {
        "path": str(bundle),
        "sha256": model_checksums(bundle),
        "notes": notes if isinstance(notes, dict) else None,
        "config": BundleFolder(bundle).config.read_text("utf-8"),
    }
