"""Whether the input is in the language that the model reads: of other text, a model makes fluent nonsense.

Loading the identifier takes a second, so it is loaded only if translations look strange.
"""

from __future__ import annotations

import importlib.util

from nmt.corpora.wrong_language import (
    SAMPLE,
    SURE,
    alike,
    close_to,
    in_other_script,
    in_words,
    language_identifier,
    seems_to_be,
)
from nmt.translation.line_numbers import LineNumbers
from nmt.translation.results import Translation

_UNLIKELY = -1.25
"""Nats per target piece. Of a model's captions, 3 % are below; of those in languages that it does not read, 94 %."""
_SHARED, _SHARE = 2, 0.2
"""Words that a line and its translation have in common, also as a share of the translation's. Of captions, 4 % have so
many; of those in the target language already, 60 %."""
_MANY, _LARGE_SHARE = 3, 0.4
"""Likewise, so many that it is worth a second to load the identifier. Of 1,000 captions, none has so many; of those in
the target language already, 16 %."""
_AT_ONCE = 100
"""So many lines, at least, are looked at together."""


class InputLanguage:
    """Looks at the lines of an input with their translations."""

    def __init__(self, source_lang: str, target_lang: str) -> None:
        self._source, self._target = source_lang, target_lang
        self._sample: list[str] = []
        self._strange = 0
        self._has_looked = False
        self._is_known_to_be_other = False
        self._lines: list[tuple[int, str, bool]] = []
        """Lines to look at, by their numbers, and whether their translations share many words with them."""
        self._in_target = LineNumbers()
        can_tell = importlib.util.find_spec("py3langid") is not None and bool(target_lang)
        self._may_be_in_target = can_tell and not alike(target_lang) & close_to(source_lang)

    def add(self, number: int, text: str, translation: Translation) -> None:
        """Take note of a line.

        Args:
            text: of the line, without a tag.
        """
        if not text:
            return
        if not self._has_looked and sum(map(len, self._sample)) < SAMPLE:
            self._sample.append(text[:SAMPLE])
            is_strange = _is_strange(translation.via or translation)
            self._strange += is_strange or _shares_words(translation, _SHARED, _SHARE)
        if self._may_be_in_target and not self._is_known_to_be_other:
            self._lines.append((number, text[:SAMPLE], _shares_words(translation, _MANY, _LARGE_SHARE)))

    def doubt(self, *, at_end: bool) -> str:
        """What seems to be wrong: soon that the text is in another language, at the end that some lines are in the
        target language already. Empty if nothing does, or if it was said before."""
        if not self._has_looked and (at_end or sum(map(len, self._sample)) >= SAMPLE):
            self._has_looked = True
            if doubt := self._about_sample():
                self._is_known_to_be_other = True
                self._lines.clear()
                return doubt
        if at_end or len(self._lines) >= _AT_ONCE:
            self._look_for_target_language()
        found = self._in_target
        if not (at_end and found.count):
            return ""
        self._in_target = LineNumbers()
        return f"lines that look like {in_words(self._target)} already: {found.count:,} ({found})."

    def _about_sample(self) -> str:
        translates = f"but the model translates from {in_words(self._source)}"
        is_foreign = in_other_script(self._source)
        if is_foreign and 2 * sum(map(is_foreign, self._sample)) > len(self._sample):
            return f"most of the sampled lines are in another script, {translates}."
        if 2 * self._strange < len(self._sample) or not (found := seems_to_be(self._sample, self._source)):
            return ""
        to_it = " to it" * (found in alike(self._target))
        return f"most of the sampled text looks like {in_words(found)}, {translates}{to_it}."

    def _look_for_target_language(self) -> None:
        lines, self._lines = self._lines, []
        # Only beside such a line that shares many words with its translation, the others are worth a look.
        if any(shares and self._is_in_target(text) for _, text, shares in lines):
            for number, text, _ in lines:
                if self._is_in_target(text):
                    self._in_target.add(number)

    def _is_in_target(self, text: str) -> bool:
        identifier = language_identifier()
        label, probability = identifier.classify(text)
        is_sure = probability >= SURE and not alike(self._source).isdisjoint(identifier.labels)
        return bool(is_sure) and label in alike(self._target)


def _shares_words(translation: Translation, least: int, share: float) -> bool:
    source, output = (set(text.lower().split()) for text in (translation.source, translation.text))
    shared = sum(map(str.isalpha, source & output))
    return shared >= max(least, share * len(output))


def _is_strange(translation: Translation) -> bool:
    """Whether the text may be in another language. A translation without pieces says nothing of itself."""
    best = translation.candidates[0]
    mean = best.log_probability / (len(best.pieces) + translation.parts)
    return translation.guard is not None or best.text == translation.source or not best.pieces or mean < _UNLIKELY
