"""``nmt prepare-data``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.cli.completion import built_in_pairs
from nmt.cli.options import Mirrors, Offline, option
from nmt.errors import ConfigError
from nmt.table import Table
from nmt.text.addresses import is_address, public_address

if TYPE_CHECKING:
    from nmt.corpora.schema import Recipe
    from nmt.corpora.user_corpora import UserText
    from nmt.data.manifest import Manifest


def prepare_data(
    dataset: Annotated[
        str | None,
        typer.Argument(
            metavar="DATASET",
            help="Built-in name (see --list), recipe NAME.yaml, or your own name.",
            autocompletion=built_in_pairs,
        ),
    ] = None,
    out: Annotated[Path | None, option("Folder of the data set.  [data/NAME]", "-o", "--out", metavar="PATH")] = None,
    cache: Annotated[Path | None, option("Where downloads are kept.  [~/.cache/nmt]", metavar="PATH")] = None,
    mirror: Mirrors = None,
    offline: Offline = False,
    workers: Annotated[int | None, option("Processes for cleaning.  [all cores]", metavar="N", min=1)] = None,
    force: Annotated[bool, option("Prepare again; replace edited text or another data set.", "--force")] = False,
    source_lang: Annotated[str | None, option("Source language of your own text, such as en.", metavar="LANG")] = None,
    target_lang: Annotated[str | None, option("Target language of your own text, such as de.", metavar="LANG")] = None,
    train: Annotated[
        list[str] | None, option("Prefix, .tsv, .tmx, .zip, URL, folder, -; may be repeated.", metavar="TEXT")
    ] = None,
    valid: Annotated[list[str] | None, option("The same for validation.  [held out of train]", metavar="TEXT")] = None,
    test: Annotated[list[str] | None, option("The same for testing.  [held out of train]", metavar="TEXT")] = None,
    train_source: Annotated[
        list[str] | None, option("A source file, pipe or URL; may be repeated.", metavar="PATH")
    ] = None,
    train_target: Annotated[
        list[str] | None, option("Its target file, one per --train-source.", metavar="PATH")
    ] = None,
    valid_source: Annotated[list[str] | None, option("The same for validation.", metavar="PATH")] = None,
    valid_target: Annotated[list[str] | None, option("The same for validation.", metavar="PATH")] = None,
    test_source: Annotated[list[str] | None, option("The same for testing.", metavar="PATH")] = None,
    test_target: Annotated[list[str] | None, option("The same for testing.", metavar="PATH")] = None,
    columns: Annotated[
        str | None, option("Columns of tab-separated files: languages, score, - ignored.", metavar="NAME,...")
    ] = None,
    header: Annotated[bool, option("Tab-separated files begin with a line of names.", "--header")] = False,
    min_score: Annotated[float | None, option("Drop training pairs whose score is below X.", metavar="X")] = None,
    max_length: Annotated[
        int | None, option("Maximum words per side of training pairs; 0: no limit.  [250]", metavar="N", min=0)
    ] = None,
    max_ratio: Annotated[
        float | None, option("Maximum ratio of the sides' lengths; 0 for no limit.  [4]", metavar="X", min=0)
    ] = None,
    dedup: Annotated[
        bool | None, option("Drop repeated training pairs.  [the recipe's, mostly on]", "--dedup/--no-dedup")
    ] = None,
    filter_: Annotated[
        list[str] | None,
        option("Turn on a filter of training pairs; may be repeated.", "--filter", metavar="NAME[=VALUE]"),
    ] = None,
    show_dropped: Annotated[
        bool, option("Print examples of the pairs that each filter dropped.", "--show-dropped")
    ] = False,
    show_recipe: Annotated[bool, option("Print the recipe as YAML to copy and edit.", "--show-recipe")] = False,
    list_: Annotated[bool, option("Print the built-in data sets.", "--list")] = False,
) -> None:
    """Fetch parallel text, or take your own, clean it, and write a data set.

    A built-in pair may be named reversed, as in multi30k-de-en.

    Example: nmt prepare-data multi30k-en-de
    """
    from nmt.cli.console import notice, write_stdout
    from nmt.cli.progress_lines import progress_display
    from nmt.corpora.filters import filter_changes
    from nmt.corpora.prepare import prepare
    from nmt.corpora.recipe import (
        builtin_names,
        builtin_text,
        checksums,
        dump_recipe,
        load_recipe,
        own_recipe,
        with_filters,
    )

    if list_:
        for name in builtin_names():
            recipe = load_recipe(name)
            write_stdout(f"{name}\t{recipe.description}\t{checksums(recipe)}\n")
        return
    own: dict[str, list[UserText]] = {
        "train": [*(train or []), *_pairs("train", train_source, train_target)],
        "valid": [*(valid or []), *_pairs("valid", valid_source, valid_target)],
        "test": [*(test or []), *_pairs("test", test_source, test_target)],
    }
    if dataset is None and own["train"]:
        raise ConfigError(
            "your own text needs a name for its data set, which comes first. Example: nmt prepare-data mine-en-de "
            "--train corpus/europarl (the languages may also be given with --source-lang and --target-lang)."
        )
    if dataset is None:
        raise ConfigError(
            f"name a data set: {', '.join(builtin_names())}, a recipe file NAME.yaml, or your own text with --train."
        )
    if own["train"]:
        recipe = own_recipe(
            dataset,
            source_lang=source_lang,
            target_lang=target_lang,
            **own,
            columns=None if columns is None else [name.strip() for name in columns.split(",")],
            header=header,
            notify=notice,
        )
    else:
        _refuse_without_train(
            {
                "--source-lang": source_lang,
                "--target-lang": target_lang,
                "--valid": valid,
                "--valid-source": valid_source,
                "--test": test,
                "--test-source": test_source,
                "--columns": columns,
                "--header": header,
            }
        )
        recipe = load_recipe(dataset)
    changes = filter_changes(filter_ or [])
    options = {
        "max_length": None if max_length is None else {"max_length": max_length or None},
        "max_ratio": None if max_ratio is None else {"max_ratio": max_ratio or None},
        "dedup": None if dedup is None else {"dedup": dedup},
        "min_score": None if min_score is None else {"min_score": min_score},
    }
    for name, change in options.items():
        if change is not None and name in changes:
            raise ConfigError(f"the filter {name} is given twice: by --filter and by its own option. Give it once.")
        changes |= change or {}
    if changes:
        recipe = with_filters(recipe, changes)

    if show_recipe:
        verbatim = dataset in builtin_names() and not changes
        write_stdout(builtin_text(dataset) if verbatim else dump_recipe(recipe))
        return

    folder = out or Path("data") / recipe.name
    with progress_display() as display:
        prepared = prepare(
            recipe,
            folder,
            cache=cache,
            mirrors=mirror or [],
            offline=offline,
            workers=workers,
            force=force,
            progress=display("bytes"),
            pairs_progress=display("pairs"),
            notify=notice,
        )
    if prepared.changed:
        _tell(recipe, prepared.manifest)
    if show_dropped:
        _show_dropped(prepared.manifest)
    if prepared.changed:
        notice(f"written: {folder}")
    else:
        notice(f"{folder} is up to date: nothing to do (--force prepares it again)")


def _pairs(split: str, sources: list[str] | None, targets: list[str] | None) -> list[tuple[str, str]]:
    """The source and target files of a split."""
    sources, targets = sources or [], targets or []
    if len(sources) != len(targets):
        raise ConfigError(
            f"--{split}-source was given {_times(len(sources))} and --{split}-target {_times(len(targets))}: each "
            "source file needs its target file."
        )
    for source, target in zip(sources, targets, strict=True):
        if source == target:
            shown = public_address(source) if is_address(source) else source
            raise ConfigError(f"{shown}: was given as --{split}-source and as its --{split}-target.")
    return list(zip(sources, targets, strict=True))


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _refuse_without_train(options: dict[str, object]) -> None:
    given = [name for name, value in options.items() if value]
    if given:
        raise ConfigError(
            f"{', '.join(given)}: only for text of your own, which --train names. A built-in data set brings "
            "its languages and sets; to change them, edit a copy of its recipe (--show-recipe)."
        )


def _what_happened(name: str) -> str:
    """What happened to the pairs that a filter found, by the name of its count."""
    from nmt.corpora.filters import KEPT

    return f"kept, counted as {name.removesuffix(KEPT)}" if name.endswith(KEPT) else f"dropped as {name}"


def _tell(recipe: Recipe, manifest: Manifest) -> None:
    """What was read, dropped and written."""
    from nmt.cli.console import notice

    for line in str(_table(manifest)).splitlines():
        notice(line)
    for corpus in manifest.corpora:
        if corpus.skipped:
            notice(f"{corpus.split}: skipped {corpus.skipped:,} units of {corpus.name} without text in both languages")
    for name, count in manifest.filters.items():
        if count:
            notice(f"train: {_what_happened(name)}: {count:,}")
    if found := _statistics(manifest):
        for line in str(found).splitlines():
            notice(line)
    for split in ("train", "valid", "test"):
        notice(f"{split}: {manifest.files[f'{split}.{recipe.source_lang}'].lines:,} pairs")


def _table(manifest: Manifest) -> Table:
    """What was read of each corpus."""
    languages = manifest.source_lang, manifest.target_lang
    table = Table("", ["corpus", "pairs", *(f"{code} {count}" for count in ("words", "mean") for code in languages)])
    for corpus in manifest.corpora:
        words = corpus.source_words, corpus.target_words
        means = [f"{count / corpus.pairs:,.1f}" if corpus.pairs else "-" for count in words]
        table.add(f"{corpus.split}: {corpus.name}", f"{corpus.pairs:,}", *(f"{count:,}" for count in words), *means)
    return table


def _statistics(manifest: Manifest) -> Table | None:
    """The pairs that each filter found in each training corpus; None if there is one corpus, or nothing was found."""
    corpora = [corpus for corpus in manifest.corpora if corpus.split == "train"]
    if len(corpora) < 2 or not any(corpus.filters for corpus in corpora):
        return None
    table = Table("", ["corpus", "filter", "pairs", "share"])
    for corpus in corpora:
        for name, found in corpus.filters.items():
            table.add(f"train: {corpus.name}", name, f"{found.pairs:,}", f"{found.pairs / corpus.pairs:.2%}")
    return table


def _show_dropped(manifest: Manifest) -> None:
    """Print the samples of each filter and corpus."""
    from nmt.cli.console import notice

    for corpus in manifest.corpora:
        for name, found in corpus.filters.items():
            shown = f"first {len(found.samples)} of {found.pairs:,}" if len(found.samples) < found.pairs else "all"
            notice(f"{corpus.split}: {corpus.name}: {_what_happened(name)} ({shown}):")
            for source, target in found.samples:
                notice(f"  {manifest.source_lang}: {source}")
                notice(f"  {manifest.target_lang}: {target}")
