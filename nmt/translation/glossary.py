"""Translating with a glossary: what another translator writes gets the terms that the source asks for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from nmt.errors import ConfigError
from nmt.spans.kept import copies
from nmt.spans.span import Span
from nmt.spans.terms import Glossary, Term, obey
from nmt.translation.line_translator import LineTranslator, SpansOf, no_spans
from nmt.translation.options import TranslateOptions
from nmt.translation.results import Translation
from nmt.translation.segment import Segment


class GlossaryTranslator(LineTranslator):
    """Translates with another translator, whose translations then obey a glossary."""

    def __init__(self, translator: LineTranslator, glossary: Glossary) -> None:
        self._translator, self._glossary = translator, glossary
        self.source_lang, self.target_lang = translator.source_lang, translator.target_lang
        self.window = translator.window
        self.max_source_length = translator.max_source_length
        self.language_tags = translator.language_tags

    @property
    def settings(self) -> dict[str, object]:
        """As :attr:`LineTranslator.settings`; the glossary is an input."""
        return self._translator.settings

    @property
    def batch_tokens(self) -> int:
        """As :attr:`LineTranslator.batch_tokens`."""
        return self._translator.batch_tokens

    def prepare(
        self,
        lines: list[str],
        prefixes: list[str] | None = None,
        *,
        done: int = 0,
        line_number: Callable[[int], int] = lambda index: index + 1,
        spans: SpansOf = no_spans,
    ) -> list[list[Segment]]:
        """As :meth:`LineTranslator.prepare`: lines with terms are aligned."""

        def also_of_terms(index: int) -> Sequence[Span]:
            line = lines[index - done]
            return spans(index) or ([Span(0, len(line))] if self._glossary.terms(line) else [])

        return self._translator.prepare(lines, prefixes, done=done, line_number=line_number, spans=also_of_terms)

    def search(self, segments: list[Segment]) -> None:
        """As :meth:`LineTranslator.search`."""
        self._translator.search(segments)

    def joined(self, line: str, segments: Sequence[Segment]) -> Translation:
        """As :meth:`LineTranslator.joined`."""
        found = self._translator.joined(line, segments)
        if not (terms := self._terms(line, segments)):
            return found
        candidates = []
        for rank, candidate in enumerate(found.candidates):
            obeyed = obey(line, candidate.text, found.links(rank), terms)
            links, findings = tuple(obeyed.links), tuple(obeyed.findings)
            changed = dataclasses.replace(candidate, text=obeyed.text, links=links, terms=findings)
            # The alignment was needed only for this.
            candidates.append(dataclasses.replace(changed, alignment=None, piece_log_probabilities=None))
        return dataclasses.replace(found, candidates=tuple(candidates))

    def _terms(self, line: str, segments: Sequence[Segment]) -> list[Term]:
        """The terms of a line, but for those within what stays."""
        kept = {text for segment in segments if segment.covered for text in segment.covered.kept}
        places = [place for text in kept for place in copies(text, line)]
        return [
            term
            for term in self._glossary.terms(line)
            if all(term.end <= start or end <= term.start for start, end in places)
        ]


def check_glossary(options: TranslateOptions) -> None:
    """Check that options go with a glossary.

    Raises:
        ConfigError: word alignments are asked for.
    """
    if options.alignment:
        raise ConfigError(
            "an alignment is of the pieces that the model wrote, which a glossary replaces: leave out --glossary, or "
            "--alignment and --format pharaoh."
        )
