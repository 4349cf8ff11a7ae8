"""What translates lines: one model or an ensemble, or two models through a pivot language."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence

from nmt.spans.span import Span
from nmt.text.lines import parallel
from nmt.translation.results import Translation
from nmt.translation.segment import Segment
from nmt.translation.windows import windows

SpansOf = Callable[[int], Sequence[Span]]
"""The spans of the line at an index of the input."""


def no_spans(index: int) -> Sequence[Span]:
    """What lines of plain text have."""
    return ()


class LineTranslator(ABC):
    """Translates lines in three steps: it divides them into segments, searches these, and joins what it found."""

    source_lang: str
    """The language code of the lines."""
    target_lang: str
    """The language code of the translations."""
    window: int
    """The number of lines that are read before their translations are returned."""
    max_source_length: int
    """The source pieces above which a sentence is cut."""
    language_tags: tuple[str, ...]
    """The tags one of which each line should begin with; empty for most models, and where the target is chosen."""

    @property
    @abstractmethod
    def settings(self) -> dict[str, object]:
        """The settings that translations depend on."""

    @property
    @abstractmethod
    def batch_tokens(self) -> int:
        """The maximum source pieces per batch of the first search, padding included."""

    @abstractmethod
    def prepare(
        self,
        lines: list[str],
        prefixes: list[str] | None = None,
        *,
        done: int = 0,
        line_number: Callable[[int], int] = lambda index: index + 1,
        spans: SpansOf = no_spans,
    ) -> list[list[Segment]]:
        """The segments of each line, ready for :meth:`search`. Arguments as of :meth:`translate_windows`."""

    @abstractmethod
    def search(self, segments: list[Segment]) -> None:
        """Find the translations of segments, in batches of similar length: of one line or of many.

        Raises:
            BeamTooWideError: a single sentence does not fit into the memory.
        """

    @abstractmethod
    def joined(self, line: str, segments: Sequence[Segment]) -> Translation:
        """The translation of a line from those of its segments."""

    def translate(self, lines: Iterable[str], prefixes: Iterable[str] | None = None) -> Iterator[Translation]:
        """Translate lines. Yields one translation per line, in order.

        Reads at most one window ahead, so memory does not grow with the input. If reading fails, the lines before the
        error are translated before it is raised.

        Args:
            prefixes: the beginning of each line's translation.

        Raises:
            DataError: the numbers of lines and prefixes differ, or a prefix is too long for the model.
        """
        if prefixes is None:
            pairs: Iterable[tuple[str, str]] = ((line, "") for line in lines)
        else:
            pairs = parallel(lines, prefixes, names=("the input", "the list of prefixes"))
        for window in self.translate_windows(pairs):
            yield from window

    def translate_windows(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        done: int = 0,
        line_number: Callable[[int], int] = lambda index: index + 1,
        spans: SpansOf = no_spans,
    ) -> Iterator[list[Translation]]:
        """Like :meth:`translate`, but yields the translations of one window at a time.

        Args:
            pairs: lines and the prefixes of their translations (usually empty).
            done: the number of lines before these. The samples of a line depend on its number.
            line_number: the number by which errors name the line at an index of the input.
            spans: the spans of lines, in order. The translations of lines with spans are aligned, also if the options
                ask for no alignments. The model does not see what spans keep if it does not copy it.
        """
        for window in windows(pairs, self.window):
            lines, prefixes = [line for line, _ in window], [prefix for _, prefix in window]
            segments_by_line = self.prepare(lines, prefixes, done=done, line_number=line_number, spans=spans)
            self.search(list(itertools.chain.from_iterable(segments_by_line)))
            yield list(map(self.joined, lines, segments_by_line))
            done += len(window)
