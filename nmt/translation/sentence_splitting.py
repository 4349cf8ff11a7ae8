"""Splits lines into sentences, for lines that differ from the model's training lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nmt.config.data import LineStatistics
from nmt.text.sentences import copied_ends, sentences
from nmt.translation.long_lines import Measure, split
from nmt.translation.options import SplitSentences

# A line with more sentences than 99% of the training lines is split, unless it is shorter than 99% of them and many
# training lines (more than 1,000, and more than 0.1%) have at least as many sentences.
_UNUSUAL_SHARE, _RARE_SHARE, _RARE_LINES = 0.01, 0.001, 1_000
# Any other line is split only if it is 1.5 times as long as 99.9% of the training lines.
_MUCH_LONGER = 1.5
_LINE_END = re.compile(r"[\r\n]")

SplitTag = Callable[[str], tuple[str, str]]
"""Returns the language tag that a line begins with, and the rest of the line."""


@dataclass(frozen=True)
class Part:
    """A line, or a part of one."""

    text: str
    before: str = ""
    """The white space between this part and the previous one; empty for the first part."""
    is_cut: bool = False
    """Whether the part was cut from text that is longer than the limit."""


class LineSplitter:
    """Divides lines into the parts that a model translates one by one."""

    def __init__(
        self,
        mode: SplitSentences,
        language: str,
        lines: LineStatistics | None,
        limit: int,
        measure: Measure,
        split_tag: SplitTag = lambda line: ("", line),
    ) -> None:
        """Prepare to split.

        Args:
            language: the language code of the lines.
            lines: statistics of the model's training lines; without them, ``auto`` splits as ``always`` does, but for
                lines that are to stay whole.
            limit: the maximum length of a part, in pieces.
            measure: returns the lengths of texts in pieces.
            split_tag: returns the language tag that a line begins with, and the rest; each part gets the line's tag.
        """
        self._mode = mode
        self._language = language
        self._limit = limit
        self._measure = measure
        self._split_tag = split_tag
        self._pieces = lines.source.pieces if lines is not None else None
        counts = lines.source.sentences if lines is not None else ()
        total = sum(counts)
        self._usual = _max_sentences(counts, _UNUSUAL_SHARE * total)
        self._seen_often = max(self._usual, _max_sentences(counts, max(_RARE_SHARE * total, _RARE_LINES)))

    def parts(self, line: str, length: int, *, whole: bool = False) -> list[Part]:
        """Divide a line into one or more parts.

        Args:
            length: the length of the line, in pieces.
            whole: divide the line only if it is too long, not for its sentences (except in mode ``always``).
        """
        if not line.strip():
            return [Part(line)]
        tag, text = self._split_tag(line)
        found = self.sentences(text)
        if len(found) > 1 and self._splits(found, length, whole):
            return _tagged(self._of_sentences(found, self._limit_after(tag)), tag)
        if length <= self._limit:
            return [Part(line)]
        return _tagged(_spaced(split(text, self._limit_after(tag), self._measure), ""), tag)

    def sentences(self, line: str) -> list[str]:
        """The sentences of a line, each with the white space after it."""
        return sentences(line, self._language)

    def each_sentence(self, line: str) -> list[Part]:
        """Divide a line into sentences. Sentences that are longer than the limit are divided further."""
        tag, text = self._split_tag(line)
        return _tagged(self._of_sentences(self.sentences(text), self._limit_after(tag)), tag)

    def _limit_after(self, tag: str) -> int:
        """The maximum length of a part without its tag, which is one piece."""
        return max(1, self._limit - bool(tag))

    def _splits(self, found: Sequence[str], length: int, whole: bool) -> bool:
        if self._mode == "always":
            return True
        if self._mode == "never" or whole:
            return False
        count = len(found)
        return (
            self._pieces is None
            or count > self._seen_often
            or (count > self._usual and length > self._pieces.p99)
            or length > min(self._limit, _MUCH_LONGER * self._pieces.p999)
            or self._is_copied_between(found)
        )

    def _is_copied_between(self, found: Sequence[str]) -> bool:
        """Whether something between the sentences needs no translation, such as the number of an item."""
        rests = [(begin, len(text) - end) for text in found for begin, end in [copied_ends(text, self._language)]]
        return any(before for before, _ in rests[1:]) or any(behind for _, behind in rests[:-1])

    def _of_sentences(self, found: Sequence[str], limit: int) -> list[Part]:
        texts = [sentence.strip() for sentence in found]
        parts: list[Part] = []
        before = ""
        for sentence, text, length in zip(found, texts, self._measure(texts), strict=True):
            pieces = [text] if length <= limit else split(text, limit, self._measure)
            parts += _spaced(pieces, before)
            before = _LINE_END.sub(" ", sentence[len(sentence.rstrip()) :]) or " "
        return parts


def _spaced(texts: Sequence[str], before: str) -> list[Part]:
    """The texts as parts of one sentence or line, separated by spaces."""
    return [Part(text, " " if index else before, is_cut=len(texts) > 1) for index, text in enumerate(texts)]


def _tagged(parts: list[Part], tag: str) -> list[Part]:
    """The parts, each after the tag of its line."""
    return [replace(part, text=f"{tag} {part.text}") for part in parts] if tag else parts


def _max_sentences(counts: Sequence[int], few: float) -> int:
    """The smallest number of sentences that at most ``few`` lines exceed.

    Args:
        counts: the numbers of lines with 1, 2, 3 ... sentences.
    """
    longer = sum(counts)
    for number, lines in enumerate(counts, start=1):
        longer -= lines
        if longer <= few:
            return number
    return 1
