"""The record of a bundle, which lies in its notes: so a bundle that was copied still says where it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from nmt.checkpoint.bundle_files import ORIGIN_NAME, BundleFolder, model_checksums
from nmt.checkpoint.kinds import read_json
from nmt.checkpoint.scores import VALIDATION
from nmt.config import load_yaml
from nmt.data.lineage import encoded_record, trained_vocabulary
from nmt.errors import DataError
from nmt.record import RECORD, Record, parse_record

AVERAGE, CHECKPOINT, IMPORTED, MODEL, EXPORTED, TRAINING = (
    "average", "checkpoint", "imported model", "model", "exported model", "training",
)  # fmt: skip
"""Kinds of records. A model is a bundle of which nothing is known."""


def bundle_record(folder: Path) -> Record:
    """The record of a bundle or of an exported model, whole: with its checksums and the settings of its training.

    Raises:
        DataError: its record is damaged.
    """
    files, exported = BundleFolder(folder), folder / ORIGIN_NAME
    if exported.is_file():
        parity = read_json(files.certificate)["parity"]
        return parse_record(read_json(exported), str(exported)).model_copy(update={"files": parity["files"]})
    notes = read_json(files.notes)
    if not isinstance(notes, dict) and files.notes.exists():
        raise DataError(f"{files.notes}: is damaged: not an object of JSON.")
    record = parse_record((notes or {}).get(RECORD) or {"kind": MODEL, "path": str(folder)}, str(files.notes))
    made_from = [
        part.model_copy(update={"settings": load_yaml(files.config)}) if part.kind == TRAINING else part
        for part in record.made_from
    ]
    return record.model_copy(update={"files": model_checksums(folder), "made_from": tuple(made_from)})


def training_of(checkpoint: Path) -> Record | None:
    """The record of the training that wrote a checkpoint; None if it is not known."""
    record = bundle_record(checkpoint).as_found(checkpoint)
    return next((part for part in record.made_from if part.kind == TRAINING), None)


def averaging_notes(
    folders: Sequence[Path], out: Path, validation: Mapping[str, float | None] | None
) -> dict[str, Any]:
    """The notes of an average.

    Args:
        folders: the checkpoints, oldest first. Those of a run are named by their updates.
        validation: the figures of the average; None if there are none.
    """
    records = [bundle_record(folder).as_found(folder) for folder in folders]
    weights = BundleFolder(out).weights.name
    checkpoints = [
        Record(kind=CHECKPOINT, path=str(folder), files={weights: record.files[weights]})
        for folder, record in zip(folders, records, strict=True)
    ]
    training = [part for part in records[-1].made_from if part.kind == TRAINING]
    updates = [record.facts.get("update") for record in records]
    record = Record(
        kind=AVERAGE,
        path=str(out),
        command=(
            ("average-checkpoints", training[0].path, f"--updates={','.join(map(str, updates))}", f"--out={out}")
            if training and None not in updates
            else ()
        ),
        made_from=(*checkpoints, *(part.model_copy(update={"settings": {}}) for part in training)),
    )
    notes: dict[str, Any] = {RECORD: record.stored()}
    return notes if validation is None else notes | {VALIDATION: dict(validation)}


def vocabulary_origin(folder: Path, fingerprint: str) -> Record | None:
    """The record of the training of a vocabulary; None if it is not known.

    Args:
        folder: where the vocabulary lies: that of a data set or of a bundle.
        fingerprint: of the vocabulary. Its file is not read: a pipe can be read only once.
    """
    for find in (encoded_record, bundle_record):
        with suppress(DataError, OSError):
            if (found := trained_vocabulary(find(folder), fingerprint)) is not None:
                return found
    return None
