"""``nmt prepare-data``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nmt.cli.console import notice, write_stdout
from nmt.cli.options import Mirrors, Offline, option, yaml_names
from nmt.cli.progress_lines import progress_display
from nmt.errors import ConfigError

if TYPE_CHECKING:
    from nmt.corpora.schema import Recipe


def prepare_data(
    dataset: Annotated[
        str | None,
        typer.Argument(
            metavar="DATASET",
            help="Built-in name (see --list), recipe NAME.yaml, or your own name.",
            autocompletion=yaml_names("corpora/recipes"),
        ),
    ] = None,
    out: Annotated[Path | None, option("Folder of the data set.  [data/NAME]", "-o", "--out")] = None,
    cache: Annotated[Path | None, option("Where downloads are kept.  [~/.cache/nmt]")] = None,
    mirror: Mirrors = None,
    offline: Offline = False,
    workers: Annotated[int | None, option("Processes for cleaning.  [all cores]", min=1)] = None,
    force: Annotated[bool, option("Replace data, even if edited, other, or used by runs.")] = False,
    source_lang: Annotated[str | None, option("Source language of your own text, such as en.", metavar="LANG")] = None,
    target_lang: Annotated[str | None, option("Target language of your own text, such as de.", metavar="LANG")] = None,
    train: Annotated[
        list[str] | None, option("Prefix, two files, .tsv, .tmx, .zip, URL, folder, -; repeatable.", metavar="TEXT")
    ] = None,
    valid: Annotated[list[str] | None, option("The same for validation.  [held out of train]", metavar="TEXT")] = None,
    test: Annotated[list[str] | None, option("The same for testing.  [held out of train]", metavar="TEXT")] = None,
    columns: Annotated[
        str | None, option("Columns of tab-separated files: languages, score, - ignored.", metavar="NAME,...")
    ] = None,
    header: Annotated[bool, option("Tab-separated files begin with a line of names.")] = False,
    max_length: Annotated[
        int | None, option("Maximum words per side of training pairs; 0: no limit.  [250]", min=0)
    ] = None,
    max_ratio: Annotated[
        float | None, option("Maximum ratio of the sides' lengths; 0 for no limit.  [4]", min=0)
    ] = None,
    dedup: Annotated[
        bool | None, option("Drop repeated training pairs.  [the recipe's, mostly on]", "--dedup/--no-dedup")
    ] = None,
    filter_: Annotated[
        list[str] | None,
        option("Turn on a filter of training pairs; may be repeated.", "--filter", metavar="NAME[=VALUE]"),
    ] = None,
    show_dropped: Annotated[bool, option("Print examples of the pairs that each filter dropped.")] = False,
    show_recipe: Annotated[bool, option("Print the recipe as YAML to copy and edit.")] = False,
    list_: Annotated[bool, option("Print the built-in data sets.", "--list")] = False,
) -> None:
    """Fetch parallel text, or take your own, clean it, and write a data set.

    A built-in pair may be named reversed, as in multi30k-de-en.

    Example: nmt prepare-data multi30k-en-de
    """
    from nmt.corpora.recipe import builtin_names, builtin_text, dump_recipe, with_filters

    if list_:
        _list_built_in()
        return
    own = {"train": train or [], "valid": valid or [], "test": test or []}
    languages = {"--source-lang": source_lang, "--target-lang": target_lang}
    sets = {"--valid": valid, "--test": test}
    recipe = _recipe(dataset, own, languages | sets | {"--columns": columns, "--header": header})
    own_options = {"max_length": max_length, "max_ratio": max_ratio, "dedup": dedup}
    changes = _filter_changes(filter_ or [], own_options)
    recipe = with_filters(recipe, changes) if changes else recipe
    if show_recipe:
        is_built_in = recipe.name in builtin_names() and recipe.name == dataset
        write_stdout(builtin_text(recipe.name) if is_built_in and not changes else dump_recipe(recipe))
        return
    how = {"cache": cache, "mirrors": mirror or [], "offline": offline, "workers": workers, "force": force}
    _prepare(recipe, out or Path("data") / recipe.name, show_dropped=show_dropped, **how)


def _list_built_in() -> None:
    from nmt.corpora.recipe import builtin_names, checksums, load_recipe

    for name in builtin_names():
        recipe = load_recipe(name)
        write_stdout(f"{name}\t{recipe.description}\t{checksums(recipe)}\n")


def _recipe(dataset: str | None, own: dict[str, list[str]], given: Mapping[str, Any]) -> Recipe:
    """The recipe of a built-in data set, of a file, or of text of the user's own.

    Args:
        own: the user's own texts, by split.
        given: further options, which only go with such texts.
    """
    from nmt.corpora.recipe import builtin_names, load_recipe, own_recipe

    if dataset is None:
        raise ConfigError(
            "your own text needs a name for its data set, which comes first. Example: nmt prepare-data mine-en-de "
            "--train corpus/europarl (the languages may also be given with --source-lang and --target-lang)."
            if own["train"]
            else f"name a data set: {', '.join(builtin_names())}, a recipe file NAME.yaml, or your own text with "
            "--train."
        )
    if not own["train"]:
        if without := [name for name, value in given.items() if value]:
            raise ConfigError(
                f"{', '.join(without)}: only for text of your own, which --train names. A built-in data set brings "
                "its languages and sets; to change them, edit a copy of its recipe (--show-recipe)."
            )
        return load_recipe(dataset)
    columns = given["--columns"]
    return own_recipe(
        dataset,
        source_lang=given["--source-lang"],
        target_lang=given["--target-lang"],
        **own,
        columns=None if columns is None else [name.strip() for name in columns.split(",")],
        header=given["--header"],
        notify=notice,
    )


def _filter_changes(filters: list[str], own_options: Mapping[str, float | None]) -> dict[str, Any]:
    """The filters that are set by ``--filter`` or by options of their own, of which 0 stands for no limit."""
    from nmt.corpora.filters import filter_changes

    changes = filter_changes(filters)
    for name, value in own_options.items():
        if value is None:
            continue
        if name in changes:
            raise ConfigError(f"the filter {name} is given twice: by --filter and by its own option. Give it once.")
        changes[name] = value or None if name in ("max_length", "max_ratio") else value
    return changes


def _prepare(recipe: Recipe, folder: Path, *, show_dropped: bool, **how: Any) -> None:
    from nmt.corpora.prepare import prepare
    from nmt.corpora.summary import dropped_lines, summary_lines

    with progress_display() as display:
        of_bytes, of_pairs = display("bytes"), display("pairs")
        prepared = prepare(recipe, folder, progress=of_bytes, pairs_progress=of_pairs, notify=notice, **how)
    for line in summary_lines(prepared.manifest) if prepared.changed else ():
        notice(line)
    for line in dropped_lines(prepared.manifest) if show_dropped else ():
        notice(line)
    if prepared.changed:
        notice(f"written: {folder}")
    else:
        notice(f"{folder} is up to date: nothing to do (--force prepares it again)")
