"""A folder of trees: for each split the trees, the sentences, the sequences, and a recipe for ``nmt prepare-data``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import yaml
from bracketed import one_line
from linearize import to_sequence
from nltk.tree import Tree
from traversal import words

from nmt.config import load_yaml
from nmt.errors import DataError, NmtError
from nmt.io.files import replacing_folder
from nmt.io.ownership import Kind
from nmt.text.lines import encode_line

SOURCE, TARGET = "en", "tree"
RECIPE = "recipe.yaml"
_DESCRIPTION = "sentences and their trees as sequences"


def _is_ours(folder: Path) -> bool:
    try:
        return load_yaml(folder / RECIPE).get("description") == _DESCRIPTION
    except NmtError:
        return False


TREES = Kind(
    "a folder of trees",
    _is_ours,
    is_folder=True,
    holds=(RECIPE, "*.trees", f"*.{SOURCE}", f"*.{TARGET}"),
)


def write_trees(folder: Path, splits: Mapping[str, Iterable[Tree]], simplify: Callable[[Tree], Tree]) -> dict[str, int]:
    """Write ``SPLIT.trees``, ``SPLIT.en`` and ``SPLIT.tree`` for each split, and the recipe.

    Args:
        simplify: applied to a tree before it becomes a sequence.

    Returns:
        The number of trees in each split.

    Raises:
        DataError: a split has no trees, or the trees cannot be read.
        OutputError: the folder holds something else.
        WriteError: a file could not be written.
    """
    with replacing_folder(folder, TREES) as temporary:
        counts = {split: _write_split(temporary, split, trees, simplify) for split, trees in splits.items()}
        if empty := [split for split, count in counts.items() if not count]:
            raise DataError(f"there are no trees for {', '.join(empty)}.")
        recipe = yaml.safe_dump(_recipe(folder.resolve().name, list(splits)), sort_keys=False)
        (temporary / RECIPE).write_text(recipe, "utf-8")
    return counts


def _write_split(folder: Path, split: str, trees: Iterable[Tree], simplify: Callable[[Tree], Tree]) -> int:
    count = 0
    with (
        (folder / f"{split}.trees").open("wb") as trees_file,
        (folder / f"{split}.{SOURCE}").open("wb") as source,
        (folder / f"{split}.{TARGET}").open("wb") as target,
    ):
        for tree in trees:
            trees_file.write(encode_line(one_line(tree)))
            source.write(encode_line(" ".join(step.word for step in words(tree))))
            target.write(encode_line(to_sequence(simplify(tree))))
            count += 1
    return count


def _recipe(name: str, splits: list[str]) -> dict[str, object]:
    """A recipe that drops nothing: a tree is often longer than its sentence, and two sentences may share a sequence."""
    return {
        "name": f"{name}-{SOURCE}-{TARGET}",
        "description": _DESCRIPTION,
        "source_lang": SOURCE,
        "target_lang": TARGET,
        **{split: [{"kind": "text", "files": split}] for split in splits},
        "filters": {"max_words": None, "max_ratio": None, "dedup": False, "leakage": "count"},
    }
