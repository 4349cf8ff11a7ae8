"""The filters of pairs that a recipe turns on, in the order in which they are applied."""

from __future__ import annotations

from nmt.corpora.filters.characters import few_letters, has_control_characters, long_words
from nmt.corpora.filters.languages import language_identifier, other_language
from nmt.corpora.filters.markup import has_markup
from nmt.corpora.filters.numbers import numbers_differ
from nmt.corpora.filters.pair_filter import Finder
from nmt.corpora.filters.scripts import other_script
from nmt.corpora.filters.web_addresses import web_addresses_differ
from nmt.corpora.schema import Filters


def chosen_filters(filters: Filters, source_lang: str, target_lang: str) -> dict[str, Finder]:
    """The filters that are on, by the name of their setting: those that need only the pair, and are off by default."""
    chosen: dict[str, Finder] = {}
    if filters.control:
        chosen["control"] = has_control_characters
    if filters.html:
        chosen["html"] = has_markup
    if filters.long_words is not None:
        chosen["long_words"] = long_words(source_lang, target_lang, filters.long_words)
    if filters.letters is not None:
        chosen["letters"] = few_letters(filters.letters)
    if filters.script:
        chosen["script"] = other_script(source_lang, target_lang)
    if filters.language_id is not None:
        chosen["language_id"] = other_language(source_lang, target_lang, filters.language_id)
    if filters.numbers:
        chosen["numbers"] = numbers_differ
    if filters.urls:
        chosen["urls"] = web_addresses_differ
    return chosen


def check_packages(filters: Filters) -> None:
    """Refuse a filter whose package is missing, before anything is fetched.

    Raises:
        NmtError: it is not installed.
    """
    if filters.language_id is not None:
        language_identifier()
