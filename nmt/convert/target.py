"""A format that models can be exported to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nmt.checkpoint.bundle import Bundle
from nmt.convert.certificate.record import Check
from nmt.convert.certificate.side import Side


@dataclass(frozen=True)
class Target:
    """A format that models can be exported to."""

    name: str
    """On the command line."""
    toolkit: str
    holds: tuple[str, ...]
    """Patterns for the names of all files in an exported folder, beside the card, the lineage and the certificate."""
    quantizations: tuple[str, ...]
    """The first is the default, without loss."""
    write: Callable[[Bundle, Path, str], None]
    """Writes a bundle's model into a folder; it raises NmtError where the format cannot express the model."""
    sides: Callable[[Path, Bundle], list[Side]]
    """Opens an exported folder as one or more sides, with the format's own software where it is installed."""
    check_files: Callable[[Path, Bundle, str], list[Check]]
    """Checks what the exported files hold, by reading them again."""
    usage: Callable[[Bundle, str], str]
    """Given a bundle and the name of its exported folder, the lines of code that translate with it, for its README."""
    remarks: Callable[[Bundle], Mapping[str, str]]
    """Known differences that the format forces on a model: setting -> what becomes of it."""
    package: str
    """The package of the format's own software."""
