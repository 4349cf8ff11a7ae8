"""Which of the server's source languages a text is in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from nmt.corpora.wrong_language import alike, language_identifier
from nmt.text.languages import fitting, primary_language

# The identifier's time grows with the text, and so many characters are enough.
_ENOUGH = 2_000


class Detector:
    """Identifies languages."""

    def __init__(self, languages: Sequence[str]) -> None:
        """Prepare to tell the languages apart.

        Args:
            languages: language tags.
        """
        self._languages = languages

    async def detect(self, text: str) -> list[tuple[str, float]]:
        """The languages that a text may be in, each with its probability; likeliest first.

        A text without letters may be in any language.
        """
        return await asyncio.to_thread(self.ranked, text)

    async def source(self, text: str, among: Sequence[str]) -> tuple[str, float]:
        """The likeliest of some of the server's languages, and its probability."""
        return next(pair for pair in await self.detect(text) if pair[0] in among)

    def ranked(self, text: str) -> list[tuple[str, float]]:
        """As :meth:`detect`. The first call takes about a second."""
        if not any(map(str.isalpha, text[:_ENOUGH])):
            return [(language, 0.0) for language in self._languages]
        ranked = {code: float(probability) for code, probability in language_identifier().rank(text[:_ENOUGH])}
        found = [(tag, _probability(ranked, tag)) for tag in self._languages]
        likeliest = max(ranked, key=ranked.__getitem__)
        if not any(fitting(self._languages, code) for code in alike(likeliest)):
            found.append((likeliest, ranked[likeliest]))
        return sorted(found, key=lambda pair: -pair[1])


def _probability(ranked: Mapping[str, float], tag: str) -> float:
    """The probability of a language; of one that the identifier does not know, that of the likeliest like it."""
    language = primary_language(tag)
    codes = [language] if language in ranked else alike(language)
    return max(ranked.get(code, 0.0) for code in codes)
