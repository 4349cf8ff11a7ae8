"""Lines in, lines out, with one model or an ensemble.

A line that is longer than the training lines becomes several segments; every other line is one segment. Candidates are
reranked on request, and translations that look wrong to the guard are searched again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from pydantic import Field

from nmt.config.section import StrictSection
from nmt.errors import ConfigError, DataError
from nmt.spans.kept import Covered
from nmt.text.steps import normalizer
from nmt.translation.batches import tokens_for
from nmt.translation.directions import choices
from nmt.translation.engine import Engine, Searcher
from nmt.translation.guard import Languages
from nmt.translation.guard_repair import GuardRepair
from nmt.translation.line_translator import LineTranslator, SpansOf, no_spans
from nmt.translation.minimum_bayes_risk import rerank
from nmt.translation.options import TranslateOptions, recorded
from nmt.translation.results import BLANK, Translation
from nmt.translation.segment import Segment, joined_findings, joined_segments
from nmt.translation.sentence_splitting import LineSplitter, Part
from nmt.translation.unknown_characters import UnknownCharacters

# The maximum length in shards by default, for bundles that do not record it.
_TRAINED_LENGTH = 256
# Lines have some 30 pieces, so that a window of a GPU's largest batches holds eight of them.
_MIN_WINDOW, _PIECES_PER_LINE = 2_048, 4
# Greater than the number of parts of any line.
_MAX_PARTS = 2**24


class _Pace(StrictSection):
    """The numbers of lines and batches that are processed at once."""

    window: int | None = Field(ge=1, le=1_000_000)
    workers: int | None = Field(ge=1)


class Translator(LineTranslator):
    """Translates lines with one model, or several that share a vocabulary."""

    def __init__(
        self,
        engine: Engine,
        options: TranslateOptions,
        *,
        window: int | None = None,
        workers: int | None = None,
        searcher: Searcher | None = None,
    ) -> None:
        """Prepare to translate.

        Args:
            options: what :func:`~nmt.translation.options.translate_options` returns.
            window: the number of lines that are read before their translations are returned; by default 2,048, and as
                many as fill some batches of a GPU.
            workers: the number of batches that are searched at the same time, each with its share of the threads;
                default: one per thread on a CPU, one on a GPU.
            searcher: one that several translators share, and threads that call :meth:`search` at the same time;
                default: an own one with so many workers.

        Raises:
            BeamTooWideError: the beam needs more memory than there is.
            ConfigError: an option is out of range, the model has too few positions for it, or the engine lacks it.
        """
        _Pace(window=window, workers=workers)
        data = engine.config.data
        chosen = choices(data, options)
        self.source_lang, self.target_lang = chosen["source"], chosen["target"]
        self._engine = engine
        self._vocab = engine.vocab.prepared(data.steps, chosen)
        self._begin = self._vocab.target.before
        self._options = options
        # Reranking chooses among all candidates.
        self._first_search = options.model_copy(update={"nbest": options.beam}) if options.mbr else options
        self._positions = engine.positions
        if options.max_source_length is not None and options.max_source_length > self._positions:
            raise ConfigError(
                f"max_source_length: got {options.max_source_length}, but the model has positions for "
                f"{self._positions} source pieces. Give --max-source-length at most {self._positions}."
            )
        trained_length = data.lines.max_pieces if data.lines is not None else _TRAINED_LENGTH
        self.max_source_length = options.max_source_length or min(trained_length, self._positions)
        self._splitter = LineSplitter(
            options.split_sentences,
            self.source_lang,
            data.lines,
            self.max_source_length,
            self._lengths,
            self._vocab.source.split_tag,
        )
        self.language_tags = () if self._vocab.source.before else self._vocab.source.language_tags
        self._unknown = UnknownCharacters(self._vocab, data.lines, options.copy_unknown, self.source_lang)
        self._searcher = searcher or engine.searcher(self._first_search, workers)
        self.window = window or max(_MIN_WINDOW, self.batch_tokens // _PIECES_PER_LINE)
        self._guard = GuardRepair(
            self._vocab,
            Languages(self.source_lang, self.target_lang),
            self._first_search,
            self._searcher,
            short_ratio=data.lines.target_per_source.p1 if data.lines is not None else 0.0,
            repairs=options.guard,
            rerank=self._rerank,
            sentences=lambda text: self._encoded(self._splitter.each_sentence(text)),
        )
        self._normalize, self._normalize_target = normalizer(data.source_text), normalizer(data.target_text)

    @property
    def worker_count(self) -> int:
        """The number of batches that are searched at the same time."""
        return self._searcher.worker_count

    @property
    def batch_tokens(self) -> int:
        """As :attr:`LineTranslator.batch_tokens`."""
        return tokens_for(self._first_search.beam, self._searcher.batch_tokens)

    @property
    def settings(self) -> dict[str, object]:
        """As :attr:`LineTranslator.settings`."""
        return recorded(self._options) | {
            "max_source_length": self.max_source_length,
            "engine": self._engine.name,
            "precision": self._engine.precision,
        }

    def prepare(
        self,
        lines: list[str],
        prefixes: list[str] | None = None,
        *,
        done: int = 0,
        line_number: Callable[[int], int] = lambda index: index + 1,
        spans: SpansOf = no_spans,
        whole: Sequence[bool] | None = None,
    ) -> list[list[Segment]]:
        """As :meth:`LineTranslator.prepare`.

        Args:
            whole: which lines are not divided into sentences; by default those with a prefix.
        """
        prefixes = list(map(self._normalize_target, prefixes or [""] * len(lines)))
        covered = {} if spans is no_spans else self._covered(lines, prefixes, done, spans)
        texts = [covered[index].text if index in covered else line for index, line in enumerate(lines)]
        segments_by_line = self._segments(texts, prefixes, whole or list(map(bool, prefixes)))
        self._uncover(segments_by_line, covered)
        self._take_out_unknown(segments_by_line, prefixes)
        self._number(segments_by_line, done, line_number)
        self._set_prefixes(segments_by_line, prefixes)
        return segments_by_line

    def split_tag(self, line: str) -> tuple[str, str]:
        """The language tag that a line begins with (or no text), and the rest of the line."""
        return self._vocab.source.split_tag(line)

    def search(self, segments: list[Segment]) -> None:
        """As :meth:`LineTranslator.search`."""
        searched = [segment for segment in segments if segment.pieces]
        self._searcher.search(searched, self._first_search)
        self._rerank(searched)
        if lost := [segment for segment in searched if segment.has_lost]:
            for segment in lost:
                segment.cover()
            self._take_out(lost)
            again = [segment for segment in lost if segment.pieces]
            self._searcher.search(again, self._first_search)
            self._rerank(again)
        self._guard.check([segment for segment in searched if segment.pieces])
        self._keep_best(segments)
        self._align(segments)
        self._put_back_unknown(segments)

    def joined(self, line: str, segments: Sequence[Segment]) -> Translation:
        """As :meth:`LineTranslator.joined`."""
        candidates = joined_segments(segments, self.target_lang)
        finding = joined_findings(segment.finding for segment in segments)
        if any(segment.taken is not None for segment in segments):
            finding = self._guard.check_copied(finding, self.split_tag(line)[1], candidates[0].text)
        return Translation(
            line,
            candidates,
            source_pieces=tuple(self._vocab.source.pieces(piece for segment in segments for piece in segment.pieces)),
            parts=sum(segment.parts for segment in segments),
            is_cut=any(segment.is_cut for segment in segments),
            guard=finding,
        )

    def _segments(self, lines: list[str], prefixes: list[str], whole: Sequence[bool]) -> list[list[Segment]]:
        """Divide each line into one or more segments. Whole lines, and those without words, stay one if possible."""
        segments_by_line = []
        normalized = [self._normalize(line) for line in lines]
        encoded = self._vocab.source.encode(normalized)
        for raw, line, pieces, prefix, is_whole in zip(lines, normalized, encoded, prefixes, whole, strict=True):
            if not prefix and self._unknown.is_copied(raw):
                segments_by_line.append([Segment("", [], taken=self._unknown.take_out([raw])[0])])
                continue
            if not line.strip():
                segments_by_line.append([Segment(line, [])])
                continue
            parts = self._splitter.parts(line, len(pieces), whole=is_whole)
            segments_by_line.append([Segment(line, pieces)] if len(parts) == 1 else self._encoded(parts))
        return segments_by_line

    def _encoded(self, parts: Sequence[Part]) -> list[Segment]:
        encoded = self._vocab.source.encode([part.text for part in parts])
        return [
            Segment(part.text, pieces, part.before, prefix=list(self._begin), is_cut=part.is_cut)
            for part, pieces in zip(parts, encoded, strict=True)
        ]

    def _lengths(self, texts: Sequence[str]) -> list[int]:
        return [len(pieces) for pieces in self._vocab.source.encode(texts)]

    def _covered(self, lines: list[str], prefixes: list[str], done: int, spans: SpansOf) -> dict[int, Covered]:
        """The lines with spans, by their indices, with stand-ins for what can be taken out."""
        found = {}
        for index, (line, prefix) in enumerate(zip(lines, prefixes, strict=True)):
            if of_line := spans(done + index):
                covered = Covered.of(line, of_line)
                is_possible = self._unknown.takes_out and not prefix
                if not is_possible or not covered.characters <= frozenset(self._normalize(covered.text)):
                    covered = Covered(line, {})
                found[index] = covered
        return found

    def _uncover(self, segments_by_line: list[list[Segment]], covered: dict[int, Covered]) -> None:
        """Show the model what stays, where it can read that: it may have learnt to copy it."""
        kept = list({text for line in covered.values() for text in line.stand_ins.values()})
        encoded = self._vocab.source.encode(kept) if kept else []
        unknown = {text for text, pieces in zip(kept, encoded, strict=True) if self._unknown.are_in(pieces)}
        shown = []
        for index, line in covered.items():
            for segment in segments_by_line[index]:
                segment.is_aligned = True
                segment.covered = line.part(segment.text or (segment.taken.first if segment.taken else ""))
                if segment.covered is not None and unknown.isdisjoint(segment.covered.kept):
                    shown.append((segment, line.uncovered(segment.text)))
        encoded = self._vocab.source.encode([text for _, text in shown]) if shown else []
        for (segment, text), pieces in zip(shown, encoded, strict=True):
            if len(pieces) <= self.max_source_length:
                segment.text, segment.pieces = text, pieces

    def _take_out_unknown(self, segments_by_line: list[list[Segment]], prefixes: list[str]) -> None:
        """Take unknown characters out of all segments, except for lines whose translation has a prefix."""
        self._take_out(
            [
                segment
                for segments, prefix in zip(segments_by_line, prefixes, strict=True)
                for segment in segments
                if not (prefix and len(segments) == 1)
                and (segment.has_stand_ins or self._unknown.concern(segment.text, segment.pieces))
            ]
        )

    def _take_out(self, segments: list[Segment]) -> None:
        """Take unknown characters and stand-ins out of segments."""
        hidden = frozenset[str]().union(*(segment.covered.characters for segment in segments if segment.covered))
        found = zip(segments, self._unknown.take_out([segment.text for segment in segments], hidden), strict=True)
        taken_out = [(segment, taken) for segment, taken in found if taken is not None]
        encoded = self._vocab.source.encode([taken.source for _, taken in taken_out])
        for (segment, taken), pieces in zip(taken_out, encoded, strict=True):
            segment.text, segment.pieces, segment.taken = taken.source, pieces, taken

    def _put_back_unknown(self, segments: list[Segment]) -> None:
        for segment in segments:
            if segment.taken is not None:
                restored = [self._unknown.put_back(segment.taken, segment.pieces, c) for c in segment.candidates]
                if not (self._options.alignment or segment.is_aligned):  # it was needed only for this
                    restored = [dataclasses.replace(c, piece_log_probabilities=None, alignment=None) for c in restored]
                segment.candidates = tuple(restored)
            if segment.covered is not None:
                uncovered = segment.covered.uncovered
                segment.candidates = tuple(dataclasses.replace(c, text=uncovered(c.text)) for c in segment.candidates)

    @staticmethod
    def _number(segments_by_line: list[list[Segment]], done: int, line_number: Callable[[int], int]) -> None:
        for index, segments in enumerate(segments_by_line, start=done):
            for part, segment in enumerate(segments):
                segment.number = index * _MAX_PARTS + part
                segment.line = line_number(index)

    def _set_prefixes(self, segments_by_line: list[list[Segment]], prefixes: list[str]) -> None:
        """Set the prefix of each line's translation. Parts of split lines begin with the target language alone."""
        for segments, prefix in zip(segments_by_line, self._vocab.target.encode(prefixes), strict=True):
            if len(segments) > 1:
                continue
            if len(prefix) > self._positions:
                raise DataError(
                    f"line {segments[0].line:,}: the prefix has {len(prefix)} pieces, but the model has positions for "
                    f"{self._positions}: {self._vocab.target.decode([prefix[:10]])[0]} …"
                )
            segments[0].prefix = prefix

    def _rerank(self, segments: list[Segment]) -> None:
        if not self._options.mbr:
            return
        for segment in segments:
            # Likely samples are drawn repeatedly, so they need no weights; each hypothesis of a beam occurs once.
            weights = None if self._options.sampling else [found.log_probability for found in segment.candidates]
            choices = rerank([found.text for found in segment.candidates], log_probabilities=weights)
            segment.candidates = tuple(
                dataclasses.replace(segment.candidates[choice.index], expected_utility=choice.expected_utility)
                for choice in choices
            )

    def _keep_best(self, segments: list[Segment]) -> None:
        for segment in segments:
            segment.candidates = segment.candidates[: self._options.nbest]

    def _align(self, segments: list[Segment]) -> None:
        """Add the log-probabilities and the alignment of the pieces to each candidate, where they are needed."""
        if not self._options.alignment:  # unknown characters within a text go where its alignment says
            segments = [
                segment
                for segment in segments
                if segment.is_aligned or (segment.taken is not None and segment.taken.inner)
            ]
        pairs = [(segment, found) for segment in segments if segment.pieces for found in segment.candidates]
        scores = iter(
            self._engine.score(
                [segment.pieces[: self._positions] for segment, _ in pairs],
                [self._vocab.target.ids(found.pieces) for _, found in pairs],
                self._options,
                alignment=True,
            )
        )
        for segment in segments:
            if not segment.pieces:
                segment.candidates = (dataclasses.replace(BLANK, piece_log_probabilities=(), alignment=()),)
                continue
            segment.candidates = tuple(
                dataclasses.replace(
                    found,
                    piece_log_probabilities=score.piece_log_probabilities,
                    alignment=score.alignment,
                )
                for found, score in zip(segment.candidates, scores, strict=False)
            )
