"""Lines in, lines out, with one model or an ensemble.

A line that is longer than the training lines becomes several segments; every other line is one segment. Candidates are
reranked on request, and translations that look wrong to the guard are searched again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from pydantic import Field

from nmt.config.section import StrictSection
from nmt.errors import ConfigError
from nmt.search.hypotheses import Hypothesis
from nmt.translation.at_once import changed_where, in_groups
from nmt.translation.batches import tokens_for
from nmt.translation.directions import choices
from nmt.translation.engine import Engine, Searcher, decoded
from nmt.translation.found_batches import FoundBatches
from nmt.translation.guard import Languages
from nmt.translation.guard_repair import GuardRepair
from nmt.translation.line_translator import LineTranslator
from nmt.translation.minimum_bayes_risk import rerank
from nmt.translation.options import TranslateOptions, recorded
from nmt.translation.preparing import Preparation
from nmt.translation.results import BLANK, TranslatedText, Translation
from nmt.translation.segment import Line, Segment, TranslatedSegment, joined_candidates, joined_findings

# The maximum length in shards by default, for bundles that do not record it.
_TRAINED_LENGTH = 256
# Lines have some 30 pieces, so that a window of a GPU's largest batches holds eight of them.
_MIN_WINDOW, _PIECES_PER_LINE = 2_048, 4


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
        known: FoundBatches | None = None,
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
            known: as of :meth:`nmt.translation.engine.Searcher.search`.

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
        self.language_tags = () if self._vocab.source.before else self._vocab.source.language_tags
        self._searcher, self._known = searcher or engine.searcher(self._first_search, workers), known
        self.window = window or max(_MIN_WINDOW, self.batch_tokens // _PIECES_PER_LINE)
        self._preparation = Preparation(
            self._vocab,
            data,
            options,
            self.source_lang,
            positions=self._positions,
            max_source_length=self.max_source_length,
        )
        self._guard = GuardRepair(
            self._vocab,
            Languages(self.source_lang, self.target_lang),
            self._first_search,
            short_ratio=data.lines.target_per_source.p1 if data.lines is not None else 0.0,
            find=self._find,
            preparation=self._preparation,
        )
        self._stages = (self._keep, self._guard.check, self._choose, self._align, self._put_back)

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

    def prepare(self, lines: Sequence[Line]) -> list[list[Segment]]:
        """As :meth:`LineTranslator.prepare`."""
        return self._preparation.segments(lines)

    def split_tag(self, line: str) -> tuple[str, str]:
        """The language tag that a line begins with (or no text), and the rest of the line."""
        return self._vocab.source.split_tag(line)

    def search(self, segments: Sequence[Segment]) -> list[TranslatedSegment]:
        """As :meth:`LineTranslator.search`."""
        found = self._find(segments, self._first_search)
        for stage in self._stages:
            found = stage(found)
        return found

    def joined(self, line: str, parts: Sequence[TranslatedSegment]) -> Translation:
        """As :meth:`LineTranslator.joined`."""
        candidates = joined_candidates(parts, self.target_lang)
        finding = joined_findings(part.finding for part in parts)
        segments = [part.segment for part in parts]
        if any(segment.taken is not None for segment in segments):
            finding = self._guard.check_copied(finding, self.split_tag(line)[1], candidates[0].text)
        return Translation(
            line,
            candidates,
            source_pieces=tuple(self._vocab.source.pieces(piece for segment in segments for piece in segment.pieces)),
            parts=sum(part.parts for part in parts),
            is_cut=any(segment.is_cut for segment in segments),
            guard=finding,
        )

    def _find(self, segments: Sequence[Segment], options: TranslateOptions) -> list[TranslatedSegment]:
        """Search segments. Those without pieces have one empty candidate."""
        beams = self._searcher.search([segment for segment in segments if segment.pieces], options, self._known)
        texts = iter(decoded(self._vocab.target, [hypotheses[: options.nbest] for hypotheses in beams]))
        others = (tuple(hypotheses[options.nbest :]) for hypotheses in beams)
        return [
            TranslatedSegment(segment, self._ranked(next(texts), options), next(others))
            if segment.pieces
            else TranslatedSegment(segment, (BLANK,))
            for segment in segments
        ]

    @staticmethod
    def _ranked(candidates: tuple[TranslatedText, ...], options: TranslateOptions) -> tuple[TranslatedText, ...]:
        """Candidates in the order that the user requested."""
        if not options.mbr:
            return candidates
        # Likely samples are drawn repeatedly, so they need no weights; each hypothesis of a beam occurs once.
        weights = None if options.sampling else [found.log_probability for found in candidates]
        return tuple(
            dataclasses.replace(candidates[choice.index], expected_utility=choice.expected_utility)
            for choice in rerank([found.text for found in candidates], log_probabilities=weights)
        )

    def _keep(self, found: list[TranslatedSegment]) -> list[TranslatedSegment]:
        """Search again, without what stays, where the model saw it and lost it."""

        def again(lost: list[TranslatedSegment]) -> list[TranslatedSegment]:
            return self._find(self._preparation.covered_again([each.segment for each in lost]), self._first_search)

        return changed_where(found, lambda each: each.has_lost, again)

    def _choose(self, found: list[TranslatedSegment]) -> list[TranslatedSegment]:
        """Keep as many candidates as the user requested: reranking and repairs leave more."""
        nbest = self._options.nbest
        return [
            dataclasses.replace(each, candidates=each.candidates[:nbest]) if len(each.candidates) > nbest else each
            for each in found
        ]

    def _align(self, found: list[TranslatedSegment]) -> list[TranslatedSegment]:
        """Add the log-probabilities and the alignment of the pieces to each candidate, where they are needed."""

        def is_needed(each: TranslatedSegment) -> bool:
            taken = each.segment.taken
            has_inner = taken is not None and bool(taken.inner)  # they go where the alignment says
            return self._options.alignment or each.segment.is_aligned or has_inner

        def scores(pairs: Sequence[tuple[Segment, TranslatedText]]) -> list[Hypothesis]:
            return self._engine.score(
                [segment.pieces[: self._positions] for segment, _ in pairs],
                [self._vocab.target.ids(one.pieces) for _, one in pairs],
                self._options,
                alignment=True,
            )

        def aligned(some: Sequence[TranslatedSegment]) -> Iterator[TranslatedSegment]:
            pairs = ([(each.segment, one) for one in each.candidates if each.segment.pieces] for each in some)
            for each, of_one in zip(some, in_groups(pairs, scores), strict=True):
                exact = of_one or [Hypothesis((), 0.0, 0.0, (), ())]  # of a segment without pieces
                candidates = (
                    dataclasses.replace(
                        one, piece_log_probabilities=score.piece_log_probabilities, alignment=score.alignment
                    )
                    for one, score in zip(each.candidates, exact, strict=True)
                )
                yield dataclasses.replace(each, candidates=tuple(candidates))

        return changed_where(found, is_needed, aligned)

    def _put_back(self, found: list[TranslatedSegment]) -> list[TranslatedSegment]:
        """Put what was taken out of texts into their translations."""

        def restored(each: TranslatedSegment) -> TranslatedSegment:
            candidates = [self._preparation.put_back(each.segment, one) for one in each.candidates]
            if not (self._options.alignment or each.segment.is_aligned):  # it was needed only for this
                candidates = [
                    dataclasses.replace(one, piece_log_probabilities=None, alignment=None) for one in candidates
                ]
            return dataclasses.replace(each, candidates=tuple(candidates))

        return changed_where(
            found,
            lambda each: each.segment.taken is not None or each.segment.covered is not None,
            lambda some: map(restored, some),
        )
