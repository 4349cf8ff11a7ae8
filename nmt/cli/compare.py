"""``nmt compare``."""

from __future__ import annotations

from typing import Annotated, Any

from nmt.api import comparing
from nmt.cli.console import write_stdout
from nmt.cli.options import JSON, command
from nmt.cli.progress_lines import CONSOLE
from nmt.errors import ConfigError


@command(comparing.compare)
def compare(given: dict[str, Any], as_json: Annotated[bool, JSON] = False) -> None:
    """Shows scores with the significance of their difference, BLEU by sentence length, rare and frequent words,
    numbers, names, lengths, n-grams, and the sentences that changed most.

    Example: nmt compare base.de new.de --reference test.de --source test.en --out comparison.html
    """
    from nmt.reports.comparison_text import comparison_json, comparison_text

    if as_json and given["out"] is not None:
        raise ConfigError(f"--json prints, and --out {given['out']} writes: give one.")
    compared = comparing.compare(**given, report=CONSOLE)
    if given["out"] is None:
        write_stdout((comparison_json if as_json else comparison_text)(compared.found, compared.files))
