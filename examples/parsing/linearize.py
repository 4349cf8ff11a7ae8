"""Trees as target sequences, and back, in the form of Vinyals et al. 2015, "Grammar as a Foreign Language".

A sequence has a token for each opening bracket, word and closing bracket; a word is represented by its tag:

    (S (NP (NNP Anna)) (VP (VBD sang)) (. .))        (S (NP XX )NP (VP XX )VP . )S

The words are not in the sequence: :func:`to_tree` takes them from the sentence. Tags do not count in the score, so
:func:`plain_tags` replaces those of words by ``XX``, as in the second form above. Punctuation marks keep theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from labels import PUNCTUATION, WORD, plain_tag
from nltk.tree import Tree
from traversal import Close, Open, Step, Word, build, walk

MAX_DEPTH = 400
"""The deepest nesting of a restored tree; nltk reads trees up to 500."""

_ROOT = "S"


def to_sequence(tree: Tree) -> str:
    """The tokens of a tree, separated by spaces."""
    tokens = []
    for step in walk(tree):
        match step:
            case Open(label):
                tokens.append(f"({label}")
            case Word(tag):
                tokens.append(tag)
            case Close(label):
                tokens.append(f"){label}")
    return " ".join(tokens)


def to_tree(sequence: str, words: Sequence[str]) -> Tree:
    """The tree of a sequence over the words of a sentence. Whatever the sequence is, the tree has exactly these words.

    What does not fit is repaired:

    - The first bracket holds everything and closes at the end. If the sequence does not begin with one, it is an ``S``.
    - A closing bracket closes the innermost open bracket of its label, and all brackets inside it. If there is none, it
      is left out.
    - Tags beyond the number of words are left out. Missing ones are added at the end, in the outermost bracket.
    - Brackets without words or without a label are left out, and so are brackets inside :data:`MAX_DEPTH` others.

    Raises:
        ValueError: there are no words.
    """
    tree = build(_repaired(sequence.split(), words))
    if tree is None:
        raise ValueError("a tree needs at least one word")
    return tree


def was_repaired(sequence: str, tree: Tree) -> bool:
    """Whether :func:`to_tree` had to repair the sequence of a tree."""
    return sequence.split() != to_sequence(tree).split()


def plain_tags(tree: Tree) -> Tree:
    """A tree with the tag ``XX`` for all words but punctuation marks."""
    return build(Word(plain_tag(step.word), step.word) if isinstance(step, Word) else step for step in walk(tree))


def checked_tags(tree: Tree) -> Tree:
    """A tree in which the punctuation marks, and no other words, have the tags of punctuation marks."""
    return build(
        Word(plain_tag(step.word), step.word)
        if isinstance(step, Word) and PUNCTUATION & {step.tag, plain_tag(step.word)}
        else step
        for step in walk(tree)
    )


def _repaired(tokens: Sequence[str], words: Sequence[str]) -> Iterator[Step]:
    """Steps whose brackets match, with exactly these words."""
    inner: list[str] = []  # The labels of open brackets, without the outermost.
    rest = iter(words)
    root = tokens[0][1:] if tokens and _opens(tokens[0]) else _ROOT
    yield Open(root)
    for token in tokens[1:] if tokens and _opens(tokens[0]) else tokens:
        label = token[1:]
        if _opens(token):
            if len(inner) < MAX_DEPTH - 1:
                inner.append(label)
                yield Open(label)
        elif token.startswith(")"):
            while label in inner:
                closed = inner.pop()
                yield Close(closed)
                if closed == label:
                    break
        elif token != "(" and (word := next(rest, None)) is not None:
            yield Word(token, word)
    while inner:
        yield Close(inner.pop())
    for word in rest:
        yield Word(WORD, word)
    yield Close(root)


def _opens(token: str) -> bool:
    return token.startswith("(") and len(token) > 1
