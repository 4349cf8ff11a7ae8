"""The pipeline from a recipe to parallel text and its manifest.

Everything is written to a hidden folder beside the data set's, which is renamed once it is complete. So a reader sees
the old data set or the new one, never a mixture.
"""

from __future__ import annotations

import os
import re
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nmt.checkpoint.run_folder import refuse_while_trained_on
from nmt.cores import usable_cores
from nmt.corpora.download import Fetcher, Notify
from nmt.corpora.filters import chosen_filters
from nmt.corpora.recipe import recorded_recipe
from nmt.corpora.sample_check import doubts_about_names
from nmt.corpora.schema import Recipe
from nmt.corpora.sources import Sources
from nmt.corpora.splits import write_text
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
from nmt.errors import DataError, NmtWarning, OutputError
from nmt.files import flush_folder, free_name, swap_folders, why_not_made
from nmt.hashing import sha256_of
from nmt.locking import exclusive
from nmt.ownership import check_replaceable
from nmt.writing import WriteError, temporary_path, temporary_paths, writing, written_as

# Names in the workspace of a data set.
_WORKSPACE_NAMES = re.compile(r"\.scratch|(train|valid|test)\.[^.]+|\.?manifest\.json.*")


@dataclass(frozen=True)
class Prepared:
    """A complete data set."""

    manifest: Manifest
    folder: Path
    changed: bool
    """False if the data set was up to date."""


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

    An existing data set is left as it is if the same recipe made it from the same files. Otherwise it is replaced.
    Its vocabulary and shards are removed with it, unless the text stays the same. A vocabulary that was given, not
    trained on the text, is kept as ``vocab.model.before``. All other files in the folder are moved to the new one: the
    user's files, and text that was edited. A file whose name is taken gets another name.

    Args:
        recipe: where the text comes from and what is done to it.
        out: the data set's folder.
        cache: where downloads are kept; see :func:`nmt.cache_folder.default_cache`.
        mirrors: folders or URLs that hold the downloads by their base names, tried first. User information and
            queries of addresses are not recorded.
        offline: do not use the network.
        workers: cleaning processes; one per core if unset.
        force: make the data set even if it is up to date, or the folder holds another data set.
        progress: called for every downloaded block.
        pairs_progress: called with the number of pairs read, and their total if known.
        notify: called with notices: what a user should know but need not act upon.

    Raises:
        DownloadError: a file could not be fetched, or is damaged.
        DataError: the text cannot be used.
        OutputError: the folder holds something other than a data set, or one of another name or other languages; or a
            run trains on it.
        WriteError: the system refused to write; the existing data set is unchanged.
    """
    check_replaceable(out, DATA_SET, in_place=True)
    folder = out.resolve()
    tell = notify or (lambda notice: None)
    with _locked(folder):
        _finish_replacement(folder, tell)
        if not force:
            _refuse_other(folder, out, recipe)
        with _workspace(folder) as workspace:
            scratch = workspace / ".scratch"
            sources = Sources(recipe, scratch)
            own = sources.take_own()
            if not force and (manifest := _up_to_date(folder, recipe, own)):
                return Prepared(manifest, out, changed=False)
            check_replaceable(folder, DATA_SET)
            refuse_while_trained_on(out)
            for each in chosen_filters(recipe.filters):  # An error if a package is missing, before anything is fetched.
                each.filter.predicate(each.value, (recipe.source_lang, recipe.target_lang))
            for doubt in doubts_about_names(recipe):
                warnings.warn(doubt, NmtWarning, stacklevel=2)
            sources.fetch(
                Fetcher(cache, mirrors, offline, progress=progress or (lambda what, done, total: None), notify=tell)
            )
            manifest = write_text(
                sources,
                workspace,
                scratch=scratch,
                workers=workers or usable_cores(),
                progress=pairs_progress or (lambda description, done, total: None),
                notify=tell,
            )
            sources.check_unchanged()
            shutil.rmtree(scratch, ignore_errors=True)
            write_manifest(manifest, workspace)
            check_replaceable(folder, DATA_SET)  # again, after what may have been hours
            refuse_while_trained_on(out)
            with writing(workspace):
                flush_folder(workspace)
                swap_folders(folder, workspace, _replaced(folder))
        with writing(folder, kept=f"The data set is complete; some of the earlier one is in {_replaced(folder)}."):
            _finish_replacement(folder, tell)
    return Prepared(manifest, out, changed=True)


def _refuse_other(folder: Path, out: Path, recipe: Recipe) -> None:
    """Refuse a folder that holds a data set of another name or other languages."""
    found = recorded_name(folder)
    if found not in (None, (recipe.name, recipe.source_lang, recipe.target_lang)):
        name, source_lang, target_lang = found
        raise OutputError(
            f"{out}: holds the data set {name} from {source_lang} to {target_lang}, not {recipe.name} from "
            f"{recipe.source_lang} to {recipe.target_lang}. Name another folder with --out, "
            "or add --force to replace the data set with its vocabulary and shards."
        )


def _up_to_date(folder: Path, recipe: Recipe, local: list[SourceRecord]) -> Manifest | None:
    """The manifest of the data set in a folder, if it is complete and made from these inputs; else None."""
    if not DataFolder(folder).manifest.is_file():
        return None
    try:
        manifest = read_manifest(folder)
    except DataError:
        return None
    fetched = [record for record in manifest.sources if record.url is not None]
    if recorded_recipe(manifest.recipe) != recipe.record() or manifest.sources != [*fetched, *local]:
        return None
    for name, record in manifest.files.items():
        path = folder / name
        if not path.is_file() or sha256_of(path) != record.sha256:
            return None
    return manifest


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
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
    """A hidden folder beside the data set's, removed at the end, as are workspaces of processes that died."""
    name_in_earlier_versions = folder.with_name(f".{folder.name}.preparing")
    for abandoned in (*temporary_paths(folder, "preparing"), name_in_earlier_versions):
        _remove_abandoned(abandoned)
    workspace = temporary_path(folder, "preparing")
    with written_as(folder, workspace, lambda: _what_remains(folder)), _naming(folder, workspace):
        with writing(workspace):
            workspace.mkdir()
        try:
            yield workspace
        finally:
            shutil.rmtree(workspace, ignore_errors=True)


