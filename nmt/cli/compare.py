"""``nmt compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.console import write_stdout
from nmt.cli.options import option
from nmt.cli.progress_lines import CONSOLE
from nmt.errors import ConfigError
from nmt.evaluation.metrics import WordTokenizerName
from nmt.option_fields import SCORES, STREAMS


def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="Translations of system A; - is standard input.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Translations of system B; - is standard input.")],
    reference: Annotated[Path, option("Reference translations, one per line.", "-r", "--reference", group=STREAMS)],
    source: Annotated[Path | None, option("Source text: adds names and copied words.", group=STREAMS)] = None,
    data: Annotated[Path | None, option("Data set to count words in.  [the references]", group=STREAMS)] = None,
    out: Annotated[Path | None, option("Write a page instead of printing.", "-o", "--out", group=STREAMS)] = None,
    as_json: Annotated[bool, option("Print JSON.", "--json", group=STREAMS)] = False,
    samples: Annotated[int, option("Sentences shown for each system.  [5]", min=0, group=SCORES)] = 5,
    target_lang: Annotated[
        str | None,
        option("Language of the translations.  [reference's name, or data set]", metavar="LANG", group=SCORES),
    ] = None,
    tokenize: Annotated[
        WordTokenizerName | None, option("Tokeniser, as sacreBLEU names it.  [by the language]", group=SCORES)
    ] = None,
) -> None:
    """Compare the translations of two systems: where do they differ, and in what?

    Shows scores with the significance of their difference, BLEU by sentence length, rare and frequent words, numbers,
    names, lengths, n-grams, and the sentences that changed most.

    Example: nmt compare base.de new.de --reference test.de --source test.en --out comparison.html
    """
    given = dict(locals())
    del given["as_json"]
    from nmt.api.comparing import compare
    from nmt.reports.comparison_text import comparison_json, comparison_text

    if as_json and out is not None:
        raise ConfigError(f"--json prints, and --out {out} writes: give one.")
    compared = compare(**given, report=CONSOLE)
    if out is None:
        write_stdout((comparison_json if as_json else comparison_text)(compared.found, compared.files))
