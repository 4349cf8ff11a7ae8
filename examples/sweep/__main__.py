"""Train a model several times with different settings, and print a table of the results.

python examples/sweep cost SWEEP.yaml               parameters and operations of each row, without training
python examples/sweep run SWEEP.yaml --data DATA    train and score each row; the same command again resumes
python examples/sweep table SWEEP.yaml              the table of all that is scored so far
"""

from pathlib import Path
from typing import Annotated

import typer
from cost import cost_table
from definition import Sweep
from results import results_table
from rows import run_rows

from nmt.errors import NmtError
from nmt.reports.pages import Page

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Train a model several times with different settings, and print a table of the results.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

PAGE = Page("examples/sweep", "table.html", option="--page")

Definition = Annotated[Path, typer.Argument(metavar="SWEEP.yaml", help="The rows, and what they have in common.")]
Folder = Annotated[Path | None, typer.Option(metavar="DIR", help="Where the runs go.  [sweeps/NAME]")]


@app.command()
def cost(
    sweep: Definition,
    vocab_size: Annotated[int, typer.Option(metavar="N", min=8, help="Pieces of the vocabulary.")] = 37_000,
    length: Annotated[int, typer.Option(metavar="N", min=1, help="Pieces of a sentence, on either side.")] = 30,
) -> None:
    """Count parameters and operations of each row, without training."""
    print(cost_table(Sweep.read(sweep), vocab_size=vocab_size, length=length))


@app.command()
def run(
    sweep: Definition,
    data: Annotated[Path, typer.Option(metavar="DIR", help="A prepared data set.")],
    out: Folder = None,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Runs of each row, with the seeds 1 to N.")] = 1,
    jobs: Annotated[int | None, typer.Option(metavar="N", min=1, help="Runs at once.  [one per GPU, or 1]")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of all rows.")
    ] = None,
) -> None:
    """Train each row, and score it on the valid set. Finished steps are not repeated."""
    definition = Sweep.read(sweep)
    folder = out or definition.folder
    failed = run_rows(definition, data, folder, seeds=seeds, jobs=jobs, settings=settings or [])
    print(results_table(definition, folder))
    if failed:
        typer.echo(f"error: {failed} of the runs failed; their messages are above.", err=True)
        raise typer.Exit(1)


@app.command()
def table(
    sweep: Definition,
    out: Folder = None,
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a web page too.")] = None,
) -> None:
    """Print what is scored so far as a table in Markdown."""
    definition = Sweep.read(sweep)
    results = results_table(definition, out or definition.folder)
    print(results)
    if page is not None:
        PAGE.write(page, PAGE.html(definition.title, table=results))


if __name__ == "__main__":
    try:
        app()
    except NmtError as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(2) from None
