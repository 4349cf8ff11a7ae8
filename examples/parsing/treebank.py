"""Trees of the Penn Treebank: the sample that nltk distributes, and the Wall Street Journal part (WSJ)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from bracketed import read_trees
from labels import ROOTS, TRACE, category
from nltk.corpus import treebank
from nltk.tree import Tree
from traversal import Close, Open, Step, Word, build, is_word, walk

from nmt.errors import DataError
from nmt.text.lines import read_lines

SECTIONS = {"train": range(2, 22), "valid": range(22, 23), "test": range(23, 24)}
"""The sections of the WSJ that the literature uses."""
_SAMPLE_SHARES = {"train": (0.0, 0.8), "valid": (0.8, 0.9), "test": (0.9, 1.0)}


def clean(tree: Tree) -> Tree | None:
    """A tree without traces, function tags and a root that says nothing; None if only traces were in it."""
    cleaned = build(_clean_steps(tree))
    while cleaned is not None and cleaned.label() in ROOTS and len(cleaned) == 1 and not is_word(cleaned[0]):
        cleaned = cleaned[0]
    return cleaned


def clean_trees(lines: Iterable[str], *, name: str) -> Iterator[Tree]:
    """Yield the trees of a text, cleaned.

    Raises:
        DataError: the text is not one of trees; names the line.
    """
    for tree in read_trees(lines, name=name):
        if (cleaned := clean(tree)) is not None:
            yield cleaned


def wsj(folder: Path) -> dict[str, Iterator[Tree]]:
    """The WSJ below a folder with a folder for each section (``02`` to ``23``), in its usual splits.

    Raises:
        DataError: a section is missing or has no files.
    """
    splits: dict[str, Iterator[Tree]] = {}
    for split, sections in SECTIONS.items():
        paths = [path for section in sections for path in _section(folder, f"{section:02}")]
        splits[split] = (tree for path in paths for tree in clean_trees(read_lines(path), name=str(path)))
    return splits


def sample() -> dict[str, Iterator[Tree]]:
    """The sample of the WSJ that nltk distributes, split by its files. Nothing is downloaded.

    Raises:
        DataError: the sample is not where nltk looks for it.
    """
    try:
        names = sorted(treebank.fileids())
    except LookupError:
        raise DataError(
            "nltk's sample of the Penn Treebank was not found. Fetch it with `python -m nltk.downloader treebank`, set "
            "NLTK_DATA to the folder of your nltk data, or use --grammar, which needs no files."
        ) from None
    splits: dict[str, Iterator[Tree]] = {}
    for split, (start, end) in _SAMPLE_SHARES.items():
        chosen = names[round(start * len(names)) : round(end * len(names))]
        splits[split] = (tree for name in chosen for tree in clean_trees(treebank.raw(name).split("\n"), name=name))
    return splits


def _clean_steps(tree: Tree) -> Iterator[Step]:
    for step in walk(tree):
        match step:
            case Open(label):
                yield Open(category(label) or "TOP")
            case Close(label):
                yield Close(category(label) or "TOP")
            case Word(tag) if tag != TRACE:
                yield step


def _section(folder: Path, name: str) -> list[Path]:
    paths = sorted(path for path in (folder / name).glob("*") if path.suffix.lower() == ".mrg")
    if not paths:
        raise DataError(
            f"{folder / name}: there are no .mrg files. Name the folder that holds the sections 02 to 23 of the WSJ: "
            "parsed/mrg/wsj of the Penn Treebank."
        )
    return paths
