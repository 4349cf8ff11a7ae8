"""Parse sentences into trees with a translation model: the data, the trees of its output, and their score.

python examples/parsing data --grammar --out data/grammar     sentences and sequences of trees, for nmt prepare-data
python examples/parsing restore SENTENCES < SEQUENCES         the trees of translated sequences
python examples/parsing score GOLD PREDICTED                  labelled bracket precision, recall and F1
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

try:
    import nltk  # noqa: F401
except ImportError:
    sys.exit("error: examples/parsing needs nltk, which is not installed. Run `pip install nltk`.")

from bracketed import one_line, parse_tree
from evalb import Score
from evalb import score as score_trees
from grammar import draw_splits
from linearize import checked_tags, plain_tags, to_tree, was_repaired
from nltk.tree import Tree
from tree_folder import RECIPE, write_trees
from treebank import clean_trees, sample, wsj

from nmt.errors import ConfigError, DataError, NmtError
from nmt.text.lines import STDIN, parallel, read_lines, read_parallel

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Parse sentences into trees with a translation model.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.command()
def data(
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write.")],
    grammar: Annotated[bool, typer.Option("--grammar", help="Draw trees from the built-in grammar.")] = False,
    treebank: Annotated[bool, typer.Option("--sample", help="Use nltk's sample of the Penn Treebank.")] = False,
    wsj_folder: Annotated[
        Path | None, typer.Option("--wsj", metavar="DIR", help="Use the WSJ, with its sections as folders 02 to 23.")
    ] = None,
    extra: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="More trees for training; may be repeated.")
    ] = None,
    keep_tags: Annotated[bool, typer.Option("--keep-tags", help="Write part-of-speech tags in place of XX.")] = False,
    train: Annotated[int, typer.Option(metavar="N", min=1, help="Trees of the grammar for training.")] = 20_000,
    valid: Annotated[int, typer.Option(metavar="N", min=1, help="Trees of the grammar for validation.")] = 500,
    test: Annotated[int, typer.Option(metavar="N", min=1, help="Trees of the grammar for testing.")] = 500,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the grammar.")] = 1,
) -> None:
    """Write sentences and the sequences of their trees."""
    if grammar + treebank + (wsj_folder is not None) != 1:
        raise ConfigError("give one of --grammar, --sample and --wsj DIR: it says where the trees come from.")
    splits: dict[str, Iterator[Tree]]
    if grammar:
        sizes = {"train": train, "valid": valid, "test": test}
        splits = {split: iter(trees) for split, trees in draw_splits(seed, sizes).items()}
    elif wsj_folder is not None:
        splits = wsj(wsj_folder)
    else:
        splits = sample()
    more = (tree for path in extra or [] for tree in clean_trees(read_lines(path), name=str(path)))
    splits["train"] = itertools.chain(splits["train"], more)
    for split, count in write_trees(out, splits, (lambda tree: tree) if keep_tags else plain_tags).items():
        typer.echo(f"{split}: {count:,} trees", err=True)
    typer.echo(f"Next: nmt prepare-data {out / RECIPE}", err=True)


@app.command()
def restore(
    sentences: Annotated[Path, typer.Argument(metavar="SENTENCES", help="The source text, one sentence per line.")],
    sequences: Annotated[
        str, typer.Argument(metavar="SEQUENCES", help="The translation.  [standard input]", show_default=False)
    ] = STDIN,
) -> None:
    """Print the trees of sequences, one per line. A blank sentence has a blank line."""
    repaired = total = 0
    names = ("standard input" if sequences == STDIN else sequences, str(sentences))
    for sequence, sentence in parallel(read_lines(sequences), read_lines(sentences), names=names):
        words = sentence.split()
        tree = to_tree(sequence, words) if words else None
        print("" if tree is None else one_line(checked_tags(tree)))
        total += 1
        repaired += tree is not None and was_repaired(sequence, tree)
    typer.echo(f"{repaired:,} of {total:,} sequences were repaired", err=True)


@app.command()
def score(
    gold: Annotated[Path, typer.Argument(metavar="GOLD", help="The right trees, one per line.")],
    predicted: Annotated[Path, typer.Argument(metavar="PREDICTED", help="The predicted trees, one per line.")],
) -> None:
    """Print labelled bracket precision, recall and F1, as evalb defines them."""
    total = score_trees(_pairs(gold, predicted))
    if total.errors or total.skipped:
        typer.echo(
            f"warning: left out of the score: {total.errors:,} sentences whose trees have different words, and "
            f"{total.skipped:,} without a predicted tree.",
            err=True,
        )
    print(_table(total))


def _pairs(gold: Path, predicted: Path) -> Iterator[tuple[Tree, Tree | None]]:
    for number, lines in enumerate(read_parallel(gold, predicted), start=1):
        if not lines[0].strip():
            raise DataError(f"{gold}, line {number:,}: no tree. Each line of the gold trees needs one.")
        right, found = (
            parse_tree(line, place=f"{path}, line {number:,}") if line.strip() else None
            for path, line in zip((gold, predicted), lines, strict=True)
        )
        yield right, found


def _table(total: Score) -> str:
    rows = {
        "sentences": f"{total.scored:,}",
        "brackets": f"{total.matched:,} right, {total.predicted:,} predicted, {total.gold:,} in gold trees",
        "precision": f"{total.precision:.2f}",
        "recall": f"{total.recall:.2f}",
        "F1": f"{total.f1:.2f}",
        "complete match": f"{total.complete_match:.2f}",
    }
    return "\n".join(f"{name:<14}  {value}" for name, value in rows.items())


if __name__ == "__main__":
    try:
        app()
    except NmtError as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(2) from None
