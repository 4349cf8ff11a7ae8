"""What a user says of a model beside its path, because its files do not tell."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Given:
    """Options of an import; None where the files tell."""

    source_spm: Path | None = None
    target_spm: Path | None = None
    source_lang: str | None = None
    target_lang: str | None = None


NOTHING_GIVEN = Given()
