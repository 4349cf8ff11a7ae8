"""A run's folder: its checkpoints in order, which of them are kept, and which one to translate with."""

from __future__ import annotations

import contextlib
import errno
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nmt.checkpoint.bundle_files import BundleFolder, damage, is_bundle
from nmt.checkpoint.kinds import CHECKPOINT, read_json
from nmt.checkpoint.scores import Score, best_updates, score_in_notes, scores_until
from nmt.config import CheckpointsConfig, did_you_mean, load_yaml
from nmt.data.data_folder import DataFolder, vocabulary_fingerprint
from nmt.data.manifest import known_manifest
from nmt.errors import CheckpointError, NmtError, OutputError
from nmt.io.files import flush_folder, free_name, put_back
from nmt.io.inside import Inside
from nmt.io.locking import holder, is_held
from nmt.io.ownership import Kind, remove_own
from nmt.io.writing import temporary_path, temporary_paths, writing
from nmt.text.printable import listed

_CHECKPOINT_NAME = re.compile(r"step-(\d+)")


@dataclass(frozen=True)
class RunFolder:
    """The names of all files in a run's folder."""

    path: Path

    config = Inside("config.yaml")
    """The settings, every default resolved."""
    data = Inside("data.json")
    """The paths and weights of the data sets."""
    manifests = Inside("manifests")
    """The folder with copies of the data sets' manifests, made when the run started."""
    metrics = Inside("metrics.jsonl")
    """One JSON record per logged update, validation and event."""
    checkpoints = Inside("checkpoints")
    """The folder of the checkpoints."""
    last = Inside("last")
    """A link to the newest checkpoint."""
    best = Inside("best")
    """A link to the checkpoint with the best validation score."""
    average = Inside("average")
    """The bundle that ``nmt average-checkpoints`` writes."""
    sampled = Inside("sampled")
    """The folder of shards with sampled subwords, which are replaced every epoch."""
    tensorboard = Inside("tensorboard")
    """The folder of event files for TensorBoard."""
    report = Inside("report.html")
    """The page that ``nmt report`` writes."""
    lock = Inside(".lock")
    """Held by the process that trains in the folder."""
    mark = Inside(".nmt")
    """Marks the folder as a run. Empty, or the id of the torchrun launch that claimed the folder for a fresh start."""

    def checkpoint(self, update: int) -> Path:
        """The folder of the checkpoint of an update."""
        return self.checkpoints / f"step-{update:08d}"


def checkpoints(run: Path) -> dict[int, Path]:
    """Update -> checkpoint of a run, ordered by update (not by name)."""
    found = {}
    for path in RunFolder(run).checkpoints.glob("step-*"):
        if match := _CHECKPOINT_NAME.fullmatch(path.name):
            found[int(match[1])] = path
    return dict(sorted(found.items()))


def is_run(folder: Path) -> bool:
    """Whether a run started in a folder, by its mark, or in a copy without it by its metrics or checkpoints."""
    if RunFolder(folder).mark.is_file():
        return True
    first = read_json(RunFolder(folder).metrics, first_line=True)
    if isinstance(first, dict) and "kind" in first and "update" in first:
        return True
    return any(BundleFolder(path).training_state.is_file() for path in checkpoints(folder).values())


RUN = Kind("a run", is_run, is_folder=True)


def latest_intact_checkpoint(run: Path) -> tuple[Path | None, list[str]]:
    """The newest intact checkpoint, and what is wrong with each newer one. Only the process that trains may call this.

    Returns:
        The checkpoint's folder, or None if the run has none; and a message for each damaged checkpoint.

    Raises:
        CheckpointError: all checkpoints are damaged.
    """
    put_back(RunFolder(run).checkpoints)
    problems: list[str] = []
    for path in reversed(checkpoints(run).values()):
        problem = damage(path)
        if problem is None:
            return path, problems
        problems.append(problem)
    if problems:
        raise CheckpointError(
            f"{run}: every checkpoint is damaged:\n"
            + "\n".join(problems)
            + "\nAdd --fresh to start over in a new folder."
        )
    return None, []


def set_aside_damaged(run: Path, *, newer_than: Path) -> None:
    """Rename the damaged checkpoints after the one that the run resumes from, so that none counts as the newest."""
    there = checkpoints(run)
    newest_intact = next(update for update, path in there.items() if path.name == newer_than.name)
    for update, path in there.items():
        if update > newest_intact:
            path.rename(free_name(path.with_name(f"damaged-{path.name}")))


def update_links(run: Path, scores: Mapping[int, Score]) -> None:
    """Point ``RUN/last`` to the newest checkpoint and ``RUN/best`` to the one with the best score."""
    there = checkpoints(run)
    if there:
        _point(RunFolder(run).last, list(there.values())[-1])
    for update in best_updates({u: score for u, score in scores.items() if u in there}, 1):
        _point(RunFolder(run).best, there[update])


