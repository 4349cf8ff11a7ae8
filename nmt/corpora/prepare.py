"""The pipeline from a recipe to parallel text and its manifest.

Everything is written into a hidden folder beside the data set's place and renamed once it is whole, so that whoever
looks sees the old data set or the new one.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nmt.corpora.download import Notify
from nmt.corpora.local import take_local_text
from nmt.corpora.schema import Recipe
from nmt.corpora.sources import fetch_sources, unfetched_records
from nmt.corpora.text_files import write_text
from nmt.corpora.transfer import Progress
from nmt.data.data_folder import DataFolder
from nmt.data.derived import encoded_text, keep_given_vocabulary, own_derived, remove_derived
from nmt.data.manifest import (
    DATA_SET,
    Manifest,
    SourceRecord,
    read_manifest,
    recorded_name,
    recorded_text,
    write_manifest,
)
from nmt.errors import DataError, OutputError
from nmt.files import flush_folder, free_name, take_place, why_not_made
from nmt.hashing import sha256_of
from nmt.locking import exclusive
from nmt.ownership import check_replaceable
from nmt.processor import usable_cores
from nmt.writing import WriteError, temporary_path, temporary_paths, writing, written_as

# What lies in a data set's folder while it is made.
_WORK = re.compile(r"\.scratch|(train|valid|test)\.[^.]+|\.?manifest\.json.*")


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
    after all. A vocabulary that was given, rather than trained on the text, is kept as ``vocab.model.before``.
    Whatever else lies in its folder is brought over: files of the user's, and text of the data set that was changed
    since, under another name where its own is taken.

    Args:
        recipe: where the text comes from and what is done to it.
        out: the data set's folder.
        cache: where downloads are kept; see :func:`nmt.corpora.sources.default_cache`.
        mirrors: folders or URLs that hold the downloads by their base names, tried first. User information and
            queries of addresses are not written down.
        offline: touch no network.
        workers: processes that clean; one for each core if unset.
        force: make the data set even if it stands there already, or another one does.
        progress: told of every block that is downloaded.
        pairs_progress: told of the pairs that were read, and of how many there are where it is known.
        notify: told of notices: what a user should know but need not act upon.

    Raises:
        DownloadError: a file could not be fetched, or is damaged.
        DataError: text cannot be used as it is.
        OutputError: something that is no data set, or one of another name or other languages, stands in its place.
        WriteError: the system refused to write; the data set that stood there still stands.
    """
    check_replaceable(out, DATA_SET, in_place=True)
    folder = out.resolve()
    tell = notify or (lambda notice: None)
    with _alone(folder):
        _settle(folder, tell)
        if not force:
            _refuse_other(folder, out, recipe)
        with _workspace(folder) as workspace:
            scratch = workspace / ".scratch"
            local = take_local_text(recipe, scratch / "pipes")
            if not force and (standing := _standing(folder, recipe, unfetched_records(recipe, local))):
                return Prepared(standing, out, changed=False)
            check_replaceable(folder, DATA_SET)
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
                workers=workers or usable_cores(),
                progress=pairs_progress or (lambda description, done, total: None),
                tell=tell,
            )
            shutil.rmtree(scratch, ignore_errors=True)
            write_manifest(manifest, workspace)
            check_replaceable(folder, DATA_SET)  # again, after what may have been hours
            with writing(workspace):
                flush_folder(workspace)
                take_place(folder, workspace, _replaced(folder))
        with writing(folder, kept=f"The data set is complete; some of the earlier one is in {_replaced(folder)}."):
            _settle(folder, tell)
    return Prepared(manifest, out, changed=True)


def _refuse_other(folder: Path, out: Path, recipe: Recipe) -> None:
    """Refuse a folder that holds a data set of another name or of other languages."""
    found = recorded_name(folder)
    if found not in (None, (recipe.name, recipe.source_lang, recipe.target_lang)):
        name, source_lang, target_lang = found
        raise OutputError(
            f"{out}: holds a data set of {name} from {source_lang} to {target_lang}, not of {recipe.name} from "
            f"{recipe.source_lang} to {recipe.target_lang}. Name another folder with --out, "
            "or add --force to replace it, its vocabulary and shards included."
        )


