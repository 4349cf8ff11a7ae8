"""The pipeline from a recipe to parallel text and its manifest.

Everything is written into a hidden folder beside the data set's place and renamed once it is whole, so that whoever
looks sees the old data set or the new one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nmt.corpora.download import Notify, Progress, sha256_of
from nmt.corpora.local import take_local_text
from nmt.corpora.schema import Recipe
from nmt.corpora.sources import fetch_sources, unfetched_records
from nmt.corpora.writing import write_text
from nmt.data.manifest import MANIFEST_NAME, Manifest, SourceRecord, read_manifest, write_manifest
from nmt.errors import DataError
from nmt.locking import exclusive

# What is made from the text later, and is worth nothing once the text is another.
_DERIVED = frozenset({"vocab.model", "vocab.txt", "shards"})


@dataclass(frozen=True)
class Prepared:
    """A data set that stands ready."""

    manifest: Manifest
    folder: Path
    changed: bool
    """False if it stood there already, made from the same inputs."""


def prepare(
    recipe: Recipe,
    out: Path,
    *,
    cache: Path | None = None,
    mirrors: Sequence[str] = (),
    offline: bool = False,
    workers: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
    pairs_progress: Progress | None = None,
    notify: Notify | None = None,
) -> Prepared:
    """Make a data set: ``{train,valid,test}.LANGUAGE`` and ``manifest.json``.

    A data set that stands there already, made by the same recipe from the same files, is left as it is. One made
    otherwise is replaced; a vocabulary and shards that were made from its text go with it, unless the text is the same
    after all.

    Args:
        recipe: where the text comes from and what is done to it.
        out: the data set's folder.
        cache: where downloads are kept; see :func:`nmt.corpora.sources.default_cache`.
        mirrors: folders or URLs that hold the downloads by their base names, tried first.
        offline: touch no network.
        workers: processes that clean; one for each core if unset.
        force: make the data set even if it stands there already.
        progress: told of every block that is downloaded.
        pairs_progress: told of the pairs that were read, and of how many there are where it is known.
        notify: told of notices: what a user should know but need not act upon.

    Raises:
        DownloadError: a file could not be fetched, or is damaged.
        DataError: text cannot be used as it is, or something that is no data set stands in the way.
    """
    folder = out.resolve()
    tell = notify or (lambda notice: None)
    with _alone(folder):
        _settle(folder, tell)
        _refuse_to_replace(folder)
        with _workspace(folder) as workspace:
            scratch = workspace / ".scratch"
            local = take_local_text(recipe, scratch / "pipes")
            if not force and (standing := _standing(folder, recipe, unfetched_records(recipe, local))):
                return Prepared(standing, out, changed=False)
            sources = fetch_sources(
                recipe,
                scratch / "members",
                local,
                cache=cache,
                mirrors=mirrors,
                offline=offline,
                progress=progress,
                notify=notify,
            )
            manifest = write_text(
                sources,
                workspace,
                scratch=scratch,
                workers=workers or _cores(),
                progress=pairs_progress or (lambda description, done, total: None),
                tell=tell,
            )
            shutil.rmtree(scratch, ignore_errors=True)
            write_manifest(manifest, workspace)
            if folder.exists():
                folder.rename(_replaced(folder))
            workspace.rename(folder)
        _settle(folder, tell)
    return Prepared(manifest, out, changed=True)


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _standing(folder: Path, recipe: Recipe, local: list[SourceRecord]) -> Manifest | None:
    """The manifest of the data set that stands in a folder, if it is whole and made from these inputs."""
    if not (folder / MANIFEST_NAME).is_file():
        return None
    try:
        manifest = read_manifest(folder)
    except DataError:
        return None
    fetched = [record for record in manifest.sources if record.url is not None]
    if manifest.recipe != recipe.model_dump(mode="json") or manifest.sources != [*fetched, *local]:
        return None
    for name, record in manifest.files.items():
        path = folder / name
        if not path.is_file() or sha256_of(path) != record.sha256:
            return None
    return manifest


def _refuse_to_replace(folder: Path) -> None:
    """Raise if something other than a data set stands in its place."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise DataError(f"{folder}: is a file; a data set needs a folder. Choose another with --out.")
    if any(folder.iterdir()) and not (folder / MANIFEST_NAME).exists():
        raise DataError(
            f"{folder}: is a folder with something in it that is no data set (there is no {MANIFEST_NAME}). "
            "Choose another with --out, or empty it."
        )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes from making the same data set."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with exclusive(folder.with_name(f".{folder.name}.lock"), wait=False):
            yield
    except BlockingIOError:
        raise DataError(f"{folder}: is being prepared by another process.") from None


@contextmanager
def _workspace(folder: Path) -> Iterator[Path]:
    """A hidden folder beside the data set's; what is left in it in the end, or of a process that died, goes."""
    workspace = folder.with_name(f".{folder.name}.preparing")
    shutil.rmtree(workspace, ignore_errors=True)
    workspace.mkdir()
    try:
        yield workspace
    finally:
        shutil.rmtree(workspace, ignore_errors=True)


def _replaced(folder: Path) -> Path:
    """Where the earlier data set waits while the new one takes its place."""
    return folder.with_name(f".{folder.name}.replaced")


def _settle(folder: Path, tell: Notify) -> None:
    """Finish a replacement: bring over what still holds, remove the rest. Also after a process that died on the way."""
    replaced = _replaced(folder)
    if not replaced.exists():
        return
    if not folder.exists():
        replaced.rename(folder)
        return
    text, same_text = _text_of(replaced), _text_of(replaced) == _text_of(folder)
    stale = []
    for entry in sorted(replaced.iterdir()):
        if entry.name in _DERIVED and not same_text:
            stale.append(entry.name)
        elif entry.name != MANIFEST_NAME and entry.name not in text and not (folder / entry.name).exists():
            entry.rename(folder / entry.name)
    shutil.rmtree(replaced)
    if stale:
        tell(f"removed {', '.join(stale)}: made from the text that was here before. Run `nmt build-vocab` again.")


def _text_of(folder: Path) -> dict[str, str]:
    """The checksums of a data set's text, by file."""
    try:
        return {name: record.sha256 for name, record in read_manifest(folder).files.items()}
    except DataError:
        return {}
