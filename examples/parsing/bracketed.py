"""Reading and writing trees as bracketed text, such as ``(S (NP (NNP Anna)) (VP (VBD sang)))``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from nltk.tree import Tree
from traversal import Close, Open, Word, walk

from nmt.errors import DataError

_NAME = r"[^\s()]+"
"""What a label or a word looks like. nltk's own pattern takes a backslash before a bracket as an escape."""
_PARTS = re.compile(r"[()]|[^()]+")
_SHOWN = 60


def parse_tree(text: str, *, place: str) -> Tree:
    """Read one tree. A bracket without a label around a whole tree, as in the Penn Treebank, is left out.

    Args:
        place: the file and the line, for the error.

    Raises:
        DataError: the text is not one tree, or a word has no tag.
    """
    try:
        tree = Tree.fromstring(text, node_pattern=_NAME, leaf_pattern=_NAME, remove_empty_top_bracketing=True)
    except ValueError:
        raise _mistake(text, place, "is not one tree whose brackets match") from None
    try:
        for _ in walk(tree):
            pass
    except ValueError as error:
        raise _mistake(text, place, str(error)) from None
    return tree


def read_trees(lines: Iterable[str], *, name: str) -> Iterator[Tree]:
    """Yield the trees of a text. A tree may go over several lines, and a line may hold several trees.

    Args:
        name: the name of the file, for errors.

    Raises:
        DataError: brackets do not match, or there is text outside of them; names the line.
    """
    parts: list[str] = []
    depth = start = 0
    for number, line in enumerate(lines, start=1):
        for part in _PARTS.findall(f"{line}\n"):
            if depth == 0 and part.strip():
                start = number
                if part != "(":
                    raise DataError(
                        f"{name}, line {number:,}: expected an opening bracket, got {part.strip()[:_SHOWN]!r}."
                    )
            parts.append(part)
            depth += (part == "(") - (part == ")")
            if depth == 0 and part == ")":
                yield parse_tree("".join(parts), place=f"{name}, line {start:,}")
                parts = []
    if depth:
        raise DataError(f"{name}: the tree that begins in line {start:,} is not closed. Complete or remove it.")


def one_line(tree: Tree) -> str:
    """A tree as one line. Brackets in words are written ``-LRB-`` and ``-RRB-``, as in the Penn Treebank."""
    text = []
    for step in walk(tree):
        match step:
            case Open(label):
                text.append(f" ({label}")
            case Word(tag, word):
                text.append(f" ({tag} {word.replace('(', '-LRB-').replace(')', '-RRB-')})")
            case Close():
                text.append(")")
    return "".join(text).lstrip()


def _mistake(text: str, place: str, reason: str) -> DataError:
    return DataError(
        f"{place}: {reason}: {_shown(text)}. A tree looks like (S (NP (NNP Anna)) (VP (VBD sang))), and a bracket that "
        "is a word is written -LRB- or -RRB-."
    )


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
