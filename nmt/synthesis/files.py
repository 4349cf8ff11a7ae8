"""The files between a text and its pairs with their translations: each is made of those before it.

They lie in a folder beside the data set until that is complete, so that whatever interrupts the work, the same command
resumes.
"""

from __future__ import annotations

import itertools
import json
import math
from array import array
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from nmt.errors import DataError
from nmt.evaluation.metrics import make_metric, sentence_scores
from nmt.record import Record, read_stored
from nmt.text.lines import InvalidUtf8, encode_line, read_lines
from nmt.translation.line_numbers import LineNumbers
from nmt.translation.resuming import OutputFile


@dataclass(frozen=True)
class SynthesisFiles:
    """Their names."""

    folder: Path
    language: str
    """Of the translations."""

    @property
    def translation(self) -> Path:
        return self.folder / f"translation.{self.language}"

    @property
    def chosen(self) -> Path:
        return self.folder / f"chosen.{self.language}"

    @property
    def scores(self) -> Path:
        return self.folder / "scores"

    @property
    def answers(self) -> Path:
        """The answers of a teacher, which stay: a change of what is kept of them asks for nothing again."""
        return self.folder.with_suffix(".answers")

    @property
    def pairs(self) -> Path:
        return self.folder / "pairs.tsv"

    @classmethod
    def beside(cls, data_set: Path, language: str) -> SynthesisFiles:
        return cls(data_set.with_name(f"{data_set.name}.synthesis"), language)

    @contextmanager
    def made(self) -> Iterator[None]:
        """Make the folder; it does not stay if it is empty in the end."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            yield
        finally:
            if not any(self.folder.iterdir()):
                self.folder.rmdir()

    def remove(self) -> None:
        """Remove the files that are ours."""
        for output in map(OutputFile, (self.translation, self.chosen, self.scores, self.pairs)):
            if any(map(read_stored, (output.record, output.partial_record))):
                for each in output.names:
                    each.unlink(missing_ok=True)


def write_derived(path: Path, made: Record, lines: Iterable[str]) -> None:
    """Write lines that are made of other files in a moment: an earlier file of ours is replaced."""
    output = OutputFile(path)
    with ExitStack() as stack:
        stack.enter_context(output.claimed())
        path.unlink(missing_ok=True)
        stream, _ = stack.enter_context(output.growing(made.model_copy(update={"path": str(path)})))
        stream.writelines(map(encode_line, lines))


def nearest(candidates: Path, reference: Path, number: int, invalid: InvalidUtf8) -> Iterator[str]:
    """Of the candidates for each line, the one with the highest sentence chrF; of equals, the model's best."""
    chrf, lines = make_metric("chrf"), read_lines(candidates)
    for expected in read_lines(reference, invalid=invalid):
        texts = list(itertools.islice(lines, number))
        nearness = sentence_scores(chrf, texts, [[expected] * number]).values
        yield texts[nearness.index(max(nearness))]


def accepted(answers: Path, dropped: dict[str, LineNumbers]) -> Iterator[str]:
    """The translations among a teacher's answers, and a blank line for each other one.

    Args:
        answers: in the format jsonl.
        dropped: gets the lines without a translation, by the reason.
    """
    for line in read_lines(answers):
        answer = json.loads(line)
        problems = answer["guard"]["problems"] if answer["guard"] else []
        for problem in problems:
            dropped.setdefault(problem, LineNumbers()).add(answer["line"])
        yield "" if problems else answer["translation"]


def paired(
    mono: Path, translation: Path, scores: Path | None, invalid: InvalidUtf8, *, forward: bool, drops: bool
) -> Iterator[str]:
    """The lines of a table: source, target, and the score per piece if there are scores.

    Args:
        drops: leave out lines without a translation.
    """
    columns = [read_lines(mono, invalid=invalid), read_lines(translation)]
    if not forward:
        columns.reverse()
    if scores is not None:
        columns.append(line.partition("\t")[0] for line in read_lines(scores))
    for cells in zip(*columns, strict=True):
        if drops and not all(cells[:2]):
            continue
        yield "\t".join(cell.replace("\t", " ") for cell in cells)


def minimum_score(pairs: Path, keep: float) -> float:
    """The score that a share of the pairs reaches. Pairs without text on a side, which cleaning drops, do not count.

    Raises:
        DataError: no pair has a score: all are too long for the model.
    """
    rows = (line.split("\t") for line in read_lines(pairs))
    scores = array("d", (float(score) for source, target, score in rows if source.strip() and target.strip()))
    finite = sorted(filter(math.isfinite, scores), reverse=True)
    if not finite:
        raise DataError(f"{pairs}: the model can score none of the pairs. Leave out --keep, or use another model.")
    return finite[min(len(finite), math.ceil(keep * len(scores))) - 1]
