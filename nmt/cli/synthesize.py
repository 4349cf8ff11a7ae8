"""``nmt synthesize``."""

from __future__ import annotations

from typing import Any

from nmt.api import synthesizing
from nmt.cli.options import command
from nmt.cli.prepare_data import report_prepared
from nmt.cli.progress_lines import CONSOLE
from nmt.translation.options import SearchOptions, TranslateOptions


@command(
    synthesizing.synthesize,
    TranslateOptions,
    only=tuple(SearchOptions.__annotations__),
    meaning={"nbest": "Candidates that --reference chooses from.  [--beam, or 8]"},
)
def synthesize(given: dict[str, Any]) -> None:
    """The same command resumes. By default it is a back-translation: the text is real target text.

    Example: nmt synthesize bt-en-de --mono mono.de -m runs/de-en --valid data/en-de/valid --test data/en-de/test
    """
    prepared = synthesizing.synthesize(**given, report=CONSOLE)
    assert prepared.manifest is not None
    report_prepared(prepared, prepared.manifest)
