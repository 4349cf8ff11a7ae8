"""``nmt prepare-data``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.cli.console import notice, write_stdout
from nmt.cli.options import Mirrors, Offline, option, yaml_names
from nmt.cli.progress_lines import CONSOLE
from nmt.option_fields import CLEANING, DOWNLOADS, FORMAT, HARDWARE, OWN_TEXT, STREAMS

if TYPE_CHECKING:
    from nmt.data.manifest import Manifest


def prepare_data(
    dataset: Annotated[
        str | None,
        typer.Argument(
            metavar="DATASET",
            help="Built-in name (see --list), recipe NAME.yaml, or your own name.",
            autocompletion=yaml_names("corpora/recipes"),
        ),
    ] = None,
    out: Annotated[Path | None, option("Folder of the data set.  [data/NAME]", "-o", "--out", group=STREAMS)] = None,
    cache: Annotated[Path | None, option("Where downloads are kept.  [~/.cache/nmt]", group=DOWNLOADS)] = None,
    mirror: Mirrors = None,
    offline: Offline = False,
    jobs: Annotated[int | None, option("Processes for cleaning.  [one per core]", min=1, group=HARDWARE)] = None,
    force: Annotated[bool, option("Replace the data set even if it was edited or runs use it.", group=STREAMS)] = False,
    source_lang: Annotated[
        str | None, option("Source language, such as en.  [of the name]", metavar="LANG", group=OWN_TEXT)
    ] = None,
    target_lang: Annotated[
        str | None, option("Target language, such as de.  [of the name]", metavar="LANG", group=OWN_TEXT)
    ] = None,
    train: Annotated[
        list[str] | None,
        option(
            "Training text: two files or their prefix; a .tsv, .tmx or .zip; a URL; a folder; or -. May be repeated.",
            metavar="TEXT",
            group=OWN_TEXT,
        ),
    ] = None,
    valid: Annotated[
        list[str] | None, option("Text for validation, likewise.  [held out of train]", metavar="TEXT", group=OWN_TEXT)
    ] = None,
    test: Annotated[
        list[str] | None, option("Text for testing, likewise.  [held out of train]", metavar="TEXT", group=OWN_TEXT)
    ] = None,
    columns: Annotated[
        str | None,
        option(
            "Columns of tab-separated files: the two languages, score, and - for one to ignore.",
            metavar="NAME,...",
            group=OWN_TEXT,
        ),
    ] = None,
    header: Annotated[bool, option("Tab-separated files begin with a line of names.", group=OWN_TEXT)] = False,
    max_words: Annotated[
        int | None, option("Maximum words per side of training pairs; 0: no limit.  [250]", min=0, group=CLEANING)
    ] = None,
    max_ratio: Annotated[
        float | None, option("Maximum ratio of the sides' lengths; 0: no limit.  [4]", min=0, group=CLEANING)
    ] = None,
    dedup: Annotated[
        bool | None,
        option("Drop repeated training pairs.  [the recipe's, mostly on]", "--dedup/--no-dedup", group=CLEANING),
    ] = None,
    filter: Annotated[
        list[str] | None,
        option("Turn on a filter of training pairs; may be repeated.", metavar="NAME[=VALUE]", group=CLEANING),
    ] = None,
    apart_from: Annotated[
        list[Path] | None,
        option(
            "Drop training pairs with a sentence of valid or test of another data set; may be repeated.",
            metavar="DIR",
            group=CLEANING,
        ),
    ] = None,
    show_dropped: Annotated[
        bool, option("Print examples of the pairs that each filter dropped.", group=CLEANING)
    ] = False,
    show_recipe: Annotated[bool, option("Print the recipe as YAML to copy and edit.", group=FORMAT)] = False,
    list_: Annotated[bool, option("Print the built-in data sets.", "--list", group=FORMAT)] = False,
) -> None:
    """Fetch parallel text, or take your own, clean it, and write a data set.

    A built-in pair may be named reversed, as in multi30k-de-en.

    Example: nmt prepare-data multi30k-en-de
    """
    given = dict(locals())
    del given["list_"], given["show_dropped"]
    from nmt.api.data import prepare_data

    if list_:
        _list_built_in()
        return
    prepared = prepare_data(**given, report=CONSOLE)
    if prepared.manifest is None:
        from nmt.corpora.recipe import recipe_text

        write_stdout(recipe_text(prepared.recipe))
    else:
        _report(prepared.folder, prepared.manifest, changed=prepared.changed, show_dropped=show_dropped)


def _list_built_in() -> None:
    from nmt.corpora.recipe import builtin_names, checksums, load_recipe

    for name in builtin_names():
        recipe = load_recipe(name)
        write_stdout(f"{name}\t{recipe.description}\t{checksums(recipe)}\n")


def _report(folder: Path, manifest: Manifest, *, changed: bool, show_dropped: bool) -> None:
    from nmt.corpora.summary import dropped_lines, summary_lines

    for line in summary_lines(manifest) if changed else ():
        notice(line)
    for line in dropped_lines(manifest) if show_dropped else ():
        notice(line)
    notice(f"written: {folder}" if changed else f"{folder} is up to date: nothing to do (--force prepares it again)")
