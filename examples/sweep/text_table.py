"""A table as Markdown, and as a web page that needs no other file."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .25rem .75rem; text-align: right; border-bottom: 1px solid #ccc; }}
th:first-child, td:first-child {{ text-align: left; }}
</style>
</head>
<body>
<h1>{title}</h1>
<table>
<thead><tr>{head}</tr></thead>
<tbody>
{body}
</tbody>
</table>
<p>{note}</p>
</body>
</html>
"""


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
        widths = [max(map(len, column)) for column in zip(self.headings, *self.rows, strict=True)]
        rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
        lines = [_line(cells, widths) for cells in (self.headings, rule, *self.rows)]
        if self.title:
            lines = [f"## {self.title}", "", *lines]
        if self.note:
            lines = [*lines, "", self.note]
        return "\n".join(lines)

    def as_page(self) -> str:
        """The table as HTML."""
        head = "".join(f"<th>{escape(heading)}</th>" for heading in self.headings)
        body = "\n".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>" for cells in self.rows
        )
        return _PAGE.format(title=escape(self.title), head=head, body=body, note=escape(self.note))


def _line(cells: list[str], widths: list[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    padded = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
    return f"| {' | '.join(padded)} |"