def _standing(folder: Path, recipe: Recipe, local: list[SourceRecord]) -> Manifest | None:
    """The manifest of the data set that stands in a folder, if it is whole and made from these inputs."""
    if not DataFolder(folder).manifest.is_file():
        return None
    try:
        manifest = read_manifest(folder)
    except DataError:
        return None
    fetched = [record for record in manifest.sources if record.url is not None]
    if manifest.recipe != recipe.record() or manifest.sources != [*fetched, *local]:
        return None
    for name, record in manifest.files.items():
        path = folder / name
        if not path.is_file() or sha256_of(path) != record.sha256:
            return None
    return manifest


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes from making the same data set."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{folder}: cannot be made ({why_not_made(folder, error)}). Name another folder with --out."
        ) from None
    try:
        with exclusive(folder.with_name(f".{folder.name}.lock"), wait=False):
            yield
    except BlockingIOError:
        raise DataError(f"{folder}: is being prepared by another process.") from None


@contextmanager
def _workspace(folder: Path) -> Iterator[Path]:
    """A hidden folder beside the data set's; what is left in it in the end, or of a process that died, goes."""
    of_earlier_versions = folder.with_name(f".{folder.name}.preparing")
    for left in (*temporary_paths(folder, "preparing"), of_earlier_versions):
        _remove_workspace(left)
    workspace = temporary_path(folder, "preparing")
    with written_as(folder, workspace, lambda: _kept(folder)), _named(folder, workspace):
        with writing(workspace):
            workspace.mkdir()
        try:
            yield workspace
        finally:
            shutil.rmtree(workspace, ignore_errors=True)


def _remove_workspace(left: Path) -> None:
    """Remove what a process that died left; nobody else is at work, since the data set is locked."""
    if left.is_symlink() or not left.is_dir():
        return
    foreign = [path.name for path in left.iterdir() if not _WORK.fullmatch(path.name)]
    if foreign:
        raise OutputError(f"{left}: holds {foreign[0]}, where the data set is to be made. Move it away.")
    shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _named(folder: Path, workspace: Path) -> Iterator[None]:
    """Name the data set in errors of the system about its workspace, and in those that name no file."""
    try:
        yield
    except OSError as error:
        path = workspace if error.filename is None else Path(os.fsdecode(error.filename))
        if error.errno is None or not path.is_relative_to(workspace):
            raise
        raise WriteError.of(error, path) from error


def _kept(folder: Path) -> str:
    """What there is of a data set that could not be written."""
    what = "The earlier data set is unchanged" if folder.exists() else "No data set was left behind"
    return f"{what}; downloads are kept in the cache."


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
    check_replaceable(replaced, DATA_SET, option=None)
    text = recorded_text(replaced) or {}
    if not _holds_encoded_text(folder, replaced, text):
        if kept := keep_given_vocabulary(replaced):
            tell(f"{DataFolder(folder).vocab.name}: was given with --vocab, and is kept as {kept.name}.")
        stale = own_derived(replaced)
        remove_derived(replaced, stale)
        if stale:
            tell(f"removed {', '.join(stale)}: made from other text. Run `nmt build-vocab` again.")
    for entry in sorted(replaced.iterdir()):
        if _is_as_recorded(entry, text.get(entry.name)):
            entry.unlink()
        elif entry != DataFolder(replaced).manifest:
            _bring_over(entry, folder, tell)
    # The manifest last: by it the rest is known, should this be interrupted. A folder that is not empty stays.
    DataFolder(replaced).manifest.unlink(missing_ok=True)
    replaced.rmdir()


def _holds_encoded_text(folder: Path, replaced: Path, text: dict[str, str]) -> bool:
    """Whether a new data set holds the text that the vocabulary and shards of the one before were made from.

    Args:
        text: the checksums of the text as it was prepared before. It may have been edited by hand since, and encoded.
    """
    new = recorded_text(folder) or {}
    return new == text and all(new.get(name) == checksum for name, checksum in encoded_text(replaced).items())


def _is_as_recorded(path: Path, checksum: str | None) -> bool:
    return checksum is not None and path.is_file() and not path.is_symlink() and sha256_of(path) == checksum


def _bring_over(entry: Path, folder: Path, tell: Notify) -> None:
    """Move what is not of the data set that was replaced, or no longer, to the one in its place."""
    kept = folder / entry.name
    is_taken = kept.exists() or kept.is_symlink()
    if is_taken:
        kept = free_name(kept.with_name(f"{kept.name}.before"))
    entry.rename(kept)
    if is_taken:
        tell(f"{entry.name}: was not as `nmt prepare-data` wrote it, and is kept as {kept.name}.")
