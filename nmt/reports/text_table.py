"""A table as Markdown, and as a web page that needs no other file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from nmt.files import replacing
from nmt.ownership import Kind, check_replaceable
from nmt.reports.html import element, page, section, table, text

_MARK = "nmt-table"


def _is_page(path: Path) -> bool:
    try:
        return f'id="{_MARK}"' in path.read_text("utf-8")
    except (OSError, ValueError):
        return False


_PAGE = Kind("a page with a table", _is_page)


@dataclass
class TextTable:
    """Rows of text below headings. Printed, it is Markdown."""

    headings: list[str]
    title: str = ""
    note: str = ""
    rows: list[list[str]] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """Add a row."""
        self.rows.append(list(cells))

    def __str__(self) -> str:
        widths = [max(2, *map(len, column)) for column in zip(self.headings, *self.rows, strict=True)]
        rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
        lines = [_line(cells, widths) for cells in (self.headings, rule, *self.rows)]
        if self.title:
            lines = [f"## {self.title}", "", *lines]
        if self.note:
            lines = [*lines, "", self.note]
        return "\n".join(lines)

    def write_page(self, path: Path) -> None:
        """Write the table as HTML. It may replace an earlier such page.

        Raises:
            OutputError: something else exists at ``path``.
            WriteError: the file could not be written.
        """
        check_replaceable(path, _PAGE)
        cells = [[text(cell) for cell in row] for row in self.rows]
        numbers = range(1, len(self.headings))
        note = element("p", text(self.note), id=_MARK)
        content = page(self.title, section(self.title, table(self.headings, cells, numbers=numbers), note))
        with replacing(path) as stream:
            stream.write(content.encode())


def _line(cells: list[str], widths: list[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    padded = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
    return f"| {' | '.join(padded)} |"
