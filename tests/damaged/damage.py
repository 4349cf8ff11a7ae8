"""How the content of a file is damaged: bytes flipped, cut, repeated, swapped or put in; values replaced.

Damage is described by plain values, so that hypothesis can shrink it and a case can be repeated.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import yaml
from hypothesis import strategies as st

_PLACES = 1 << 16
"""Positions are shares of the content's length, so that they fit content of any length."""

TOKENS = (
    b"", b"\0", b"\n", b"\r\n", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"null", b"true", b"[]", b"{}", b'""',
    b"-1", b"0", b"NaN", b"-Infinity", b"1e999", b"0x", b"9" * 30, b"9" * 5_000, b"[" * 3_000, b'{"a":' * 3_000,
    b'"\\ud800"', b"\\", b'"', b"'", b"- ", b": ", b"? ", b"&a ", b"*a", b"<<: ", b"!!set ", b"2024-01-01", b"---\n",
    b"%YAML 9.9\n", b"../../", b"/", b"<seg", b"</seg>", b"<!DOCTYPE a [", b"&#1114112;", b"\x1b[2J", b"\xff" * 8,
    b"\x1f\x8b", b"a " * 3_000, b"." * 3_000, "a\u0301".encode() + "\u0301".encode() * 3_000,
)  # fmt: skip

DEEP: Any = "a"
for _ in range(150):
    DEEP = [DEEP]

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 1.5, -0.0, 5e-324, 1.7e308, math.inf, math.nan, 2**31, 2**63, -(2**63), 2**64, 10**30,
    "", "0", "-1", "nan", "a", "\0", "\ud800", "\x1b[2J", "../../a", "/", "é" * 300, [], [None], [[]], [1, 2], {},
    {"a": None}, {"a": {"a": []}}, DEEP,
)  # fmt: skip
"""What a value is replaced with: other types, and the ends of their ranges."""


class Edit(NamedTuple):
    """One change of some bytes."""

    kind: str
    place: int
    length: int
    other: int


class Replacement(NamedTuple):
    """One change of a value in a tree: of JSON, JSON lines, YAML, or the header of tensors."""

    kind: str
    place: int
    value: int


Damage = list[Edit | Replacement]

EDITS = st.builds(
    Edit,
    st.sampled_from(["flip", "cut", "truncate", "repeat", "swap", "insert", "overwrite", "fill"]),
    st.integers(0, _PLACES - 1),
    st.one_of(st.integers(1, 16), st.integers(1, 4_096)),
    st.integers(0, _PLACES - 1),
)
REPLACEMENTS = st.builds(
    Replacement,
    st.sampled_from(["value", "value", "value", "remove", "add", "key", "repeat"]),
    st.integers(0, _PLACES - 1),
    st.integers(0, len(VALUES) - 1),
)


def damage(tree: str | None) -> st.SearchStrategy[Damage]:
    """Damage for a format.

    Args:
        tree: how its values can be taken apart, a key of :data:`TREES`; None for bytes alone.
    """
    bytewise = st.lists(EDITS, min_size=1, max_size=4)
    if tree is None:
        return bytewise
    return st.one_of(bytewise, st.lists(REPLACEMENTS, min_size=1, max_size=3))


def damaged(content: bytes, changes: Damage, tree: str | None) -> bytes:
    """The content with all changes made."""
    for change in changes:
        if isinstance(change, Edit):
            content = _edited(content, change)
        else:
            assert tree is not None
            content = TREES[tree](content, lambda value, change=change: _replaced(value, change))
    return content


def _edited(content: bytes, edit: Edit) -> bytes:
    place = edit.place * (len(content) + 1) // _PLACES
    end = place + edit.length
    other = edit.other * (len(content) + 1) // _PLACES
    before, part, after = content[:place], content[place:end], content[end:]
    match edit.kind:
        case "flip":
            return before + bytes([(part or b"\0")[0] ^ (1 << edit.other % 8)]) + content[place + 1 :]
        case "cut":
            return before + after
        case "truncate":
            return before
        case "repeat":
            return before + part * (2 + edit.other % 30) + after
        case "swap":
            return (
                before
                + content[other : other + edit.length]
                + content[end:other]
                + part
                + content[other + edit.length :]
            )
        case "insert":
            return before + TOKENS[edit.other % len(TOKENS)] + content[place:]
        case "overwrite":
            token = TOKENS[edit.other % len(TOKENS)]
            return before + token + content[place + len(token) :]
        case _:
            return before + bytes([edit.other % 256]) * len(part) + after


def _replaced(tree: Any, change: Replacement) -> Any:
    """A tree with one value replaced, removed, repeated, or added beside another."""
    if change.kind == "value" and change.place == 0:
        return VALUES[change.value]
    places = list(_places(tree))
    if not places:
        return VALUES[change.value]
    parent, key = places[change.place * len(places) // _PLACES]
    value = VALUES[change.value]
    match change.kind:
        case "value":
            parent[key] = value
        case "remove":
            del parent[key]
        case "repeat":
            parent[key] = [parent[key], parent[key]]
        case "add":
            if isinstance(parent, list):
                parent.insert(key, value)
            else:
                parent["added"] = value
        case _:
            if isinstance(parent, dict):
                parent[str(value)[:40]] = parent.pop(key)
            else:
                parent[key] = {str(value)[:40]: parent[key]}
    return tree


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    keys: Sequence[Any] = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield tree, key
        yield from _places(tree[key])


Change = Callable[[Any], Any]


def _json(content: bytes, change: Change) -> bytes:
    try:
        return json.dumps(change(json.loads(content)), indent=1).encode()
    except (ValueError, RecursionError):
        return content


def _jsonl(content: bytes, change: Change) -> bytes:
    try:
        records = change([json.loads(line) for line in content.splitlines()])
        return b"".join(json.dumps(record).encode() + b"\n" for record in records)
    except (ValueError, TypeError, RecursionError):
        return content


def _yaml(content: bytes, change: Change) -> bytes:
    try:
        return yaml.safe_dump(change(yaml.safe_load(content)), allow_unicode=True, sort_keys=False).encode()
    except (ValueError, yaml.YAMLError, RecursionError):
        return content


def _tensors(content: bytes, change: Change) -> bytes:
    """The header of safetensors, its length put right."""
    try:
        (length,) = struct.unpack_from("<Q", content)
        header = json.dumps(change(json.loads(content[8 : 8 + length]))).encode()
    except (ValueError, struct.error, RecursionError):
        return content
    return struct.pack("<Q", len(header)) + header + content[8 + length :]


TREES: dict[str, Callable[[bytes, Change], bytes]] = {
    "json": _json,
    "jsonl": _jsonl,
    "yaml": _yaml,
    "safetensors": _tensors,
}
