"""A model on disk described without loading it, and the run to use when the user names none."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.checkpoint.bundle_files import BundleFolder
from nmt.checkpoint.kinds import averaged_checkpoints, read_json
from nmt.checkpoint.run_folder import bundle_to_use, checkpoints, chosen_bundle, runs_below, validation_score
from nmt.checkpoint.scores import Score
from nmt.config import load_yaml
from nmt.errors import CheckpointError, NmtError

_STEP = re.compile(r"step-(\d{1,18})")


@dataclass(frozen=True)
class ModelFacts:
    """What the files of a bundle say about the model; unknown facts are None."""

    direction: str | None
    """The languages: ``en-de``."""
    update: int | None
    """The number of updates. For an average, that of its last checkpoint."""
    score: Score | None
    """The validation score of these weights."""
    seconds_old: float | None
    """Seconds since the weights were written."""

    def __str__(self) -> str:
        facts = (
            self.direction,
            None if self.update is None else f"update {self.update:,}",
            None if self.score is None else str(self.score),
            None if self.seconds_old is None else age(self.seconds_old),
        )
        return ", ".join(filter(None, facts))


def describe_model(bundle: Path) -> str:
    """A bundle's path and its known facts: ``runs/x/average (en-de, update 1,200, BLEU 67.64, 3 minutes old)``."""
    facts = str(model_facts(bundle))
    return f"{bundle} ({facts})" if facts else str(bundle)


def model_facts(bundle: Path) -> ModelFacts:
    """The facts that the files of a bundle hold. Missing and damaged files are skipped."""
    try:
        seconds_old = max(0.0, time.time() - BundleFolder(bundle).weights.stat().st_mtime)
    except OSError:
        seconds_old = None
    languages = [language for language in _languages(bundle) if isinstance(language, str) and language]
    direction = "-".join(languages) if len(languages) == 2 else None
    return ModelFacts(direction, _update(_last_checkpoint(bundle)), validation_score(bundle), seconds_old)


def age(seconds: float) -> str:
    """An age in words, in the largest unit of which it has at least one."""
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if (count := int(seconds // size)) > 0:
            return f"{count} {unit}{'s' * (count > 1)} old"
    return "less than a minute old"


def holds_model(run: Path) -> bool:
    """Whether a run has a model to translate with."""
    try:
        bundle_to_use(run)
    except CheckpointError:
        return False
    return True


def has_checkpoints(run: Path) -> bool:
    """Whether a run has checkpoints to average."""
    return bool(checkpoints(run))


def models_to_use(named: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """The bundle of each named run or bundle; by default, the bundle of the newest trained run.

    Returns:
        The bundles, and remarks as from :func:`newest_trained_run` and :func:`chosen_bundle`.

    Raises:
        CheckpointError: a named folder does not exist or holds no model, or there is no trained run.
    """
    remarks: list[str] = []
    if not named:
        newest, remarks = newest_trained_run()
        named = [newest]
    chosen = [chosen_bundle(path) for path in named]
    return [bundle for bundle, _ in chosen], remarks + [remark for _, remark in chosen if remark is not None]


def newest_trained_run(
    root: Path = Path("runs"), *, usable: Callable[[Path], bool] = holds_model
) -> tuple[Path, list[str]]:
    """The most recently changed run that is ``usable``.

    Returns:
        The run, and remarks about the choice: newer runs without a model yet.

    Raises:
        CheckpointError: no run is usable.
    """
    runs = runs_below(root)
    if not runs:
        raise CheckpointError(f"no run below {root}/. Run `nmt train` first, or name a run or bundle.")
    newest = next((run for run in runs if usable(run)), None)
    if newest is None:
        raise CheckpointError(
            f"no run below {root}/ has a checkpoint yet. Let `nmt train --resume {runs[0]}` reach its first one, or "
            "name a run or bundle elsewhere."
        )
    remarks = [f"{run} is newer, but has no checkpoint yet" for run in runs[: runs.index(newest)]]
    return newest, remarks


def _last_checkpoint(bundle: Path) -> Path:
    """The bundle itself if it is a checkpoint; for an average, the last checkpoint that it averages."""
    folders = averaged_checkpoints(bundle)
    if not folders:
        return bundle.resolve()
    last = max(folders, key=lambda folder: _update(folder) or 0)
    # The recorded path is outdated if the run was moved; the checkpoints then still lie beside the average.
    beside = bundle.parent / last.parent.name / last.name
    try:
        return beside if beside.is_dir() else last
    except OSError:  # the recorded name cannot be a file's name
        return bundle


def _update(checkpoint: Path) -> int | None:
    match = _STEP.fullmatch(checkpoint.name)
    if match is not None:
        return int(match[1])
    update = _mapping(read_json(BundleFolder(checkpoint).training_state)).get("update")
    return update if isinstance(update, int) else None


def _languages(run: Path) -> tuple[Any, Any]:
    data = _mapping(_settings(run).get("data"))
    return data.get("source_lang"), data.get("target_lang")


def _settings(folder: Path) -> Mapping[str, Any]:
    try:
        return load_yaml(BundleFolder(folder).config)
    except NmtError:
        return {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
