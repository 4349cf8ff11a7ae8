"""Repair of the translations that the guard doubts: search again, and replace them with better ones."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from nmt.data.vocab_pair import VocabularyPair
from nmt.search.hypotheses import length_penalty
from nmt.search.settings import BeamTooWideError
from nmt.text.case import capitalized, lower, upper
from nmt.text.verbatim import numbers, numbers_changed, spans
from nmt.translation.at_once import changed_where, in_groups
from nmt.translation.engine import decoded
from nmt.translation.guard import Finding, Languages, Problem, changed, problems
from nmt.translation.options import TranslateOptions
from nmt.translation.preparing import Preparation
from nmt.translation.results import TranslatedText
from nmt.translation.segment import Segment, TranslatedSegment, joined_candidates

_VERBATIM = frozenset[Problem]({"placeholder", "url"})

Find = Callable[[Sequence[Segment], TranslateOptions], list[TranslatedSegment]]
"""Searches segments, and orders their candidates as the options say."""


class GuardRepair:
    """Checks the translations that a search found, and repairs the wrong ones."""

    def __init__(
        self,
        vocab: VocabularyPair,
        languages: Languages,
        options: TranslateOptions,
        *,
        short_ratio: float,
        find: Find,
        preparation: Preparation,
    ) -> None:
        """Prepare to check translations.

        Args:
            options: those of the first search. Without ``guard``, findings are only recorded.
            short_ratio: see :func:`nmt.translation.guard.problems`.
            find: searches again.
            preparation: made the segments.
        """
        self._vocab = vocab
        self._languages = languages
        self._options = options
        self._short_ratio = short_ratio
        self._find = find
        self._preparation = preparation

    def check(self, found: list[TranslatedSegment]) -> list[TranslatedSegment]:
        """Record the problems of translations, and replace wrong ones with better ones, as far as there are any."""
        found = list(map(self._checked, found))
        if self._options.guard:
            found = changed_where(found, self._is_in_capitals, self._in_lower_case)
            found = changed_where(found, self._is_incomplete, self._by_sentence)
            found = changed_where(found, _is_wrong, self._by_next_best)
            found = changed_where(found, self._has_lost, self._without_verbatim)
            found = changed_where(found, _is_wrong, self._by_wider_search)
        # Nothing needs the others now, and a server remembers translations.
        return [dataclasses.replace(each, others=()) if each.others else each for each in found]

    def _checked(self, found: TranslatedSegment) -> TranslatedSegment:
        known = self._problems(found, found.candidates[0]) if found.segment.pieces else ()
        return dataclasses.replace(found, finding=Finding(known, repaired=False)) if known else found

    @staticmethod
    def check_copied(finding: Finding | None, source: str, output: str) -> Finding | None:
        """The finding of a line into whose translation unknown characters were put back: they may be parts of what has
        to be kept, such as the braces of a placeholder. It is too late for a repair.
        """
        if not (found := changed(source, output)):
            return finding
        return Finding(tuple(dict.fromkeys([*(finding.problems if finding else ()), *found])), repaired=False)

    def _may_be_respelt(self, segment: Segment) -> bool:
        """Whether another text may be searched in place of a segment's: nothing of it was begun or taken out before."""
        stays = segment.covered is not None and bool(segment.covered.kept)
        return not (segment.is_begun or segment.taken or stays or self._options.sampling)

    def _is_in_capitals(self, found: TranslatedSegment) -> bool:
        """Whether a segment with a wrong translation is in capitals, of which most models have read little."""
        return _is_wrong(found) and self._may_be_respelt(found.segment) and self._source(found).isupper()

    def _in_lower_case(self, doubtful: list[TranslatedSegment]) -> list[TranslatedSegment]:
        """Search segments in lower case, and write their translations in capitals."""
        texts = [f"{tag} {rest}".lstrip() for tag, rest in map(self._respelt, doubtful)]
        respelt = [
            dataclasses.replace(found.segment, text=text, pieces=pieces)
            for found, text, pieces in zip(doubtful, texts, self._vocab.source.encode(texts), strict=True)
        ]
        return self._by_other_texts(doubtful, respelt, self._in_capitals)

    def _in_capitals(self, found: TranslatedSegment) -> TranslatedSegment:
        language = self._languages.target
        candidates = (dataclasses.replace(each, text=upper(each.text, language)) for each in found.candidates)
        return dataclasses.replace(found, candidates=tuple(candidates))

    def _respelt(self, found: TranslatedSegment) -> tuple[str, str]:
        """The tag of a segment, and the rest of its text in lower case."""
        tag, rest = self._vocab.source.split_tag(found.segment.text)
        language = self._languages.source
        return tag, capitalized(lower(rest.strip(), language), language)

    def _by_other_texts(
        self,
        doubtful: list[TranslatedSegment],
        others: Sequence[Segment],
        written: Callable[[TranslatedSegment], TranslatedSegment] = lambda found: found,
    ) -> list[TranslatedSegment]:
        """Search segments with other texts in place of the doubtful ones.

        Args:
            written: what becomes of a translation of another text, as the doubtful one is to be written.
        """
        try:
            found_again = self._find(others, self._options)
        except BeamTooWideError:  # keep the results of the first search
            return doubtful
        repaired = (
            self._repaired(dataclasses.replace(again, finding=found.finding), again.candidates)
            for found, again in zip(doubtful, found_again, strict=True)
        )
        return [found if better is None else written(better) for found, better in zip(doubtful, repaired, strict=True)]

    def _finished(self, found: TranslatedSegment) -> Sequence[TranslatedText]:
        """All that the first search has finished."""
        return *found.candidates, *decoded(self._vocab.target, [found.others])[0]

    def _by_next_best(self, doubtful: list[TranslatedSegment]) -> Iterator[TranslatedSegment]:
        """Take what else the first search has finished."""
        return (self._repaired(found, self._finished(found)) or found for found in doubtful)

    def _has_lost(self, found: TranslatedSegment) -> bool:
        """Whether a translation lacks a placeholder or a web address that can be put back into it."""
        problems = found.finding.problems if found.finding is not None else ()
        is_changed = _is_wrong(found) and not _VERBATIM.isdisjoint(problems)
        may_be_put_back = self._may_be_respelt(found.segment) and self._preparation.takes_out
        return is_changed and may_be_put_back and bool(spans(self._source(found)))  # else it was invented

    def _without_verbatim(self, doubtful: list[TranslatedSegment]) -> list[TranslatedSegment]:
        """Search segments without what the model does not copy."""
        return self._by_other_texts(doubtful, self._preparation.without_verbatim([found.segment for found in doubtful]))

    def _by_wider_search(self, doubtful: list[TranslatedSegment]) -> Iterator[TranslatedSegment]:
        """Search again with a wider beam. Only other samples may replace samples, so there is no search for these."""
        second: Sequence[TranslatedSegment] = ()
        if not self._options.sampling:
            with contextlib.suppress(BeamTooWideError):  # keep the results of the first search
                second = self._find([found.segment for found in doubtful], _second_search(self._options))
        for found, again in itertools.zip_longest(doubtful, second):
            candidates = [self._scored(candidate) for candidate in again.candidates] if again else []
            repaired = self._repaired(found, candidates)
            yield repaired or self._improved(found, [*self._finished(found), *candidates])

    def _scored(self, candidate: TranslatedText) -> TranslatedText:
        """A candidate of the second search, with the score that the first would give it."""
        length, options = len(candidate.pieces) + 1, self._options
        penalty = length_penalty(length, options.length_penalty, options.length_normalization)
        return dataclasses.replace(candidate, score=candidate.log_probability / penalty)

    def _is_incomplete(self, found: TranslatedSegment) -> bool:
        """Whether to search its sentences one by one. A segment whose translation is begun cannot be split."""
        is_incomplete = found.finding is not None and "incomplete" in found.finding.problems
        may_be_split = not found.segment.is_begun and self._options.sampling is None
        return _is_wrong(found) and is_incomplete and may_be_split

    def _by_sentence(self, doubtful: list[TranslatedSegment]) -> list[TranslatedSegment]:
        """Search each sentence of the segments separately."""
        sentences = [self._preparation.sentences(found.segment) for found in doubtful]
        try:
            parts_of = in_groups(sentences, lambda parts: self._find(parts, self._options))
        except BeamTooWideError:  # keep the results of the first search
            return doubtful
        return list(map(self._joined, doubtful, parts_of))

    def _joined(self, found: TranslatedSegment, parts: Sequence[TranslatedSegment]) -> TranslatedSegment:
        """A segment with the joined translations of its sentences, if they are better."""
        repaired = self._repaired(found, joined_candidates(parts, self._languages.target))
        if repaired is None:
            return found
        is_cut = found.segment.is_cut or any(part.segment.is_cut for part in parts)
        return dataclasses.replace(
            repaired, segment=dataclasses.replace(found.segment, is_cut=is_cut), parts=len(parts)
        )

    def _repaired(self, found: TranslatedSegment, candidates: Sequence[TranslatedText]) -> TranslatedSegment | None:
        """The segment with the best candidate without problems in the first place; None if there is none."""
        # A new number may be a word of the source, so it is no finding; but a repair of numbers does not rely on that.
        known = found.finding.problems if found.finding else ()
        for candidate in candidates:
            is_new = "number" in known and numbers_changed(self._source(found), candidate.text, may_be_words=False)
            if not is_new and not self._problems(found, candidate) and self._keeps_numbers(found, candidate):
                return dataclasses.replace(_with_first(found, candidate), finding=Finding(known, repaired=True))
        return None

    def _improved(self, found: TranslatedSegment, candidates: Sequence[TranslatedText]) -> TranslatedSegment:
        """The segment with the first candidate that has only some of the problems, and no other, in the first place."""
        known = set(self._problems(found, found.candidates[0]))
        for candidate in candidates:
            if set(self._problems(found, candidate)) < known and self._keeps_numbers(found, candidate):
                return _with_first(found, candidate)
        return found

    def _problems(self, found: TranslatedSegment, candidate: TranslatedText) -> tuple[Problem, ...]:
        return problems(
            self._source(found),
            self._vocab.source.pieces(found.segment.pieces),
            candidate.text,
            candidate.pieces,
            self._languages,
            short_ratio=self._short_ratio,
        )

    def _keeps_numbers(self, found: TranslatedSegment, candidate: TranslatedText) -> bool:
        """Whether a candidate has all numbers of the source that the first candidate has."""
        kept = Counter(numbers(self._source(found))) & Counter(numbers(found.candidates[0].text))
        return kept <= Counter(numbers(candidate.text))

    def _source(self, found: TranslatedSegment) -> str:
        """The text of a segment without a tag of the target language, which may have a number: ``>>es_419<<``."""
        return self._vocab.source.split_tag(found.segment.text)[1]


def _is_wrong(found: TranslatedSegment) -> bool:
    return found.finding is not None and not found.finding.repaired


def _with_first(found: TranslatedSegment, candidate: TranslatedText) -> TranslatedSegment:
    others = (other for other in found.candidates if other is not candidate)
    return dataclasses.replace(found, candidates=(candidate, *others))


def _second_search(options: TranslateOptions) -> TranslateOptions:
    """The settings of the second search.

    A wider beam keeps hypotheses that begin less well, and so avoids the loop of the first search. Wide beams prefer
    short outputs; a larger length penalty and a minimum length of at least 1 make up for that. All hypotheses are
    returned.
    """
    beam = max(8, 2 * options.beam)
    changes = {
        "beam": beam,
        "nbest": beam,
        "length_penalty": max(1.0, options.length_penalty),
        "min_length": max(1, options.min_length),
        "mbr": False,
    }
    return options.model_copy(update=changes)
