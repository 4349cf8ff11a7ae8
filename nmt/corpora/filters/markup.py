"""The filter of HTML and XML: tags, comments and entities."""

from __future__ import annotations

import re
from html.entities import html5

from nmt.corpora.filters.pair_filter import Pair

# A tag has no attributes or at least one with a value: "x <y and z> w" is not a tag. All repetitions are possessive, so
# the time is linear.
_TAG = re.compile(
    r"<(?:/?[A-Za-z][\w:.-]*+\s*+(?:/?>|[\w:.-]++\s*+=[^<>]*+>)|!--|!DOCTYPE|!\[CDATA\[|\?xml)", re.IGNORECASE
)
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|([A-Za-z][A-Za-z0-9]{1,31}));")


def has_markup(pair: Pair) -> bool:
    """Whether a side has HTML or XML."""
    return any(("<" in line and _TAG.search(line)) or ("&" in line and _has_entity(line)) for line in pair)


def _has_entity(line: str) -> bool:
    return any(match[1] is None or f"{match[1]};" in html5 for match in _ENTITY.finditer(line))
