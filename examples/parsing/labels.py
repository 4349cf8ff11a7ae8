"""The labels of the Penn Treebank that mean more than a category."""

from __future__ import annotations

import re

TRACE = "-NONE-"
"""The tag of traces, which stand for no word."""
WORD = "XX"
"""The one tag that stands for all tags of words."""
ROOTS = frozenset({"", "TOP", "ROOT", "S1"})
"""Labels of a bracket around the whole tree that says nothing."""
PUNCTUATION = frozenset({",", ":", "``", "''", "."})
"""The tags that evalb leaves out."""

_TAGS = {
    ",": ",",
    **dict.fromkeys([".", "?", "!"], "."),
    **dict.fromkeys([":", ";", "--", "-", "..."], ":"),
    **dict.fromkeys(["``", "`"], "``"),
    "''": "''",
}


def category(label: str) -> str:
    """A label without function tags and indices: ``NP`` for ``NP-SBJ-1`` and ``NP=2``."""
    return re.split("[-=]", label, maxsplit=1)[0]


def plain_tag(word: str) -> str:
    """The tag of a punctuation mark, and ``XX`` for any other word."""
    return _TAGS.get(word, WORD)
