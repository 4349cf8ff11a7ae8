"""The records in a run's folder. Folders of older, unfinished and slightly damaged runs are read as far as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.checkpoint.run_folder import RunFolder, similar
from nmt.config import flatten, load_yaml
from nmt.data.manifest import Manifest
from nmt.errors import CheckpointError, ConfigError
from nmt.io.regular import read_regular
from nmt.training.metrics_file import MetricsFile

Record = Mapping[str, Any]
_LARGEST = 1e100
"""Larger figures, and smaller ones than its inverse, are no measurements: axes for them cannot be computed."""


@dataclass(frozen=True)
class RunHistory:
    """The records of a run. Any field of a record may be missing or null."""

    label: str
    """The run's name on the page."""
    settings: dict[str, Any]
    """Settings by full name, such as ``model.heads``."""
    starts: list[Record]
    """One record per start or resume of the run."""
    updates: list[Record]
    validations: list[Record]
    events: list[Record]
    manifests: dict[str, Manifest | None]
    """The manifests of the data sets by file name; None for a file that is not one."""

    @property
    def valid_set(self) -> frozenset[str]:
        """The sha256 of the files that the run is validated on, those of its first data set; empty if unknown."""
        first = next(iter(self.manifests.values()), None)
        files = {} if first is None else first.files
        return frozenset(record.sha256 for name, record in files.items() if name.startswith("valid."))

    @property
    def last_update(self) -> int:
        """The last recorded update."""
        records = (*self.starts, *self.updates, *self.validations, *self.events)
        return max((record["update"] for record in records), default=0)

    @property
    def seconds(self) -> float | None:
        """The duration of the run, including resumes and validation."""
        return max(values(self.updates, "seconds") + values(self.validations, "seconds"), default=None)

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language; empty if unknown."""
        return str(self.settings.get("data.source_lang") or ""), str(self.settings.get("data.target_lang") or "")


def read_runs(folders: Sequence[Path]) -> list[RunHistory]:
    """Read several runs, each with a unique label.

    Raises:
        CheckpointError: a folder is not a run.
        ConfigError: a run was given twice, or its settings cannot be read.
    """
    resolved = [folder.resolve() for folder in folders]
    if len(set(resolved)) < len(resolved):
        raise ConfigError("a run was given twice. Give each run once.")
    names = [folder.name for folder in resolved]
    # Runs with the same name in different places are labelled by their paths.
    labels = [name if names.count(name) == 1 else str(folder) for name, folder in zip(names, folders, strict=True)]
    return [_read_run(folder, label) for folder, label in zip(folders, labels, strict=True)]


def _read_run(folder: Path, label: str) -> RunHistory:
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: there is no such run{similar(folder)}.")
    run = RunFolder(folder)
    for path in (run.config, run.metrics):
        if not path.is_file():
            raise CheckpointError(
                f"{folder}: is not the folder of a run (it holds no {path.name}). Name a folder that `nmt train` wrote."
            )
    records: dict[str, list[Record]] = {"start": [], "update": [], "validation": [], "event": []}
    for record in MetricsFile(run.metrics).read()[0]:
        records.setdefault(str(record.get("kind")), []).append(record)
    return RunHistory(
        label=label,
        settings=dict(flatten(load_yaml(run.config))),
        starts=records["start"],
        updates=records["update"],
        validations=records["validation"],
        events=records["event"],
        manifests={path.name: _read_manifest(path) for path in sorted(run.manifests.glob("*.json"))},
    )


def _read_manifest(path: Path) -> Manifest | None:
    try:
        return Manifest.model_validate_json(read_regular(path))
    except (OSError, ValueError):
        return None


def number(record: Record, field: str) -> float | None:
    """A field of a record if it is a finite number; else None."""
    value: Any = record.get(field)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST
    if not is_number:
        return None
    return float(value) if abs(value) >= 1 / _LARGEST else 0.0


def values(records: Sequence[Record], field: str) -> list[float]:
    """The finite numbers of a field."""
    return [value for record in records if (value := number(record, field)) is not None]


def not_finite(records: Sequence[Record], field: str) -> int:
    """The number of records in which a field is infinite or NaN, which a run records as null."""
    return sum(field in record and number(record, field) is None for record in records)
