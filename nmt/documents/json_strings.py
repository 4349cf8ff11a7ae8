"""JSON with texts for users, by keys (``en.json``, ``messages.json``, ``.arb``): each string that is a value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from nmt.documents.document import Document, DocumentError, Place, Reading
from nmt.documents.strings import places_of, without_surrogates
from nmt.text.lines import one_line

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]')
# What describes a message in the files of browser extensions.
_DESCRIPTIONS = frozenset(["description", "placeholders"])


def read(text: str, reading: Reading) -> Document:
    """Find the strings to translate: not those below a key with an ``@``, as in ``.arb``, which describe others.

    Raises:
        DocumentError: this is not JSON.
    """
    try:
        # The numbers are not used, and Python refuses to read those of thousands of digits.
        whole = json.loads(text.removeprefix("\ufeff"), parse_int=str)
    except json.JSONDecodeError as error:
        raise DocumentError(text, error.pos, f"this is not JSON: {error.msg}.") from None
    messages = isinstance(whole, dict) and bool(whole) and all(_is_message(value) for value in whole.values())
    return Document(text, list(_places(text, reading, of_messages=messages)), one_line)


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("message"), str)


def _places(text: str, reading: Reading, *, of_messages: bool) -> Iterator[Place]:
    keys: list[str | None] = []  # of the values around; None in a list
    is_key = False
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "{" | "[":
                keys.append("" if token[0] == "{" else None)
                is_key = token[0] == "{"
            case "}" | "]":
                keys.pop()
            case ",":
                is_key = keys[-1] is not None
            case ":":
                is_key = False
            case string if is_key:
                keys[-1] = json.loads(string)
            case string:
                names = [key for key in keys if key is not None]
                if not any(key.startswith("@") or (of_messages and key in _DESCRIPTIONS) for key in names):
                    start, end = token.start() + 1, token.end() - 1
                    value = without_surrogates(json.loads(string))
                    yield from places_of(value, start, end, _escaped, language=reading.source_lang)


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
