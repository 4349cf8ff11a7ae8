"""YAML and JSON that anybody may have written, read within limits.

YAML is more than settings need: dates, tags, aliases that multiply, numbers of any length. What is read here holds the
types of JSON alone, so that whoever checks the values afterwards knows all that can come.
"""

from __future__ import annotations

import json
from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode

LARGEST_FILE = 256 * 2**10
"""The maximum size of a file of YAML, in bytes."""
LARGEST_TREE = 20_000
"""The maximum number of keys and values in a file of YAML, each alias counted as all that it stands for."""
DEEPEST_TREE = 40
"""The maximum number of mappings and lists within each other in a file of YAML."""

_LONGEST_INTEGER_BITS = 63
_PREFIX = "tag:yaml.org,2002:"
_TYPES = frozenset(_PREFIX + name for name in ("null", "bool", "int", "float", "str", "seq", "map", "merge"))
_LONGEST_SHOWN = 40


class DocumentError(ValueError):
    """Text that is not YAML or JSON, or that is beyond the limits. The message is one sentence with the place."""


def parse_yaml(text: str) -> Any:
    """The value of a YAML document: null, true or false, a number, text, or lists and mappings of these.

    Raises:
        DocumentError: it is not YAML; it has a date, a tag, a key that is not text, or a number of more than 63 bits;
            or it has too many keys and values, or too many of them within each other.
    """
    try:
        return yaml.load(text, _PlainLoader)
    except yaml.YAMLError as error:
        raise DocumentError(_problem(error, text)) from None
    except (ValueError, OverflowError) as error:  # of an escape that stands for no character
        raise DocumentError(f"it cannot be read ({error}).") from None


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON document.

    Raises:
        DocumentError: it is not JSON, or deeper than the interpreter's stack, or a number has thousands of digits.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"it is not JSON ({error}).") from None


class _PlainLoader(yaml.SafeLoader):
    """Reads what JSON could hold, too; everything else is a YAMLError with its place."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._size = 0
        self._sizes: dict[Node, int] = {}
        """Of the nodes that are complete, their aliases expanded."""

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        """The next node of the document."""
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        before = self._size
        if self.check_event(yaml.AliasEvent):
            node: Node | None = super().compose_node(parent, index)
            if node not in self._sizes:
                raise ComposerError(None, None, "an alias stands within what it stands for", mark)
            self._size += self._sizes[node]
        else:
            self._size += 1
            self._depth += 1
            if self._depth > DEEPEST_TREE:
                raise ComposerError(None, None, f"more than {DEEPEST_TREE} lists and mappings in each other", mark)
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
                value.encode()  # half of a surrogate pair is no text
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
    else:  # a character that YAML does not allow anywhere
        problem = getattr(error, "reason", None)
        before = text[: getattr(error, "position", 0)]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    advice = " Use spaces, not tabs." if "'\\t'" in str(problem) else ""
    return f"line {line}, column {column}: {problem or 'it cannot be read'}.{advice}"
