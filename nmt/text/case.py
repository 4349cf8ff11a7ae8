"""Capitals and small letters, as a language writes them."""

from __future__ import annotations

import unicodedata

from nmt.text.languages import primary_language

_DOTTED_I = frozenset({"az", "crh", "tr"})
"""Languages in which İ is the capital of i, and I that of ı."""
_ACCENT = "\u0301"


def upper(text: str, language: str) -> str:
    """A text in capitals. Greek ones have no accent."""
    code = primary_language(language)
    if code in _DOTTED_I:
        text = text.replace("i", "İ")
    elif code == "el":
        text = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).replace(_ACCENT, ""))
    return text.upper()


def lower(text: str, language: str) -> str:
    """A text in small letters."""
    if primary_language(language) in _DOTTED_I:
        text = text.replace("I", "ı").replace("İ", "i")
    return text.lower()


def capitalized(text: str, language: str) -> str:
    """A text with a capital at its beginning; the rest stays."""
    is_dotted = text[:1] == "i" and primary_language(language) in _DOTTED_I
    return ("İ" if is_dotted else text[:1].upper()) + text[1:]
