"""The pipeline from a recipe to parallel text and its manifest.

Everything is written to a temporary folder beside the data set's, which is renamed once it is complete. So a reader
sees the old data set or the new one, never a mixture.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from nmt.checkpoint.run_folder import refuse_while_used
from nmt.corpora.download import Fetcher, Notify
from nmt.corpora.filters import chosen_filters
from nmt.corpora.sample_check import doubts_about_names
from nmt.corpora.schema import Recipe
from nmt.corpora.sources import Sources
from nmt.corpora.splits import write_text
from nmt.corpora.transfer import Progress
from nmt.data.data_set import DATA_SET, carry_over, check_nothing_is_lost
from nmt.data.manifest import Manifest, data_set_inputs, known_manifest, recorded, write_manifest
from nmt.errors import ConfigError, DataError, OutputError
from nmt.io.files import LockedFolder, replacing_locked
from nmt.io.ownership import check_replaceable
from nmt.machine.cores import usable_cores
from nmt.reporting import warn


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

    An existing data set is left as it is if the same recipe made it from the same files. Otherwise it is replaced. Its
    vocabulary and shards move to the new one if they were made from the same text, and so does a vocabulary that was
    given. A folder that holds other files, or text that was edited, is not replaced.

    Args:
        recipe: where the text comes from and what is done to it.
        out: the data set's folder.
        cache: where downloads are kept; see :func:`nmt.machine.cache_folder.default_cache`.
        mirrors: folders or URLs that hold the downloads by their base names, tried first. User information and
            queries of addresses are not recorded.
        offline: do not use the network.
        workers: cleaning processes; one per core if unset.
        force: make the data set even if it is up to date, its text was edited, runs were trained on it, or the folder
            holds another data set.
        progress: called for every downloaded block.
        pairs_progress: called with the number of pairs read, and their total if known.
        notify: called with notices: what a user should know but need not act upon.

    Raises:
        ConfigError: the data set is to be kept apart from itself.
        DownloadError: a file could not be fetched, or is damaged.
        DataError: the text cannot be used.
        OutputError: the folder holds something other than a data set, or one of another name or other languages, or
            files that would be lost; or a run trains on it, was trained on it, or another process prepares it.
        WriteError: the system refused to write; the existing data set is unchanged.
    """
    refuse_other(out, recipe, force=force)
    tell = notify or (lambda notice: None)
    with LockedFolder.lock(out, DATA_SET, wait=False) as locked, locked.scratch() as scratch:
        refuse_other(out, recipe, force=force)  # again, now that nobody else writes it
        if out.resolve() in [Path(each).resolve() for each in recipe.apart_from]:
            raise ConfigError(f"{out}: cannot be kept apart from itself. Name other data sets with --apart-from.")
        sources = Sources(recipe, scratch)
        inputs = data_set_inputs(recipe.record(), sources.take_own())
        _check_names(inputs)
        standing = known_manifest(out)
        fetcher = Fetcher(cache, mirrors, offline, progress=progress or (lambda what, done, total: None), notify=tell)
        if sources.depends_on_a_query:  # Queries are not recorded, so the files are compared.
            sources.fetch(fetcher)
        same = standing is not None and _has_inputs(standing, inputs, sources)
        if not force and standing is not None and same and standing.made.is_current(out, inputs):
            return Prepared(standing, out, changed=False)
        replaced: Literal["text"] | None = None if force or same else "text"
        with replacing_locked([locked]) as [folder]:
            check_nothing_is_lost(out, force=force)
            refuse_while_used(out, replaced)
            for each in chosen_filters(recipe.filters):  # An error if a package is missing, before anything is fetched.
                each.filter.predicate(each.value, (recipe.source_lang, recipe.target_lang))
            for doubt in doubts_about_names(recipe):
                warn(doubt)
            sources.fetch(fetcher)
            manifest = write_text(
                sources,
                folder,
                scratch=scratch,
                workers=workers or usable_cores(),
                progress=pairs_progress or (lambda description, done, total: None),
                notify=tell,
            )
            sources.check_unchanged()
            write_manifest(manifest, folder)
            notices = carry_over(out, folder, manifest)
            check_nothing_is_lost(out, force=force)  # again, after what may have been hours
            refuse_while_used(out, replaced)
    for notice in notices:
        tell(notice)
    return Prepared(manifest, out, changed=True)


def _check_names(inputs: Mapping[str, Any]) -> None:
    """Refuse paths that the manifest cannot hold.

    Raises:
        DataError: one has bytes that are not UTF-8, as names out of old archives have.
    """
    text = json.dumps(inputs, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        path = text[text.rindex('"', 0, error.start) + 1 : text.index('"', error.start)]
        raise DataError(f"{path}: has bytes in its name that are not UTF-8. Rename it.") from None


def _has_inputs(standing: Manifest, inputs: Mapping[str, Any], sources: Sources) -> bool:
    return all(record in standing.sources for record in sources.fetched) and standing.made.inputs == inputs


def refuse_other(out: Path, recipe: Recipe, *, force: bool = False) -> None:
    """Refuse a folder that holds something other than a data set, or one of another name or other languages.

    Args:
        force: another data set may be replaced.

    Raises:
        OutputError: the folder holds such a thing.
    """
    check_replaceable(out, DATA_SET, in_place=True)
    found = None if force else recorded(out)
    if found is None:
        return
    name, source_lang, target_lang, _ = found
    if (name, source_lang, target_lang) != (recipe.name, recipe.source_lang, recipe.target_lang):
        raise OutputError(
            f"{out}: holds the data set {name} from {source_lang} to {target_lang}, not {recipe.name} from "
            f"{recipe.source_lang} to {recipe.target_lang}. Name another folder with --out, "
            "or add --force to replace the data set with its vocabulary and shards."
        )
