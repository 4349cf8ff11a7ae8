"""A file translated in parts, by several processes or machines: each writes its part, and the last one joins them.

The parts are ranges of lines of almost equal size. A part is an output of its own beside the whole one
(``OUT.03-of-16``), which resumes as any output does. Whoever finds all parts complete writes them to ``OUT`` in order.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.errors import ConfigError
from nmt.translation.resuming import OutputFile


@dataclass(frozen=True)
class Part:
    """One part of the lines of a file."""

    number: int
    """From 1."""
    count: int
    """The number of parts of the file."""

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @staticmethod
    def parsed(text: str) -> Part:
        """A part as the user writes it, such as ``3/16``.

        Raises:
            ConfigError: it is not the number of a part.
        """
        match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text, re.ASCII)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ConfigError(f"--part {text}: give the number of the part and the number of parts, for example 3/16.")
        return Part(int(match[1]), int(match[2]))

    def lines(self, total: int) -> range:
        """The indices of its lines among all lines of the file."""
        return range(total * (self.number - 1) // self.count, total * self.number // self.count)

    def output(self, whole: Path) -> Path:
        """The file that it is written to."""
        width = len(str(self.count))
        return whole.with_name(f"{whole.name}.{self.number:0{width}}-of-{self.count}")

    def record(self, whole: Mapping[str, Any]) -> dict[str, Any]:
        """What its output is made with, given that of the whole output."""
        return {**whole, "part": str(self)}


def joined(whole: OutputFile, made: Mapping[str, Any], count: int) -> list[int]:
    """Join the parts of an output, unless it is complete or parts are missing. Parts are removed when they are joined.

    Args:
        made: the result of :func:`nmt.translation.resuming.made_with`, for the whole output.
        count: the number of parts.

    Returns:
        The numbers of the parts that are missing.

    Raises:
        DataError: the whole output or a part was made with other models, inputs or settings, or changed since.
        WriteError: the output could not be written; the parts are left as they are.
    """
    parts = [Part(number, count) for number in range(1, count + 1)]
    outputs = [OutputFile(part.output(whole.path)) for part in parts]
    with whole.claimed(wait=True):
        if not whole.is_up_to_date(made):
            missing = [
                part.number
                for output, part in zip(outputs, parts, strict=True)
                if not output.is_complete(part.record(made))
            ]
            if missing:
                return missing
            with whole.growing(made) as stream:
                for output in outputs:
                    with output.path.open("rb") as lines:
                        shutil.copyfileobj(lines, stream)
        for output, part in zip(outputs, parts, strict=True):
            if output.is_complete(part.record(made)):
                output.remove()
    return []
