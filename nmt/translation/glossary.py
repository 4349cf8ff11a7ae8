"""Translating with a glossary: what another translator writes gets the terms that the source asks for."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from nmt.errors import ConfigError
from nmt.spans.kept import copies
from nmt.spans.span import Span
from nmt.spans.terms import Glossary, Term, obey
from nmt.translation.line_translator import LineTranslator
from nmt.translation.options import TranslateOptions
from nmt.translation.results import Translation
from nmt.translation.segment import Line, Segment, TranslatedSegment


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

    def prepare(self, lines: Sequence[Line]) -> list[list[Segment]]:
        """As :meth:`LineTranslator.prepare`: lines with terms are aligned."""
        return self._translator.prepare(
            [
                dataclasses.replace(line, spans=[Span(0, len(line.text))])
                if not line.spans and self._glossary.terms(line.text)
                else line
                for line in lines
            ]
        )

    def search(self, segments: Sequence[Segment]) -> list[TranslatedSegment]:
        """As :meth:`LineTranslator.search`."""
        return self._translator.search(segments)

    def joined(self, line: str, parts: Sequence[TranslatedSegment]) -> Translation:
        """As :meth:`LineTranslator.joined`."""
        found = self._translator.joined(line, parts)
        if not (terms := self._terms(line, parts)):
            return found
        candidates = []
        for rank, candidate in enumerate(found.candidates):
            obeyed = obey(line, candidate.text, found.links(rank), terms, self.target_lang)
            links, findings = tuple(obeyed.links), tuple(obeyed.findings)
            changed = dataclasses.replace(candidate, text=obeyed.text, links=links, terms=findings)
            # The alignment was needed only for this.
            candidates.append(dataclasses.replace(changed, alignment=None, piece_log_probabilities=None))
        return dataclasses.replace(found, candidates=tuple(candidates))

    def _terms(self, line: str, parts: Sequence[TranslatedSegment]) -> list[Term]:
        """The terms of a line, but for those within what stays."""
        covered = (part.segment.covered for part in parts)
        kept = {text for each in covered if each is not None for text in each.kept}
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
