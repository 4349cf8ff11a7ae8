"""The option, the text and the report of comparisons, for ``nmt import`` and ``nmt export``."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from nmt.cli.console import notice, warn
from nmt.cli.options import option
from nmt.option_fields import STREAMS
from nmt.text.lines import read_lines

if TYPE_CHECKING:
    from nmt.convert.certificate.record import Certificate

_MAX_LINES = 200

CheckText = Annotated[
    Path | None, option("Source text to compare both models on (first 200 lines).", metavar="PATH", group=STREAMS)
]


def lines_to_check(path: Path | None) -> list[str]:
    """The first lines of a text to compare models on; none if there is no text."""
    return [] if path is None else list(itertools.islice(read_lines(path), _MAX_LINES))


def print_certificate(certificate: Certificate, out: Path) -> None:
    """Print each check, each remark and the path that was written on standard error."""
    oracle = None
    for check in certificate.checks:
        if check.oracle != oracle:
            oracle = check.oracle
            notice(f"compared with {oracle}:")
        notice(f"  {check.name}: {check.detail}")
    for remark in certificate.remarks:
        warn(remark)
    notice(f"written: {out}")
