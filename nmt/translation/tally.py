"""Counts of split, cut and doubtful lines, for the summary at the end of a translation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from nmt.reporting import Unit
from nmt.spans.terms import Verdict
from nmt.translation.guard import Problem
from nmt.translation.line_numbers import LineNumbers
from nmt.translation.results import Translation

_TAGS_SHOWN = 5


@dataclass
class Tally:
    """Counts of lines, of paragraphs, or of the texts of a document."""

    unit: Unit = "lines"
    first_line: int = 1
    """The number of the first counted line. Greater than 1 if the output was resumed."""
    language_tags: tuple[str, ...] = ()
    """The tags that the model expects one of at the beginning of each line; usually none."""
    untagged: int = 0
    """Lines that begin with none of them."""
    in_sentences: int = 0
    """Lines that were translated sentence by sentence and not cut further."""
    cut: int = 0
    """Lines that were cut because they, or sentences in them, are too long."""
    doubtful: int = 0
    """Lines whose translations had problems of any kind."""
    not_repaired: LineNumbers = field(default_factory=LineNumbers)
    """The lines whose translations still have problems."""
    problems: Counter[Problem] = field(default_factory=Counter)
    terms: Counter[Verdict] = field(default_factory=Counter)
    """What became of the terms of a glossary."""

    def add(self, number: int, translation: Translation) -> None:
        """Count a line.

        Args:
            number: the line's number, from 1; of a text of a document, that of its line there.
        """
        if self.language_tags and translation.source.strip():
            self.untagged += not translation.source.lstrip().startswith(self.language_tags)
        self.in_sentences += translation.parts > 1 and not translation.is_cut
        self.cut += translation.is_cut
        self.terms.update(term.verdict for term in translation.candidates[0].terms)
        if translation.guard is not None:
            self.doubtful += 1
            self.problems.update(translation.guard.problems)
            if not translation.guard.repaired:
                self.not_repaired.add(number)

    def notices(self, *, prefixed: bool) -> list[str]:
        """What happened as intended, one sentence each; usually empty.

        Args:
            prefixed: prefixes were given for the translations.
        """
        notices = []
        if self.terms:
            verdicts = ", ".join(f"{verdict} {count:,}" for verdict, count in self.terms.most_common())
            notices.append(f"terms of the glossary{self._since()}: {self.terms.total():,} ({verdicts}).")
        # Paragraphs and texts are expected to be split into sentences; omitted prefixes are reported as a warning.
        if self.in_sentences and self.unit == "lines" and not prefixed:
            notices.append(f"{self._in_sentences()} --split-sentences never keeps lines whole.")
        return notices

    def warnings(self, max_source_length: int, *, guard: bool, prefixed: bool) -> list[str]:
        """What may be wrong, one sentence each; usually empty.

        Args:
            max_source_length: the maximum pieces of a line or part.
            prefixed: prefixes were given for the translations.
        """
        warnings = []
        left_out = " Their prefixes were left out." if prefixed else ""
        if self.untagged:
            shown = ", ".join(self.language_tags[:_TAGS_SHOWN]) + (
                ", …" if len(self.language_tags) > _TAGS_SHOWN else ""
            )
            warnings.append(
                f"{self.unit} without a language tag{self._since()}: {self.untagged:,}. This model expects each line "
                f"to begin with its target language: {shown}"
            )
        if self.cut:
            warnings.append(
                f"{self.unit} cut into parts{self._since()}: {self.cut:,}. They, or sentences in them, have more than "
                f"{max_source_length} pieces.{left_out}"
            )
        if self.in_sentences and prefixed:
            warnings.append(self._in_sentences() + left_out)
        left = self.not_repaired
        if self.doubtful and guard:
            warnings.append(
                f"translations that looked wrong{self._since()}: {self.doubtful:,} ({self._by_problem()}); "
                f"repaired: {self.doubtful - left.count:,}." + f" Not repaired: {left}." * bool(left.count)
            )
        return warnings

    def _since(self) -> str:
        one = "text" if self.unit == "texts" else "line"
        return f" since {one} {self.first_line:,}" if self.first_line > 1 else ""

    def _in_sentences(self) -> str:
        return f"lines translated sentence by sentence{self._since()}: {self.in_sentences:,}."

    def _by_problem(self) -> str:
        kinds = ", ".join(f"{kind.replace('_', ' ')} {count:,}" for kind, count in self.problems.most_common())
        if self.problems.total() == self.doubtful:
            return kinds
        return f"by problem: {kinds}; a line may have several"
