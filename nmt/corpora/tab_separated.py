"""Tab-separated files: a pair per line, source and target (and a score) in columns.

Quotation marks are text, as in the files of crawled corpora: no text of a column can hold a tab.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nmt.corpora.formats import ParallelText, ReadPair
from nmt.errors import DataError
from nmt.text.languages import fitting, name_of
from nmt.text.printable import counted

SOURCE, TARGET, SCORE = "source", "target", "score"
"""Names of columns; languages are names as well."""
_MOST_SHOWN = 20
_FEW_LINES = 1_000
"""The text is refused once more than half of this number of lines, and of those read, are unusable."""
_USUAL_NAMES = frozenset(
    {
        SOURCE,
        TARGET,
        SCORE,
        *("src", "tgt", "trg", "hyp", "ref", "reference", "original", "translation", "text", "sentence"),
    }
)
"""Names of columns, beside the codes of languages."""


@dataclass(frozen=True)
class _Columns:
    """The indices of the columns that are read."""

    source: int
    target: int
    score: int | None

    @property
    def needed(self) -> int:
        """The number of columns that each line must have."""
        return 1 + max(self.source, self.target, -1 if self.score is None else self.score)


def read(text: ParallelText) -> Iterator[ReadPair | None]:
    """Yield the pairs of a file, and None for each line with too few columns or a score that is no number.

    Raises:
        DataError: most lines are like that, or no column holds a language.
    """
    number, unusable, first = 0, 0, None
    columns = None if text.header and text.columns is None else _columns(text, text.columns or (SOURCE, TARGET))
    for number, line in enumerate(text.file.lines(text.invalid), start=1):
        cells = line.split("\t")
        if number == 1 and text.header:
            columns = columns or _columns(text, [cell.strip() for cell in cells])
            continue
        assert columns is not None
        pair = None
        try:
            pair = _pair(cells, columns, f"{text.name}, line {number:,}")
        except DataError as error:
            first, unusable = first or error, unusable + 1
            if 2 * unusable > max(number, _FEW_LINES):
                raise first from None
        yield pair
    if first is not None and 2 * unusable > number - text.header:
        raise first


def _pair(cells: Sequence[str], columns: _Columns, place: str) -> ReadPair:
    if len(cells) < columns.needed:
        raise DataError(
            f"{place}: has {counted(len(cells), 'column')}, but at least {columns.needed} are needed. Columns are "
            "separated by tabs."
        )
    score = None if columns.score is None else _score(cells[columns.score], place)
    return ReadPair(cells[columns.source], cells[columns.target], score)


def layout_hint(text: ParallelText) -> str | None:
    """A hint if the first line is read as a pair, but looks like names of columns, or has more columns than named."""
    if text.header:
        return None
    columns = _columns(text, text.columns or (SOURCE, TARGET))
    line = next(iter(text.file.lines("replace")), "")
    cells = [cell.strip().casefold() for cell in line.split("\t")]
    if len(cells) < columns.needed:
        return None
    pair = cells[columns.source], cells[columns.target]
    if pair[0] != pair[1] and all(_is_name(cell, text) for cell in pair):
        return (
            f"{text.name}: its first line, {pair[0]!r} and {pair[1]!r}, looks like the names of the columns, but is "
            "read as a pair. If it is a header, add --header (in a recipe: header: true)."
        )
    if len(cells) > columns.needed and list(text.columns or ()) in ([], [SOURCE, TARGET]):
        others = f"{text.source_lang},{text.target_lang}"
        return (
            f"{text.name}: has {len(cells)} columns, of which the first two are read as source and target. If the text "
            f"is in others, name them, as in --columns -,-,{others} (in a recipe: columns)."
        )
    return None


def _is_name(cell: str, text: ParallelText) -> bool:
    """Whether a cell is the usual name of a column, or a language of the pair by its code or its English name."""
    languages = text.source_lang, text.target_lang
    return cell in (*_USUAL_NAMES, *(name_of(code).casefold() for code in languages)) or any(
        fitting([cell], language) for language in languages
    )


def _columns(text: ParallelText, names: Sequence[str]) -> _Columns:
    """Find the columns that are read among the names of all.

    Raises:
        DataError: a language has no column or several, or there are no scores where they are needed.
    """
    source = _column_of(text, names, SOURCE, text.source_lang)
    target = _column_of(text, names, TARGET, text.target_lang)
    if source == target:
        raise DataError(f"{text.name}: the column {names[source]!r} fits both languages. {_advice(text)}")
    if text.scored and names.count(SCORE) != 1:
        raise DataError(
            f"{text.name}: {names.count(SCORE) or 'no'} columns are named score, but a minimum score needs one. Name "
            f"the columns with --columns {text.source_lang},{text.target_lang},score, or leave out the filter."
        )
    return _Columns(source, target, names.index(SCORE) if text.scored else None)


def _column_of(text: ParallelText, names: Sequence[str], role: str, language: str) -> int:
    """The index of the one column that holds a language, by the name of its role, its code or its English name."""
    in_english = [name for name in names if name.casefold() == name_of(language).casefold()]
    found = [role] * names.count(role) or fitting(names, language) or in_english
    if len(found) != 1:
        shown = [repr(name) for name in names[:_MOST_SHOWN]] + ["..."] * (len(names) > _MOST_SHOWN)
        raise DataError(
            f"{text.name}: {len(found) or 'none'} of the columns {', '.join(shown)} hold {language}; exactly one must. "
            f"{_advice(text)}"
        )
    return names.index(found[0])


def _advice(text: ParallelText) -> str:
    return f"Name the columns in order, for example with --columns {text.source_lang},{text.target_lang}."


def _score(text: str, place: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if math.isnan(score):
        raise DataError(f"{place}: the score {text[:40]!r} is not a number.")
    return score
