"""A table of text: printed as plain text or Markdown, or drawn on a page."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field


@dataclass
class Table:
    """Rows of text under a header. ``str`` makes Markdown of it."""

    title: str
    """The title in Markdown and on a page; may be empty."""
    header: list[str]
    """The titles of the columns; empty if there is no header row."""
    rows: list[list[str]] = field(default_factory=list)
    note: str = ""
    """A remark below the table, in Markdown and on a page."""
    numbers: Container[int] | None = None
    """The columns, from 0, that are aligned as numbers; None stands for all but the first."""

    def add(self, *cells: str) -> None:
        """Add a row."""
        self.rows.append(list(cells))

    def is_number(self, column: int) -> bool:
        """Whether a column is aligned as numbers."""
        return column > 0 if self.numbers is None else column in self.numbers

    def plain(self) -> str:
        """Header and rows as aligned columns."""
        return _tabulated(self, "plain")

    def markdown(self) -> str:
        """Title, table and note."""
        escaped = Table(self.title, _escaped(self.header), [_escaped(row) for row in self.rows], numbers=self.numbers)
        title = f"## {self.title}" if self.title else ""
        return "\n\n".join(filter(None, (title, _tabulated(escaped, "pipe"), self.note)))

    def __str__(self) -> str:
        return self.markdown()


def _escaped(cells: list[str]) -> list[str]:
    """Cells that do not end at a bar in them."""
    return [cell.replace("|", r"\|") for cell in cells]


def _tabulated(table: Table, form: str) -> str:
    from tabulate import tabulate  # the import takes longer than a short command

    columns = range(len(next(iter(table.rows), [])))
    align = ["right" if table.is_number(column) else "left" for column in columns]
    return str(tabulate(table.rows, table.header, tablefmt=form, disable_numparse=True, colalign=align))