def _point(link: Path, checkpoint: Path) -> None:
    if link.exists() and not link.is_symlink():
        raise FileExistsError(errno.EEXIST, "is not a link, so it was not replaced", str(link))
    for leftover in temporary_paths(link):  # from a process that died: only one process trains in a folder
        if leftover.is_symlink():
            leftover.unlink()
    target = checkpoint.relative_to(link.parent)
    if link.is_symlink() and link.readlink() == target:
        return
    # Made under a temporary name and renamed, so that the link exists at every moment.
    temporary = temporary_path(link)
    with writing(link):
        temporary.symlink_to(target)
        try:
            temporary.replace(link)
        except BaseException:
            temporary.unlink()
            raise


def kept(updates: Iterable[int], scores: Mapping[int, Score], settings: CheckpointsConfig) -> set[int]:
    """The updates of the checkpoints to keep: the last few, the best few (the earlier of equals), and every n-th.

    Args:
        updates: the updates of all checkpoints.
        scores: update -> score, for validated checkpoints.
    """
    ordered = sorted(updates)
    last = ordered[-settings.keep_last :]
    best = best_updates({u: scores[u] for u in ordered if u in scores}, settings.keep_best)
    every = [u for u in ordered if settings.keep_every is not None and u % settings.keep_every == 0]
    return {*last, *best, *every}


def prune(run: Path, scores: Mapping[int, Score], settings: CheckpointsConfig) -> None:
    """Delete the checkpoints that are not to be kept, and the remains of interrupted saves.

    A checkpoint to which the user added a file is not deleted.
    """
    flush_folder(run)  # the updated links must be on disk before the checkpoints that they pointed to are removed
    for leftover in RunFolder(run).checkpoints.glob(".step-*"):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink()
    there = checkpoints(run)
    for update in there.keys() - kept(there, scores, settings):
        _remove(there[update])


def _remove(checkpoint: Path) -> None:
    """Remove a checkpoint under a hidden name, so that a partly removed one is never taken for a checkpoint."""
    if checkpoint.is_symlink() or CHECKPOINT.foreign_entries(checkpoint):
        return
    hidden = checkpoint.with_name(f".{checkpoint.name}.pruned")
    checkpoint.rename(hidden)
    flush_folder(checkpoint.parent)
    remove_own(hidden, CHECKPOINT)


def newest_run(root: Path = Path("runs")) -> Path:
    """The most recently changed run below a folder.

    Raises:
        CheckpointError: there is no run.
    """
    runs = runs_below(root)
    if not runs:
        raise CheckpointError(f"no run below {root}/. Run `nmt train` first, or name a run or bundle.")
    return runs[0]


def runs_below(root: Path) -> list[Path]:
    """The runs below a folder, the most recently changed first."""
    return sorted(
        (path.parent for path in root.glob(f"*/{RunFolder(root).config.name}")), key=_last_changed, reverse=True
    )


def similar(path: Path) -> str:
    """`` (did you mean 'runs/a'?)`` for a path that does not exist, by what is beside it and below ``runs/``."""
    names = []
    for folder in dict.fromkeys((path.parent, Path("runs"))):
        with contextlib.suppress(OSError):
            names += [str(each) for each in folder.iterdir() if each != path]
    return did_you_mean(str(path), names)


def refuse_while_used(data: Path, replaced: Literal["text", "pieces"] | None) -> None:
    """Refuse to replace files of a data set that runs need: to resume, and to compare scores.

    Runs are looked for in ``runs/`` below the current folder and beside the folder of the data sets. Those of other
    machines are found if the file system shares locks.

    Args:
        replaced: what gets another content. Then runs that have ended, or were interrupted, count as well.

    Raises:
        OutputError: a run trains on the data set, or was trained on what is replaced.
    """
    folder = data.resolve()
    roots = {root.resolve(): root for root in (folder.parent.parent / "runs", Path("runs"))}
    runs = [run for root in roots.values() for run in runs_below(root) if folder in _data_of(run)]
    for run in runs:
        lock = RunFolder(run).lock
        if is_held(lock):
            raise OutputError(
                f"{data}: {run} is training on it (process {holder(lock)}), and could not resume with other files. "
                "Wait until it has ended, or work on a copy of the data set."
            )
    if replaced and (users := [str(run) for run in runs if _was_trained_on(run, data, replaced)]):
        raise OutputError(
            f"{data}: {listed(users)} {'was' if len(users) == 1 else 'were'} trained on it, and could neither resume "
            f"nor be compared with later runs if its {replaced} were replaced. Make a data set of another name, name "
            "another folder with --out of `nmt prepare-data`, or add --force to replace it."
        )


def _was_trained_on(run: Path, data: Path, what: Literal["text", "pieces"]) -> bool:
    """Whether a run's data set still has the text, or text and pieces, that the run records."""
    manifest = known_manifest(data)
    if manifest is None or _data_of(run)[data.resolve()] != manifest.fingerprint:
        return False
    try:
        config = load_yaml(RunFolder(run).config)
        return what == "text" or config["data"]["vocab_fingerprint"] == vocabulary_fingerprint(DataFolder(data).vocab)
    except (NmtError, OSError, KeyError, TypeError):
        return False


