"""From lines to segments: what stays is set aside, long lines are divided, and unknown characters taken out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from nmt.config import DataConfig
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import DataError
from nmt.spans.kept import Covered
from nmt.spans.placeholders import with_placeholders
from nmt.spans.span import Unit
from nmt.text.steps import normalizer
from nmt.translation.at_once import changed_where, in_groups
from nmt.translation.options import TranslateOptions
from nmt.translation.results import TranslatedText
from nmt.translation.segment import Line, Segment
from nmt.translation.sentence_splitting import LineSplitter, Part
from nmt.translation.unknown_characters import UnknownCharacters

# Greater than the number of parts of any line.
_MAX_PARTS = 2**24


class Preparation:
    """Makes the segments of lines, as one model reads them."""

    def __init__(
        self,
        vocab: VocabularyPair,
        data: DataConfig,
        options: TranslateOptions,
        language: str,
        *,
        positions: int,
        max_source_length: int,
    ) -> None:
        """Prepare to make segments.

        Args:
            vocab: as it is prepared for the languages.
            language: the code of the source language.
            positions: the maximum pieces of a translation.
            max_source_length: the maximum pieces of a segment.
        """
        self._vocab, self._positions, self._max_source_length = vocab, positions, max_source_length
        self._splitter = LineSplitter(
            options.split_sentences,
            language,
            data.lines,
            max_source_length,
            lambda texts: list(map(len, vocab.source.encode(texts))),
            vocab.source.split_tag,
        )
        self._unknown = UnknownCharacters(vocab, data.lines, options.copy_unknown, language)
        self._normalize, self._normalize_target = normalizer(data.source_text), normalizer(data.target_text)

    @property
    def takes_out(self) -> bool:
        """Whether something may be taken out of texts at all."""
        return self._unknown.takes_out

    def segments(self, lines: Sequence[Line]) -> list[list[Segment]]:
        """The segments of each line.

        Raises:
            DataError: a prefix is too long for the model.
        """
        lines = [replace(line, prefix=self._normalize_target(line.prefix)) if line.prefix else line for line in lines]
        return in_groups(self._divided(lines), self._readable)

    def sentences(self, segment: Segment) -> list[Segment]:
        """Each sentence of a segment as a segment of its own."""
        return self._encoded(self._splitter.each_sentence(segment.text), segment.number, segment.line)

    def covered_again(self, segments: Sequence[Segment]) -> list[Segment]:
        """Segments without what stays of their texts, which the model was shown."""
        return self.without_unknown(
            [replace(segment, text=segment.covered.text) if segment.covered else segment for segment in segments]
        )

    def without_verbatim(self, segments: Sequence[Segment]) -> list[Segment]:
        """Segments without their placeholders and web addresses, which are put back into the translations."""
        return self.covered_again(
            [replace(segment, covered=self._with_stand_ins(segment.text)) for segment in segments]
        )

    def without_unknown(self, segments: Sequence[Segment]) -> list[Segment]:
        """Take unknown characters and stand-ins out of segments."""
        hidden = frozenset[str]().union(*(segment.covered.characters for segment in segments if segment.covered))
        taken_out = self._unknown.take_out([segment.text for segment in segments], hidden)
        encoded = iter(self._vocab.source.encode([taken.source for taken in taken_out if taken is not None]))
        return [
            segment if taken is None else replace(segment, text=taken.source, pieces=next(encoded), taken=taken)
            for segment, taken in zip(segments, taken_out, strict=True)
        ]

    def put_back(self, segment: Segment, candidate: TranslatedText) -> TranslatedText:
        """A translation of a segment, with what was taken out of the text."""
        if segment.taken is not None:
            candidate = self._unknown.put_back(segment.taken, segment.pieces, candidate)
        if segment.covered is not None:
            candidate = replace(candidate, text=segment.covered.uncovered(candidate.text))
        return candidate

    def _divided(self, lines: Sequence[Line]) -> Iterator[list[Segment]]:
        """The segments of each line. Whole lines, and those without words, stay one if possible."""
        covered = [self._covered(line) if line.spans else None for line in lines]
        texts = [each.text if each is not None else line.text for line, each in zip(lines, covered, strict=True)]
        normalized = list(map(self._normalize, texts))
        encoded = self._vocab.source.encode(normalized)
        begins = self._vocab.target.encode([line.prefix for line in lines])
        for index, line in enumerate(lines):
            segments = self._of_line(line, texts[index], normalized[index], encoded[index], begins[index])
            kept = covered[index]
            yield (
                segments
                if kept is None
                else [
                    replace(
                        each, is_aligned=True, covered=kept.part(each.text or (each.taken.first if each.taken else ""))
                    )
                    for each in segments
                ]
            )

    def _of_line(self, line: Line, raw: str, text: str, pieces: Sequence[int], begin: Sequence[int]) -> list[Segment]:
        """The segments of a line.

        Args:
            raw, text: with stand-ins, before and after normalization.
            begin: the pieces that its translation begins with.
        """
        number, name = line.number * _MAX_PARTS, line.number + 1 if line.name is None else line.name
        if not line.prefix and self._unknown.is_copied(raw):
            [taken] = self._unknown.take_out([raw])
            return [Segment("", [], number=number, line=name, taken=taken)]
        parts = self._splitter.parts(text, len(pieces), whole=line.is_whole or bool(line.prefix))
        if len(parts) > 1:
            return self._encoded(parts, number, name)
        if len(begin) > self._positions:
            raise DataError(
                f"line {name:,}: the prefix has {len(begin)} pieces, but the model has positions for "
                f"{self._positions}: {self._vocab.target.decode([begin[:10]])[0]} …"
            )
        pieces = pieces if text.strip() else []
        return [Segment(text, pieces, number=number, line=name, prefix=begin, is_begun=bool(line.prefix))]

    def _encoded(self, parts: Sequence[Part], number: int, line: int) -> list[Segment]:
        """Parts of a line as segments, whose translations begin with the target language alone."""
        encoded, begin = self._vocab.source.encode([part.text for part in parts]), self._vocab.target.before
        return [
            Segment(part.text, pieces, part.before, number + index, line, begin, is_cut=part.is_cut)
            for index, (part, pieces) in enumerate(zip(parts, encoded, strict=True))
        ]

    def _covered(self, line: Line) -> Covered:
        """A line with stand-ins for what its spans keep, if that can be taken out."""
        covered = Covered.of(line.text, line.spans)
        is_possible = self._unknown.takes_out and not line.prefix
        is_possible = is_possible and covered.characters <= frozenset(self._normalize(covered.text))
        return covered if is_possible else Covered(line.text, {})

    def _with_stand_ins(self, text: str) -> Covered:
        """A text with stand-ins for its placeholders and web addresses, after the language tag."""
        tag, rest = self._vocab.source.split_tag(text)
        covered = Covered.of(rest, with_placeholders(Unit(rest)).spans)
        return replace(covered, text=f"{tag} {covered.text}") if tag else covered

    def _readable(self, segments: Sequence[Segment]) -> list[Segment]:
        """Segments as the model can read them: with what stays, which it may have learnt to copy, or without."""
        kept = list({text for segment in segments if segment.covered for text in segment.covered.kept})
        encoded = self._vocab.source.encode(kept) if kept else []
        unknown = {text for text, pieces in zip(kept, encoded, strict=True) if self._unknown.are_in(pieces)}

        def can_be_shown(segment: Segment) -> bool:
            return segment.covered is not None and unknown.isdisjoint(segment.covered.kept)

        def shown(some: Sequence[Segment]) -> Iterator[Segment]:
            texts = [segment.covered.uncovered(segment.text) for segment in some if segment.covered]
            for segment, text, pieces in zip(some, texts, self._vocab.source.encode(texts), strict=True):
                fits = len(pieces) <= self._max_source_length
                yield replace(segment, text=text, pieces=pieces) if fits else segment

        segments = changed_where(segments, can_be_shown, shown)
        return changed_where(segments, self._may_have_unknown, self.without_unknown)

    def _may_have_unknown(self, segment: Segment) -> bool:
        """Whether unknown characters are to be taken out: not where the user gave the beginning of a translation."""
        if segment.is_begun:
            return False
        covered = segment.covered
        has_stand_ins = covered is not None and not covered.characters.isdisjoint(segment.text)
        return has_stand_ins or self._unknown.concern(segment.text, segment.pieces)
