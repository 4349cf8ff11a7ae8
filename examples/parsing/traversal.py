"""A tree as steps: a bracket opens, a word follows, a bracket closes. Nothing here is recursive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nltk.tree import Tree


@dataclass(frozen=True)
class Open:
    """A bracket opens."""

    label: str


@dataclass(frozen=True)
class Word:
    """A word with its part-of-speech tag."""

    tag: str
    word: str


@dataclass(frozen=True)
class Close:
    """The innermost open bracket closes."""

    label: str


Step = Open | Word | Close


def walk(tree: Tree) -> Iterator[Step]:
    """The steps of a tree, from left to right.

    Raises:
        ValueError: a word has no tag.
    """
    rest: list[Tree | str | Close] = [tree]
    while rest:
        node = rest.pop()
        if isinstance(node, Close):
            yield node
        elif isinstance(node, str):
            raise ValueError(f"the word {node!r} has no tag")
        elif is_word(node):
            yield Word(node.label(), node[0])
        else:
            yield Open(node.label())
            rest.append(Close(node.label()))
            rest.extend(reversed(node))


def build(steps: Iterable[Step]) -> Tree | None:
    """The tree of steps whose brackets match. Brackets without words are left out; None if there is no word.

    Several trees in a row get a bracket ``TOP``.
    """
    nodes = [Tree("TOP", [])]
    for step in steps:
        match step:
            case Open(label):
                nodes.append(Tree(label, []))
            case Word(tag, word):
                nodes[-1].append(Tree(tag, [word]))
            case Close():
                node = nodes.pop()
                if node:
                    nodes[-1].append(node)
    [top] = nodes
    return top[0] if len(top) == 1 else top or None


def is_word(tree: Tree) -> bool:
    """Whether a tree is a tag with its word."""
    return len(tree) == 1 and isinstance(tree[0], str)


def words(tree: Tree) -> list[Word]:
    """The words of a tree with their tags."""
    return [step for step in walk(tree) if isinstance(step, Word)]
