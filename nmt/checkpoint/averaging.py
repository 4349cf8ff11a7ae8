"""The mean of several checkpoints' weights, which translates better than the last of them (section 6.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from nmt.checkpoint.bundle import Bundle, load_bundle, save_bundle
from nmt.checkpoint.kinds import AVERAGE
from nmt.checkpoint.lineage import averaging_notes
from nmt.checkpoint.run_folder import RunFolder, checkpoints, similar
from nmt.checkpoint.scores import best_updates, scores_until
from nmt.config import belongs_to_weights, differences
from nmt.errors import CheckpointError, OutputError
from nmt.io.ownership import check_replaceable


def last_checkpoints(run: Path, count: int) -> list[Path]:
    """The last ``count`` checkpoints by update (all of them if there are fewer), oldest first.

    Raises:
        CheckpointError: the run has none.
    """
    return list(_some_checkpoints(run).values())[-count:]


def best_checkpoints(run: Path, count: int) -> list[Path]:
    """The best ``count`` checkpoints by validation score (all of them if fewer were scored), oldest first.

    Raises:
        CheckpointError: the run has no checkpoint that was validated.
    """
    there = _some_checkpoints(run)
    newest = list(there.values())[-1]
    best = best_updates({update: score for update, score in scores_until(newest).items() if update in there}, count)
    if not best:
        raise CheckpointError(f"{newest}: records no validation score; use --last instead of --best.")
    return [there[update] for update in sorted(best)]


def named_checkpoints(run: Path, updates: Sequence[str]) -> list[Path]:
    """The checkpoints of the given updates, oldest first.

    Raises:
        CheckpointError: the run does not have one of them.
    """
    there = {str(update): path for update, path in _some_checkpoints(run).items()}
    if missing := [update for update in updates if update not in there]:
        raise CheckpointError(f"{run}: has no checkpoint of update {missing[0]}, but of {', '.join(there)}.")
    return [path for update, path in there.items() if update in updates]


def _some_checkpoints(run: Path) -> dict[int, Path]:
    there = checkpoints(run)
    if there:
        return there
    inside = run.resolve()
    if inside.parent.name == RunFolder(inside).checkpoints.name and checkpoints(inside.parent.parent):
        raise CheckpointError(
            f"{run}: is a checkpoint, but an average needs several. Name its run: {inside.parent.parent}"
        )
    if not run.exists():
        raise CheckpointError(f"{run}: there is no such run{similar(run)}.")
    raise CheckpointError(f"{run}: no checkpoints to average. Is it a run's folder?")


def average(
    folders: Sequence[Path], out: Path, *, validate: Callable[[Bundle], Mapping[str, float | None] | None] | None = None
) -> None:
    """Write the mean of several bundles as a bundle. Sums are computed in float64.

    Args:
        validate: called with the mean before it is written. Its figures, if any, are noted in the bundle.

    Raises:
        CheckpointError: a bundle is damaged, or its model, vocabulary or text normalization differs from the first.
        OutputError: ``out`` exists and is not an average, or ``out`` is one of the bundles or beside a run's
            checkpoints.
    """
    _check_out(out, folders)
    first = last = load_bundle(folders[0])
    total = {name: tensor.double() for name, tensor in first.weights.items()}
    for folder in folders[1:]:
        last = load_bundle(folder)
        if last.vocab.fingerprint != first.vocab.fingerprint:
            raise CheckpointError(f"{folder} has another vocabulary than {folders[0]}: they cannot be averaged.")
        for key, before, after in differences(first.config, last.config):
            if belongs_to_weights(key) or key in ("data.source_text", "data.target_text"):
                raise CheckpointError(
                    f"{folder} is another model than {folders[0]} ({key}: {after}, not {before}): "
                    "they cannot be averaged."
                )
        for name, tensor in last.weights.items():
            total[name] += tensor
    weights = {name: (tensor / len(folders)).to(torch.float32) for name, tensor in total.items()}
    # The settings of the last checkpoint are those of the run's end, such as how it validates.
    mean = Bundle(out, last.config, last.vocab, weights)
    figures = None if validate is None else validate(mean)
    save_bundle(out, weights, mean.config, mean.vocab, notes=averaging_notes(folders, out, figures))


def _check_out(out: Path, folders: Sequence[Path]) -> None:
    check_replaceable(out, AVERAGE)
    place = out.resolve()
    for folder in (folder.resolve() for folder in folders):
        # A bundle among a run's checkpoints would be mistaken for one of them.
        run = RunFolder(folder.parent.parent)
        beside = folder.parent if folder.parent == run.checkpoints else folder
        if place == folder or place.is_relative_to(beside):
            raise OutputError(f"{out}: lies among the checkpoints to average. Name another folder with --out.")