def _remove_abandoned(workspace: Path) -> None:
    """Remove the workspace of a process that died. No process can be using it, since the data set is locked."""
    if workspace.is_symlink() or not workspace.is_dir():
        return
    foreign = [path.name for path in workspace.iterdir() if not _WORKSPACE_NAMES.fullmatch(path.name)]
    if foreign:
        raise OutputError(f"{workspace}: must be empty to make the data set, but holds {foreign[0]}. Move it away.")
    shutil.rmtree(workspace, ignore_errors=True)


@contextmanager
def _naming(folder: Path, workspace: Path) -> Iterator[None]:
    """Turn system errors about the workspace, or about no named file, into errors that name the data set."""
    try:
        yield
    except OSError as error:
        path = workspace if error.filename is None else Path(os.fsdecode(error.filename))
        if error.errno is None or not path.is_relative_to(workspace):
            raise
        raise WriteError.of(error, path) from error


def _what_remains(folder: Path) -> str:
    """What remains of a data set that could not be written, as a sentence."""
    what = "The earlier data set is unchanged" if folder.exists() else "No data set was left behind"
    return f"{what}; downloads are kept in the cache."


def _replaced(folder: Path) -> Path:
    """The hidden folder that the earlier data set is moved to while the new one takes its place."""
    return folder.with_name(f".{folder.name}.replaced")


def _finish_replacement(folder: Path, tell: Notify) -> None:
    """Finish a replacement, possibly one that was interrupted: move files that are still valid, remove the rest."""
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
            tell(f"{DataFolder(folder).vocab.name}: was given with --vocab; it is kept as {kept.name}.")
        stale = own_derived(replaced)
        remove_derived(replaced, stale)
        if stale:
            tell(f"removed {', '.join(stale)}: made from other text. Run `nmt build-vocab` again.")
    for entry in sorted(replaced.iterdir()):
        if _is_as_recorded(entry, text.get(entry.name)):
            entry.unlink()
        elif entry != DataFolder(replaced).manifest:
            _move_over(entry, folder, tell)
    # The manifest is removed last: it names the other files if this is interrupted. A folder that is not empty stays.
    DataFolder(replaced).manifest.unlink(missing_ok=True)
    replaced.rmdir()


def _holds_encoded_text(folder: Path, replaced: Path, text: dict[str, str]) -> bool:
    """Whether the new data set holds the text that the vocabulary and shards of the replaced one were made from.

    Args:
        text: the checksums of the replaced text as it was prepared. It may have been edited by hand and encoded since.
    """
    new = recorded_text(folder) or {}
    return new == text and all(new.get(name) == checksum for name, checksum in encoded_text(replaced).items())


def _is_as_recorded(path: Path, checksum: str | None) -> bool:
    return checksum is not None and path.is_file() and not path.is_symlink() and sha256_of(path) == checksum


def _move_over(entry: Path, folder: Path, tell: Notify) -> None:
    """Move a file that the replaced data set did not write, or that was edited, to the new data set."""
    kept = folder / entry.name
    is_taken = kept.exists() or kept.is_symlink()
    if is_taken:
        kept = free_name(kept.with_name(f"{kept.name}.before"))
    entry.rename(kept)
    if is_taken:
        tell(f"{entry.name}: differs from what `nmt prepare-data` wrote; it is kept as {kept.name}.")
