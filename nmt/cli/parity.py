"""What ``nmt import`` and ``nmt export`` share: text to compare models on, and the table of comparisons."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nmt.convert.certificate.record import Certificate

_MAX_LINES = 200


def lines_to_check(path: Path | None) -> list[str]:
    """The first lines of a text to compare models on; none if there is no text."""
    from nmt.text import read_lines

    return [] if path is None else list(itertools.islice(read_lines(path), _MAX_LINES))


def print_certificate(certificate: Certificate) -> None:
    """Print each check and its result on standard error."""
    from nmt.cli.console import notice

    oracle = None
    for check in certificate.checks:
        if check.oracle != oracle:
            oracle = check.oracle
            notice(f"compared with {oracle}:")
        notice(f"  {check.name}: {check.detail}")
