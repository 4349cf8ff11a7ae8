"""What translates lines: one model or an ensemble, or two models through a pivot language."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

from nmt.text.lines import parallel
from nmt.translation.at_once import in_groups
from nmt.translation.results import Translation
from nmt.translation.segment import Line, Segment, TranslatedSegment
from nmt.translation.windows import taken_ahead, windows


class LineTranslator(ABC):
    """Translates lines in three steps: it divides them into segments, searches these, and joins what it found."""

    source_lang: str
    """The language code of the lines."""
    target_lang: str
    """The language code of the translations."""
    window: int
    """The number of lines that are read before their translations are returned."""
    windows_ahead: int = 0
    """The number of windows that are prepared before one is searched."""
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
    def prepare(self, lines: Sequence[Line]) -> list[list[Segment]]:
        """The segments of each line, ready for :meth:`search`.

        Raises:
            DataError: a prefix is too long for the model.
        """

    @abstractmethod
    def search(self, segments: Sequence[Segment]) -> list[TranslatedSegment]:
        """Find the translations of segments, in batches of similar length: of one line or of many.

        Raises:
            BeamTooWideError: a single sentence does not fit into the memory.
        """

    @abstractmethod
    def joined(self, line: str, parts: Sequence[TranslatedSegment]) -> Translation:
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
        for window in self.translate_windows(Line(*pair, number) for number, pair in enumerate(pairs)):
            yield from window

    def translate_windows(self, lines: Iterable[Line]) -> Iterator[list[Translation]]:
        """Like :meth:`translate`, but yields the translations of one window at a time."""
        read = windows(lines, self.window, lambda line: len(line.text) + len(line.prefix))
        prepared = ((window, self.prepare(window)) for window in read)
        for window, segments in taken_ahead(prepared, self.windows_ahead):
            found = in_groups(segments, self.search)
            yield [self.joined(line.text, parts) for line, parts in zip(window, found, strict=True)]
