"""The filter of pairs whose sides have different URLs or e-mail addresses."""

from __future__ import annotations

import re

from nmt.corpora.filters.pair_filter import Pair

# ASCII only: in Chinese and Japanese, an address may be followed by a letter of the sentence.
_URL = re.compile(r"(?<![A-Za-z0-9])(?:(?:https?|ftp)://|www\.)[!#-;=?-Z\[\]_a-z~]++", re.IGNORECASE)
# An address is read from its beginning only, so the time is linear.
_EMAIL = re.compile(r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]++@[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]++)+")
_PUNCTUATION = ".,;:!?'()[]*_/"
"""Punctuation that ends a sentence and not an address; the slash at the end changes nothing."""


def web_addresses_differ(pair: Pair) -> bool:
    """Whether the sides have different URLs or e-mail addresses."""
    source, target = pair
    return web_addresses(source) != web_addresses(target)


def web_addresses(line: str) -> set[str]:
    """The URLs and e-mail addresses of a line, in lower case."""
    urls = _URL.findall(line) if "://" in line or "www." in line.lower() else []
    emails = _EMAIL.findall(line) if "@" in line else []
    return {address.rstrip(_PUNCTUATION).lower() for address in (*urls, *emails)}