def _data_of(run: Path) -> dict[Path, object]:
    """The fingerprints of a run's data sets by their places, as far as they are recorded."""
    entries = read_json(RunFolder(run).data)
    found: dict[Path, object] = {}
    for entry in entries if isinstance(entries, list) else []:
        with contextlib.suppress(AttributeError, KeyError, OSError, TypeError, ValueError):  # of any other shape
            found[(run / entry["path"]).resolve()] = entry.get("fingerprint")
    return found


def _last_changed(run: Path) -> float:
    return max(path.stat().st_mtime for path in (run, RunFolder(run).config, RunFolder(run).metrics) if path.exists())


def validation_score(bundle: Path) -> Score | None:
    """The validation score of exactly these weights; None for a bundle that was not validated.

    A checkpoint that was saved before its validation does not know its score: the run's newest checkpoint does.
    """
    if (score := score_in_notes(bundle)) is not None:
        return score
    checkpoint = bundle.resolve()
    match = _CHECKPOINT_NAME.fullmatch(checkpoint.name)
    if match is None:
        return None
    newest = list(checkpoints(checkpoint.parent.parent).values())[-1:]
    known = (scores_until(each).get(int(match[1])) for each in (checkpoint, *newest))
    return next((score for score in known if score is not None), None)


def bundle_to_use(path: Path) -> Path:
    """The bundle to use for a path that names a run or a bundle, as :func:`chosen_bundle`.

    Raises:
        CheckpointError: the folder does not exist or holds no model.
    """
    return chosen_bundle(path)[0]


def chosen_bundle(path: Path) -> tuple[Path, str | None]:
    """The bundle to use for a path that names a run or a bundle.

    For a run: its average, if it is better than the best checkpoint and no checkpoint is newer; else its best
    checkpoint; else its last.

    Returns:
        The bundle, and a remark if the run has an average that is not known to be worse, and not used.

    Raises:
        CheckpointError: the folder does not exist, holds no model, or holds one that was exported.
    """
    match read_json(BundleFolder(path).certificate):
        case {"parity": {"direction": "export", "toolkit": str(toolkit)}}:
            raise CheckpointError(f"{path}: is a model for {toolkit}. Name the run or bundle that it comes from.")
    if is_bundle(path):
        return path, None
    if path.is_file():
        raise CheckpointError(f"{path}: is a file; name the folder of a run or bundle.")
    if not path.is_dir():
        raise CheckpointError(f"{path}: there is no such run or bundle{similar(path)}.")
    run, checkpoint = RunFolder(path), best_checkpoint(path)
    if not is_bundle(run.average):
        if checkpoint is not None:
            return checkpoint, None
    elif checkpoint is None:
        return run.average, None
    else:
        newest = max((folder.stat().st_mtime for folder in checkpoints(path).values()), default=0.0)
        is_older = run.average.stat().st_mtime < newest
        doubt = "checkpoints are newer" if is_older else why_not_comparable(run.average, checkpoint)
        if doubt is not None:
            return checkpoint, f"{run.average} is not used: {doubt}"
        return (checkpoint if why_not_better(run.average, checkpoint) else run.average), None
    instead = models_inside(path) or "Name another run or bundle."
    raise CheckpointError(f"{path}: neither a bundle nor a run with checkpoints. {instead}")


def models_inside(folder: Path) -> str:
    """Advice to name one of the runs and bundles in a folder; empty if it has none."""
    inside = [each for each in sorted(folder.iterdir()) if each.is_dir() and (checkpoints(each) or is_bundle(each))]
    return f"Name one that it holds: {listed(inside)}." if inside else ""


def best_checkpoint(run: Path) -> Path | None:
    """A run's best checkpoint, else its last; None if it has none."""
    there = checkpoints(run)
    for link in (RunFolder(run).best, RunFolder(run).last):
        if is_bundle(link):  # Named as the user names the run, unless the link leads out of it.
            return next((path for path in there.values() if path.samefile(link)), link.resolve())
    return next(reversed(there.values()), None)


def why_not_comparable(average: Path, checkpoint: Path) -> str | None:
    """Why it is not known whether an average is better than a checkpoint; None if validation scores tell."""
    score, other = validation_score(average), validation_score(checkpoint)
    if score is None:
        return "it was not validated"
    if other is None or (other.bleu is None) != (score.bleu is None):
        return f"{checkpoint.name} was not validated by the same measure"
    return None


def why_not_better(average: Path, checkpoint: Path) -> str | None:
    """Why an average is not known to be better than a checkpoint; None if it is, by the run's validation score."""
    if (doubt := why_not_comparable(average, checkpoint)) is not None:
        return doubt
    score, other = validation_score(average), validation_score(checkpoint)
    assert score is not None and other is not None
    return None if score.rank > other.rank else f"{score} is not better than {other} of {checkpoint.name}"
