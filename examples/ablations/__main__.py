"""BLEU of a trained run by averaging, by the search, and by the length of the source.

python examples/ablations averages RUN --data DATA           BLEU of the mean of the last 1 and 5 checkpoints
python examples/ablations search RUN --data DATA             BLEU by beam size and length penalty
python examples/ablations lengths RUN... --data DATA         BLEU by the length of the source

examples/sweep runs the comparisons that train models: warmup.yaml, smoothing.yaml, attention.yaml, positions.yaml.
"""

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

import nmt
from nmt.checkpoint.averaging import average, last_checkpoints
from nmt.data.data_folder import DataFolder
from nmt.data.manifest import read_manifest
from nmt.errors import ConfigError, NmtError
from nmt.evaluation.metrics import make_metric, score
from nmt.table import Table
from nmt.text.lines import read_lines, sentence_length

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="BLEU of a trained run by averaging, by the search, and by the length of the source.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
Run = Annotated[Path, typer.Argument(help="A run or bundle.")]
Data = Annotated[Path, typer.Option(metavar="DIR", help="The prepared data set to score on.")]
PLAIN = {"split_sentences": "never", "copy_unknown": False, "guard": False}
"""The search alone: no line is split, no character copied, no translation repaired."""
Split = Annotated[Literal["valid", "test"], typer.Option(help="Its text to score on.")]


class Text:
    """Source lines and their references."""

    def __init__(self, folder: Path, split: str) -> None:
        manifest = read_manifest(folder)
        self.source_language, self.language = manifest.source_lang, manifest.target_lang
        self.sources, self.references = (
            list(read_lines(DataFolder(folder).text(split, language)))
            for language in (manifest.source_lang, manifest.target_lang)
        )

    def bleu(self, translations: Sequence[str], lines: Iterable[int] | None = None) -> float:
        """BLEU of translations of all lines, or of the chosen ones among them."""
        chosen = list(range(len(self.references)) if lines is None else lines)
        hypotheses, references = ([texts[line] for line in chosen] for texts in (translations, self.references))
        return score(make_metric("bleu", self.language), hypotheses, [references]).value


@app.command()
def averages(
    run: Run,
    data: Data,
    split: Split = "valid",
    counts: Annotated[list[int] | None, typer.Option("--last", metavar="N", help="May be repeated.  [1 5]")] = None,
) -> None:
    """BLEU of the mean of the last N checkpoints. The run must have kept them (checkpoints.keep_last)."""
    counts = counts or [1, 5]
    kept = len(last_checkpoints(run, max(counts)))
    if kept < max(counts):
        raise ConfigError(
            f"{run} has {kept} checkpoints, not {max(counts)}: train with "
            f"--set checkpoints.keep_last={max(counts)} and a smaller checkpoints.every_updates, or give fewer "
            "with --last."
        )
    text = Text(data, split)
    table = Table("", ["checkpoints", "BLEU"])
    for count in counts:
        checkpoints = last_checkpoints(run, count)
        with tempfile.TemporaryDirectory() as folder:
            mean = Path(folder) / "average"
            average(checkpoints, mean)
            translations = [translation.text for translation in nmt.load(mean).translate(text.sources, **PLAIN)]
        table.add(str(count), f"{text.bleu(translations):.2f}")
    print(table)


@app.command()
def search(
    run: Run,
    data: Data,
    split: Split = "valid",
    beams: Annotated[
        list[int] | None, typer.Option("--beam", metavar="N", help="May be repeated.  [1 2 4 8 16]")
    ] = None,
    alphas: Annotated[
        list[float] | None,
        typer.Option("--length-penalty", metavar="A", help="May be repeated.  [0 0.3 0.6 1]"),
    ] = None,
) -> None:
    """BLEU by beam size, one row each, and length penalty, one column each; in brackets the ratio of lengths."""
    text, model = Text(data, split), nmt.load(run)
    alphas = alphas or [0, 0.3, 0.6, 1]
    table = Table("", ["beam", *(f"α = {alpha:g}" for alpha in alphas)])
    length = sum(len(reference.split()) for reference in text.references)
    for beam in beams or [1, 2, 4, 8, 16]:
        cells = []
        for alpha in alphas:
            found = model.translate(text.sources, beam=beam, length_penalty=alpha, **PLAIN)
            translations = [one.text for one in found]
            ratio = sum(len(translation.split()) for translation in translations) / length
            cells.append(f"{text.bleu(translations):.2f} ({ratio:.3f})")
        table.add(str(beam), *cells)
    print(table)


@app.command()
def lengths(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs or bundles to compare.")],
    data: Data,
    split: Split = "test",
    trained_length: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="The longest source of the training, in words; marked.")
    ] = None,
    width: Annotated[int, typer.Option(metavar="N", min=1, help="Words between two rows.")] = 4,
) -> None:
    """BLEU by the number of source words (characters in Chinese and the like)."""
    text = Text(data, split)
    rows: dict[int, list[int]] = {}
    for line, source in enumerate(text.sources):
        # Rows are counted from the longest source of the training, so that none holds both kinds of sentences.
        beyond = sentence_length(source, text.source_language) - 1 - (trained_length or 0)
        rows.setdefault(beyond // width, []).append(line)
    models = [nmt.load(run) for run in runs]
    found = [[one.text for one in model.translate(text.sources, **PLAIN)] for model in models]
    note = "" if trained_length is None else f"* longer than the training's sentences of at most {trained_length} words"
    table = Table("", ["source words", "sentences", *(run.name for run in runs)], note=note)
    for row, lines in sorted(rows.items()):
        first = row * width + 1 + (trained_length or 0)
        is_longer = trained_length is not None and row >= 0
        cells = (f"{text.bleu(translations, lines):.1f}" for translations in found)
        table.add(f"{max(first, 0)} to {first + width - 1}{' *' if is_longer else ''}", f"{len(lines):,}", *cells)
    print(table)


if __name__ == "__main__":
    try:
        app()
    except NmtError as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(2) from None
