"""What is known of a model on disk without loading it, and which run is meant where none was named."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.checkpoint.bundle_files import CONFIG_FILE, MODEL_FILE, NOTES_FILE, TRAINING_STATE_FILE
from nmt.checkpoint.kinds import read_json
from nmt.checkpoint.run_folder import bundle_to_use, checkpoints, runs_below
from nmt.config import load_yaml
from nmt.errors import CheckpointError, NmtError

_STEP = re.compile(r"step-(\d{1,18})")
_FAR_FEWER = 0.5
"""The newest run is a trial where it has at most so many of another run's updates."""


@dataclass(frozen=True)
class ModelFacts:
    """What a bundle's files tell of it; None where they do not."""

    update: int | None
    """After how many updates; of an average, of its last checkpoint."""
    score: str | None
    """Of the run's last validation until then: ``BLEU 67.6``, or ``loss 1.234`` where BLEU was not measured."""
    seconds_old: float | None

    def __str__(self) -> str:
        facts = (
            None if self.update is None else f"update {self.update:,}",
            self.score,
            None if self.seconds_old is None else age(self.seconds_old),
        )
        return ", ".join(filter(None, facts))


def describe_model(bundle: Path) -> str:
    """A bundle's path with what is known of it: ``runs/x/average (update 1,200, BLEU 67.6, 3 minutes old)``."""
    facts = str(model_facts(bundle))
    return f"{bundle} ({facts})" if facts else str(bundle)


def model_facts(bundle: Path) -> ModelFacts:
    """What a bundle's files tell of it. Files that are missing or damaged tell nothing."""
    checkpoint = _last_checkpoint(bundle)
    update = _update(checkpoint)
    scores = _mapping(_mapping(read_json(checkpoint / TRAINING_STATE_FILE)).get("scores"))
    known = {int(key): score for key, score in scores.items() if _STEP.fullmatch(f"step-{key}") and _is_score(score)}
    until = [known[key] for key in sorted(known) if update is None or key <= update]
    try:
        seconds_old = max(0.0, time.time() - (bundle / MODEL_FILE).stat().st_mtime)
    except OSError:
        seconds_old = None
    return ModelFacts(update, _score(bundle, until[-1]) if until else None, seconds_old)


def _is_score(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def age(seconds: float) -> str:
    """How old something is, in the largest unit that it fills."""
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if (count := int(seconds // size)) > 0:
            return f"{count} {unit}{'s' * (count > 1)} old"
    return "less than a minute old"


def holds_model(run: Path) -> bool:
    """Whether a run has something to translate with."""
    try:
        bundle_to_use(run)
    except CheckpointError:
        return False
    return True


def has_checkpoints(run: Path) -> bool:
    """Whether a run has something to average."""
    return bool(checkpoints(run))


def models_to_use(named: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """The bundles that runs or bundles stand for; that of the newest trained run where none is named.

    Returns:
        The bundles, and remarks as from :func:`newest_trained_run`.

    Raises:
        CheckpointError: one of them is not there, or holds no model.
    """
    if named:
        return [bundle_to_use(path) for path in named], []
    run, remarks = newest_trained_run()
    return [bundle_to_use(run)], remarks


def newest_trained_run(
    root: Path = Path("runs"), *, usable: Callable[[Path], bool] = holds_model
) -> tuple[Path, list[str]]:
    """The run that was worked on last, of those that can be used.

    Returns:
        The run, and what a person should know of the choice: newer runs that have no model yet, and a run of the same
        languages that has made far more updates.

    Raises:
        CheckpointError: there is none.
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
    if (other := _trained_longer(newest, [run for run in runs if run != newest and usable(run)])) is not None:
        facts = model_facts(bundle_to_use(other))
        remarks.append(f"{other} has trained for longer ({facts}): name it to take it instead")
    return newest, remarks


def _trained_longer(newest: Path, others: list[Path]) -> Path | None:
    """The run with the most updates, if the newest has far fewer and both are of the same languages."""
    updates = {run: _update(_last_checkpoint(bundle_to_use(run))) or 0 for run in (newest, *others)}
    for run in sorted(others, key=lambda run: -updates[run]):
        if updates[newest] > _FAR_FEWER * updates[run]:
            return None
        if _languages(run) == _languages(newest):
            return run
    return None


def _last_checkpoint(bundle: Path) -> Path:
    """The checkpoint that a bundle is, or the last of those that went into it."""
    averaged = _mapping(read_json(bundle / NOTES_FILE)).get("averaged")
    named = averaged if isinstance(averaged, list) else []
    folders = [Path(folder) for folder in named if isinstance(folder, str)]
    if not folders:
        return bundle.resolve()
    last = max(folders, key=lambda folder: _update(folder) or 0)
    # As it was named where it was averaged; a run that was moved since still has it beside the average.
    beside = bundle.parent / last.parent.name / last.name
    try:
        return beside if beside.is_dir() else last
    except OSError:  # of a name that no file can have
        return bundle


def _update(checkpoint: Path) -> int | None:
    match = _STEP.fullmatch(checkpoint.name)
    if match is not None:
        return int(match[1])
    update = _mapping(read_json(checkpoint / TRAINING_STATE_FILE)).get("update")
    return update if isinstance(update, int) else None


def _score(bundle: Path, score: float) -> str:
    measures_bleu = _mapping(_settings(bundle).get("validation")).get("bleu", True)
    return f"BLEU {score:.1f}" if measures_bleu else f"loss {-score:.3f}"


def _languages(run: Path) -> tuple[Any, Any]:
    data = _mapping(_settings(run).get("data"))
    return data.get("source_lang"), data.get("target_lang")


def _settings(folder: Path) -> Mapping[str, Any]:
    try:
        return load_yaml(folder / CONFIG_FILE)
    except NmtError:
        return {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
