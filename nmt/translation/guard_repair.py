"""Repair of the translations that the guard doubts: search again, and replace them with better ones."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Sequence

from nmt.data.vocab_pair import VocabularyPair
from nmt.search.hypotheses import length_penalty
from nmt.search.settings import BeamTooWideError, SearchSettings
from nmt.text.verbatim import numbers, numbers_changed
from nmt.translation.engine import Searcher, decoded
from nmt.translation.guard import Finding, Languages, Problem, changed, problems
from nmt.translation.results import TranslatedText
from nmt.translation.segment import Segment, joined_segments


class GuardRepair:
    """Checks the translations that a search found, and repairs the wrong ones."""

    def __init__(
        self,
        vocab: VocabularyPair,
        languages: Languages,
        settings: SearchSettings,
        searcher: Searcher,
        *,
        short_ratio: float,
        repairs: bool,
        rerank: Callable[[list[Segment]], None],
        sentences: Callable[[str], list[Segment]],
    ) -> None:
        """Prepare to check translations.

        Args:
            settings: the settings of the first search.
            searcher: searches again.
            short_ratio: see :func:`nmt.translation.guard.problems`.
            repairs: search again where a translation looks wrong; otherwise only record the finding.
            rerank: orders the candidates of segments as the user requested.
            sentences: divides a text into sentences, each a segment.
        """
        self._vocab = vocab
        self._languages = languages
        self._settings = settings
        self._short_ratio = short_ratio
        self._repairs = repairs
        self._searcher = searcher
        self._rerank = rerank
        self._sentences = sentences

    def check(self, segments: list[Segment]) -> None:
        """Record the problems of translations, and replace wrong ones with better ones."""
        doubtful = []
        for segment in segments:
            if found := self._problems(segment, segment.candidates[0]):
                segment.finding = Finding(found, repaired=False)
                doubtful.append(segment)
        if self._repairs and doubtful:
            self._replace(doubtful)
        for segment in segments:
            segment.others = ()  # nothing needs them now, and a server remembers segments

    def _replace(self, doubtful: list[Segment]) -> None:
        """Replace wrong translations with better ones, as far as there are any."""
        still_doubtful = [segment for segment in doubtful if not self._is_incomplete(segment)]
        still_doubtful += self._search_by_sentence(list(filter(self._is_incomplete, doubtful)))
        still_doubtful = [segment for segment in still_doubtful if not self._repair(segment, self._finished(segment))]
        for segment, second in zip(still_doubtful, self._search_wider(still_doubtful), strict=True):
            if not self._repair(segment, second):
                self._improve(segment, [*self._finished(segment), *second])

    @staticmethod
    def check_copied(finding: Finding | None, source: str, output: str) -> Finding | None:
        """The finding of a line into whose translation unknown characters were put back: they may be parts of what has
        to be kept, such as the braces of a placeholder. It is too late for a repair.
        """
        if not (found := changed(source, output)):
            return finding
        return Finding(tuple(dict.fromkeys([*(finding.problems if finding else ()), *found])), repaired=False)

    def _finished(self, segment: Segment) -> Sequence[TranslatedText]:
        """All that the first search has finished."""
        return *segment.candidates, *decoded(self._vocab.target, [segment.others])[0]

    def _search_wider(self, segments: list[Segment]) -> list[list[TranslatedText]]:
        """The candidates of a second search. There is none for samples, which only other samples may replace."""
        again = [dataclasses.replace(segment, candidates=(), others=(), finding=None) for segment in segments]
        if not self._settings.sampling:
            with contextlib.suppress(BeamTooWideError):  # keep the results of the first search
                self._searcher.search(again, _second_search(self._settings))
        return [[self._scored(candidate) for candidate in segment.candidates] for segment in again]

    def _scored(self, candidate: TranslatedText) -> TranslatedText:
        """A candidate of the second search, with the score that the first would give it."""
        length, settings = len(candidate.pieces) + 1, self._settings
        penalty = length_penalty(length, settings.length_penalty, settings.length_normalization)
        return dataclasses.replace(candidate, score=candidate.log_probability / penalty)

    def _is_incomplete(self, segment: Segment) -> bool:
        """Whether to search its sentences one by one. A segment with a prefix cannot be split."""
        is_incomplete = segment.finding is not None and "incomplete" in segment.finding.problems
        is_begun = len(segment.prefix) > len(self._vocab.target.before)
        return is_incomplete and not is_begun and self._settings.sampling is None

    def _search_by_sentence(self, segments: list[Segment]) -> list[Segment]:
        """Search each sentence of the segments separately. Returns the segments that were not repaired."""
        parts_of = [self._sentences(segment.text) for segment in segments]
        for segment, its_parts in zip(segments, parts_of, strict=True):
            for part in its_parts:
                part.number = segment.number  # the seed of its samples
        parts = list(itertools.chain.from_iterable(parts_of))
        try:
            self._searcher.search(parts, self._settings)
        except BeamTooWideError:  # keep the results of the first search
            return segments
        self._rerank(parts)
        still_doubtful = []
        for segment, its_parts in zip(segments, parts_of, strict=True):
            if self._repair(segment, joined_segments(its_parts, self._languages.target)):
                segment.parts = len(its_parts)
                segment.is_cut = segment.is_cut or any(part.is_cut for part in its_parts)
            else:
                still_doubtful.append(segment)
        return still_doubtful

    def _repair(self, segment: Segment, candidates: Sequence[TranslatedText]) -> bool:
        """Move the best candidate without problems to the first place. Returns whether there is one."""
        # A new number may be a word of the source, so it is no finding; but a repair of numbers does not rely on that.
        compares = segment.finding is not None and "number" in segment.finding.problems
        for candidate in candidates:
            is_new = compares and numbers_changed(self._source(segment), candidate.text, may_be_words=False)
            if not is_new and not self._problems(segment, candidate) and self._keeps_numbers(segment, candidate):
                _put_first(segment, candidate)
                segment.finding = dataclasses.replace(segment.finding, repaired=True) if segment.finding else None
                return True
        return False

    def _improve(self, segment: Segment, candidates: Sequence[TranslatedText]) -> None:
        """Move the first candidate that has only some of the problems, and no other, to the first place."""
        known = set(self._problems(segment, segment.candidates[0]))
        for candidate in candidates:
            if set(self._problems(segment, candidate)) < known and self._keeps_numbers(segment, candidate):
                _put_first(segment, candidate)
                return

    def _problems(self, segment: Segment, candidate: TranslatedText) -> tuple[Problem, ...]:
        return problems(
            self._source(segment),
            self._vocab.source.pieces(segment.pieces),
            candidate.text,
            candidate.pieces,
            self._languages,
            short_ratio=self._short_ratio,
        )

    def _keeps_numbers(self, segment: Segment, candidate: TranslatedText) -> bool:
        """Whether a candidate has all numbers of the source that the first candidate has."""
        kept = Counter(numbers(self._source(segment))) & Counter(numbers(segment.candidates[0].text))
        return kept <= Counter(numbers(candidate.text))

    def _source(self, segment: Segment) -> str:
        """The text of a segment without a tag of the target language, which may have a number: ``>>es_419<<``."""
        return self._vocab.source.split_tag(segment.text)[1]


def _put_first(segment: Segment, candidate: TranslatedText) -> None:
    segment.candidates = (candidate, *(other for other in segment.candidates if other is not candidate))


def _second_search(settings: SearchSettings) -> SearchSettings:
    """The settings of the second search.

    A wider beam keeps hypotheses that begin less well, and so avoids the loop of the first search. Wide beams prefer
    short outputs; a larger length penalty and a minimum length of at least 1 make up for that. All hypotheses are
    returned.
    """
    beam = max(8, 2 * settings.beam)
    changes = {
        "beam": beam,
        "nbest": beam,
        "length_penalty": max(1.0, settings.length_penalty),
        "min_length": max(1, settings.min_length),
    }
    return settings.model_copy(update=changes)
