"""Which of the server's source languages a text is in."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from nmt.corpora.wrong_language import language_identifier
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

    async def source(self, text: str) -> tuple[str, float]:
        """The server's language that a text is likeliest in, and its probability."""
        return next(pair for pair in await self.detect(text) if pair[0] in self._languages)

    def ranked(self, text: str) -> list[tuple[str, float]]:
        """As :meth:`detect`. The first call takes about a second."""
        if not any(map(str.isalpha, text[:_ENOUGH])):
            return [(language, 0.0) for language in self._languages]
        ranked = {code: float(probability) for code, probability in language_identifier().rank(text[:_ENOUGH])}
        found = [(tag, ranked.get(primary_language(tag), 0.0)) for tag in self._languages]
        likeliest = max(ranked, key=ranked.__getitem__)
        if not fitting(self._languages, likeliest):
            found.append((likeliest, ranked[likeliest]))
        return sorted(found, key=lambda pair: -pair[1])
