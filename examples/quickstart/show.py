"""Show some lines of a source, its reference and its translation side by side."""

import sys
from itertools import islice

from rich.console import Console
from rich.table import Table

from nmt.text.lines import read_lines

ROWS = 10

source, reference, hypothesis = sys.argv[1:]
table = Table("source", "reference", "translation", title="Sample translations", show_lines=True)
for row in islice(zip(read_lines(source), read_lines(reference), read_lines(hypothesis), strict=True), ROWS):
    table.add_row(*row)
Console().print(table)
