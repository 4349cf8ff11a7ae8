"""Which of the server's languages a text is in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nmt.corpora.wrong_language import NO_LANGUAGE, SAMPLE, SURE, alike, close_to, in_other_script, language_identifier
from nmt.text.languages import fitting, primary_language

_CLEARLY = 5
"""How many times likelier than any source language the target must be. 4 of 5,000 phrases of captions are in error."""


class Detector:
    """Identifies languages."""

    def __init__(self, languages: Sequence[str]) -> None:
        """Prepare to tell the languages apart.

        Args:
            languages: language tags.
        """
        self._languages = languages

    def source(self, text: str, sources: Sequence[str], target: str) -> tuple[str, float]:
        """The likeliest of some languages, and its probability; the target if that is clearly likelier than all."""
        ranked = dict(self.ranked(text))
        source = max(sources, key=ranked.__getitem__)
        is_clear = ranked[target] > _CLEARLY * ranked[source]
        if is_clear and not any(alike(target) & alike(code) for code in sources):
            source = target
        return source, ranked[source]

    @staticmethod
    def other(text: str, language: str) -> str | None:
        """The language that a text is surely in, if it is not the given one; no text if only its script says so.

        None for short texts, names and figures in the language's script, and if the identifier does not know the
        language.
        """
        text, own, identifier = text[:SAMPLE], alike(language), language_identifier()
        is_foreign = in_other_script(language)
        unnamed = "" if is_foreign and is_foreign(text) else None
        if own.isdisjoint(identifier.labels) or not _has_letters(text):
            return unnamed
        found, probability = identifier.classify(text)
        return str(found) if probability >= SURE and found not in close_to(language) | {NO_LANGUAGE} else unnamed

    def ranked(self, text: str) -> list[tuple[str, float]]:
        """The languages that a text may be in, each with its probability; likeliest first.

        A text without letters may be in any language. The first call takes about a second.
        """
        if not _has_letters(text):
            return [(language, 0.0) for language in self._languages]
        ranked = {code: float(probability) for code, probability in language_identifier().rank(text[:SAMPLE])}
        found = [(tag, _probability(ranked, tag)) for tag in self._languages]
        likeliest = max(ranked, key=ranked.__getitem__)
        if not any(fitting(self._languages, code) for code in alike(likeliest)):
            found.append((likeliest, ranked[likeliest]))
        return sorted(found, key=lambda pair: -pair[1])


def _has_letters(text: str) -> bool:
    return any(map(str.isalpha, text[:SAMPLE]))


def _probability(ranked: Mapping[str, float], tag: str) -> float:
    """The probability of a language; of one that the identifier does not know, that of the likeliest like it."""
    language = primary_language(tag)
    codes = [language] if language in ranked else alike(language)
    return max(ranked.get(code, 0.0) for code in codes)
