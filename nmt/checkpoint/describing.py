"""A model on disk described without loading it, and the run to use when the user names none."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.checkpoint.bundle_files import BundleFolder
from nmt.checkpoint.kinds import averaged_checkpoints, read_json
from nmt.checkpoint.run_folder import bundle_to_use, checkpoints, chosen_bundle, runs_below, validation_score
from nmt.config import load_yaml
from nmt.errors import CheckpointError, NmtError

_STEP = re.compile(r"step-(\d{1,18})")


def describe_model(bundle: Path) -> str:
    """A bundle's path and what its files say of it: ``runs/x/average (en-de, update 1,200, BLEU 67.64)``.

    The update of an average is that of its last checkpoint. Missing and damaged files are skipped.
    """
    update, score = _update(_last_checkpoint(bundle)), validation_score(bundle)
    facts = [_direction(bundle), "" if update is None else f"update {update:,}", "" if score is None else str(score)]
    known = ", ".join(filter(None, facts))
    return f"{bundle} ({known})" if known else str(bundle)


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


def _direction(bundle: Path) -> str:
    """The languages, such as ``en-de``; empty if they are not known."""
    try:
        data = _mapping(load_yaml(BundleFolder(bundle).config).get("data"))
    except NmtError:
        return ""
    languages = [each for key in ("source_lang", "target_lang") if isinstance(each := data.get(key), str) and each]
    return "-".join(languages) if len(languages) == 2 else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
