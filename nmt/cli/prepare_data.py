"""``nmt prepare-data``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from nmt.api import data
from nmt.cli.console import notice, write_stdout
from nmt.cli.options import command
from nmt.cli.progress_lines import CONSOLE
from nmt.option_fields import CLEANING, FORMAT, Option

if TYPE_CHECKING:
    from nmt.data.manifest import Manifest


@command(data.prepare_data)
def prepare_data(
    given: dict[str, Any],
    show_dropped: Annotated[bool, Option("Print examples of the pairs that each filter dropped.", CLEANING)] = False,
    list_: Annotated[bool, Option("Print the built-in data sets.", FORMAT, word="list")] = False,
) -> None:
    """A built-in pair may be named reversed, as in multi30k-de-en.

    Example: nmt prepare-data multi30k-en-de
    """
    if list_:
        _list_built_in()
        return
    prepared = data.prepare_data(**given, report=CONSOLE)
    if prepared.manifest is None:
        from nmt.corpora.recipe import recipe_text

        write_stdout(recipe_text(prepared.recipe))
    else:
        report_prepared(prepared, prepared.manifest, show_dropped=show_dropped)


def _list_built_in() -> None:
    from nmt.corpora.recipe import builtin_names, checksums, load_recipe

    for name in builtin_names():
        recipe = load_recipe(name)
        write_stdout(f"{name}\t{recipe.description}\t{checksums(recipe)}\n")


def report_prepared(prepared: data.PreparedData, manifest: Manifest, *, show_dropped: bool = False) -> None:
    """Print what a data set holds, or that it is up to date."""
    from nmt.corpora.summary import dropped_lines, summary_lines

    folder = prepared.folder
    for line in summary_lines(manifest) if prepared.changed else ():
        notice(line)
    for line in dropped_lines(manifest) if show_dropped else ():
        notice(line)
    ours = f"{folder} is up to date: nothing to do (--force makes it again)"
    notice(f"written: {folder}" if prepared.changed else ours)
