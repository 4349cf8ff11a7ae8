"""YAML and JSON from untrusted files, read within limits.

YAML allows more than settings need: dates, tags, aliases that multiply, numbers of any length. Only JSON's types are
accepted here, so later checks need to handle no others.
"""

from __future__ import annotations

import json
from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode

LARGEST_FILE = 256 * 2**10
"""The maximum size of a YAML file, in bytes."""
LARGEST_TREE = 20_000
"""The maximum number of keys and values in a YAML file, after aliases are expanded."""
DEEPEST_TREE = 40
"""The maximum nesting of mappings and lists in a YAML file."""

_LONGEST_INTEGER_BITS = 63
_PREFIX = "tag:yaml.org,2002:"
_TYPES = frozenset(_PREFIX + name for name in ("null", "bool", "int", "float", "str", "seq", "map", "merge"))
_LONGEST_SHOWN = 40


class DocumentError(ValueError):
    """Text that is not YAML or JSON, or exceeds the limits. The message is one sentence with line and column."""


def parse_yaml(text: str) -> Any:
    """The value of a YAML document: null, true or false, a number, text, or lists and mappings of these.

    Raises:
        DocumentError: the text is not YAML; it has a date, a tag, a key that is not text, or a number of more than 63
            bits; or it is too large or nested too deeply.
    """
    try:
        return yaml.load(text, _PlainLoader)
    except yaml.YAMLError as error:
        raise DocumentError(_problem(error, text)) from None
    except (ValueError, OverflowError) as error:  # An escape sequence is not a character.
        raise DocumentError(f"it cannot be read ({error}).") from None


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON document.

    Raises:
        DocumentError: the text is not JSON, is nested too deeply for Python, or has a number of thousands of digits.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"it is not JSON ({error}).") from None


class _PlainLoader(yaml.SafeLoader):
    """Reads values that JSON could hold; all others raise a YAMLError with line and column."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._size = 0
        self._sizes: dict[Node, int] = {}
        """The size of each complete node, with aliases expanded."""

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        """The next node of the document."""
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        before = self._size
        if self.check_event(yaml.AliasEvent):
            node: Node | None = super().compose_node(parent, index)
            if node not in self._sizes:
                raise ComposerError(None, None, "an alias contains itself", mark)
            self._size += self._sizes[node]
        else:
            self._size += 1
            self._depth += 1
            if self._depth > DEEPEST_TREE:
                raise ComposerError(None, None, f"more than {DEEPEST_TREE} nested lists and mappings", mark)
            node = super().compose_node(parent, index)
            self._depth -= 1
            if node is not None:
                self._sizes[node] = self._size - before
        if self._size > LARGEST_TREE:
            raise ComposerError(None, None, f"more than {LARGEST_TREE:,} keys and values, aliases expanded", mark)
        return node

    def construct_object(self, node: Node, deep: bool = False) -> Any:
        """The value of a node."""
        if node.tag not in _TYPES:
            raise ConstructorError(None, None, _foreign(node), node.start_mark)
        try:
            value = super().construct_object(node, deep=deep)
            if isinstance(value, str):
                value.encode()  # Half of a surrogate pair is not text.
        except (ValueError, KeyError, AttributeError, TypeError, OverflowError):
            raise ConstructorError(
                None, None, f"{_shown(node)} is not a valid {_type(node)}", node.start_mark
            ) from None
        if isinstance(value, int) and value.bit_length() > _LONGEST_INTEGER_BITS:
            raise ConstructorError(None, None, "a whole number has more than 63 bits", node.start_mark)
        return value

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The keys and values of a mapping, whose keys are text."""
        if isinstance(node, MappingNode):
            self.flatten_mapping(node)
            for key, _ in node.value:
                if key.tag != f"{_PREFIX}str":
                    scalar = isinstance(key, ScalarNode)
                    problem = f"the key {_shown(key)} is not text; put it in quotes" if scalar else "a key is not text"
                    raise ConstructorError(None, None, problem, key.start_mark)
        return dict(super().construct_mapping(node, deep=deep))


def _foreign(node: Node) -> str:
    if node.tag == f"{_PREFIX}timestamp":
        return f"{_shown(node)} is a date; put it in quotes to make it text"
    if node.tag == f"{_PREFIX}value":
        return "'=' is not a value; put it in quotes to make it text"
    return f"the tag {node.tag.removeprefix(_PREFIX)[:_LONGEST_SHOWN]!r} is not supported; leave it out"


def _shown(node: Node) -> str:
    text = str(node.value)
    return repr(text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…")


def _type(node: Node) -> str:
    name = node.tag.removeprefix(_PREFIX)
    return {"int": "whole number", "float": "number", "map": "mapping", "seq": "list", "str": "text"}.get(name, name)


def _problem(error: yaml.YAMLError, text: str) -> str:
    """What is wrong with YAML and where, in one line."""
    problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    if mark is not None:
        line, column = mark.line + 1, mark.column + 1
    else:  # YAML does not allow the character anywhere.
        problem = getattr(error, "reason", None)
        before = text[: getattr(error, "position", 0)]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    advice = " Use spaces, not tabs." if "'\\t'" in str(problem) else ""
    return f"line {line}, column {column}: {problem or 'it cannot be read'}.{advice}"
