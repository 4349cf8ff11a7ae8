"""Records of outputs and of averages, as commands write them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nmt.record import Record, option_words, text_record


def made(*, input: str | None = "abc", **options: object) -> Record:
    """The record of a translation.

    Args:
        input: the sha256 of its input; None for a pipe.
    """
    return Record(
        kind="translation",
        path="out",
        command=("translate", "--input=in", *option_words({"beam": 4, **options}), "--output=out"),
        made_from=(text_record("text", "in", input, role="input"),),
    )


def average_notes(checkpoints: Iterable[str | Path]) -> dict[str, Any]:
    """The notes of an average of checkpoints."""
    parts = tuple(Record(kind="checkpoint", path=str(path)) for path in checkpoints)
    return {"record": Record(kind="average", path="average", made_from=parts).stored()}
