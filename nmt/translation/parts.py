"""A file translated in parts, by several processes or machines.

The parts are ranges of lines of almost equal size. Each process writes its part to an output of its own beside the
whole one (``OUT.03-of-16``), which resumes as any output does. The process that finishes last joins them to ``OUT``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from nmt.errors import ConfigError
from nmt.record import Record
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
        match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text, re.ASCII)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ConfigError(
                f"--part {text}: give K/N: the part, from 1 to N, and the number of parts (at most 9999)."
            )
        return Part(int(match[1]), int(match[2]))

    @staticmethod
    def all(count: int) -> list[Part]:
        """All parts, in order."""
        return [Part(number, count) for number in range(1, count + 1)]

    def lines(self, total: int) -> range:
        """The indices of its lines among all lines of the file."""
        return range(total * (self.number - 1) // self.count, total * self.number // self.count)

    def output_file(self, whole: Path) -> OutputFile:
        """The file that it is written to."""
        width = len(str(self.count))
        return OutputFile(whole.with_name(f"{whole.name}.{self.number:0{width}}-of-{self.count}"), is_part=True)

    def record(self, whole: Record) -> Record:
        """The record of its output, given that of the whole output."""
        return whole.model_copy(update={"command": (*whole.command, f"--part={self}")})


def refuse_different_parts(whole: OutputFile, made: Record, count: int) -> None:
    """Refuse parts that could not be joined, before another one is translated.

    Args:
        made: the result of :func:`nmt.translation.lineage.translation_record`, for the whole output.
        count: the number of parts.

    Raises:
        DataError: a part that is there was made with other models, inputs or settings.
    """
    for part in Part.all(count):
        part.output_file(whole.path).refuse_different(part.record(made))


def join_parts(whole: OutputFile, made: Record, count: int) -> list[int]:
    """Join the parts of an output, unless it is complete or parts are missing. Parts are removed when they are joined.

    Args:
        made: the result of :func:`nmt.translation.lineage.translation_record`, for the whole output.
        count: the number of parts.

    Returns:
        The numbers of the parts that are missing.

    Raises:
        DataError: the whole output or a part was made with other models, inputs or settings, or was changed since.
        WriteError: the output could not be written; the parts are left as they are.
    """
    parts = Part.all(count)
    outputs = [part.output_file(whole.path) for part in parts]
    missing = [part.number for part, output in zip(parts, outputs, strict=True) if not output.path.exists()]
    if missing and not whole.path.exists():
        return missing
    with whole.claimed(wait=True):  # by another process that joins
        if not whole.is_up_to_date(made):
            if missing:
                return missing
            whole.join([(output, part.record(made)) for output, part in zip(outputs, parts, strict=True)], made)
        for output, part in zip(outputs, parts, strict=True):
            output.remove(part.record(made))
    return []
