"""The page that ``nmt compare`` writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import nmt
from nmt.evaluation.differences.changed_sentences import ChangedSentence
from nmt.evaluation.differences.finding import Differences
from nmt.evaluation.differences.tables import Table
from nmt.evaluation.differences.word_diff import Part, word_diff
from nmt.files import replacing
from nmt.ownership import Kind, check_replaceable
from nmt.reports.comparison_text import ComparedFiles, tables, verdict
from nmt.reports.html import NOTHING, Html, element, join, page, section, table, text, variables

_TITLE = "Comparison of translations: "
_FOOTER = "Written by nmt compare, version "
_SYSTEMS = ("A", "B")
_GAINS = "◂ A better · B better ▸"
# The longest bar of a table is never for a gain below one point, so that small gains look small.
_LEAST_SCALE = 0.01
_TAGS = {"A": "del", "B": "ins"}


def _is_page(path: Path) -> bool:
    with path.open("rb") as stream:
        return f"<title>{_TITLE}".encode() in stream.read(1_000) and f"<footer>{_FOOTER}".encode() in stream.read()


COMPARISON = Kind("a page of nmt compare", _is_page)


def check_comparison_page(path: Path) -> None:
    """Check that the page can be written, before anything is computed.

    Raises:
        OutputError: something else exists at ``path``.
    """
    check_replaceable(path, COMPARISON)


def write_comparison(found: Differences, files: ComparedFiles, path: Path) -> None:
    """Write the page atomically.

    Raises:
        OutputError: something else exists at ``path``.
        WriteError: the file cannot be written.
    """
    check_comparison_page(path)
    content = comparison_page(found, files).encode("utf-8", errors="replace")
    with replacing(path) as stream:
        stream.write(content)


def comparison_page(found: Differences, files: ComparedFiles) -> str:
    """A self-contained page."""
    title = f"{_TITLE}{' and '.join(_short_names(files))}"
    totals = found.totals.metrics
    return page(
        title,
        element("h1", text(title)),
        _compared(files),
        element("p", text(verdict(found)), class_="verdict"),
        _figures(found),
        section("Totals", _table(totals), *(_note(line) for line in totals.note.splitlines())),
        *(section(each.title, _table(each), _note(each.note)) for each in tables(found)),
        section("N-grams that one system gets right more often", _ngrams(found)),
        section("Sentences that changed most", _sentences(found)),
        element("footer", text(f"{_FOOTER}{nmt.__version__}.")),
        styles=["charts.css", "comparison.css"],
    )


def _short_names(files: ComparedFiles) -> Sequence[str]:
    """The names of the systems' files, with their folders where these alone tell them apart."""
    names = [Path(name).name for name in files.systems]
    return names if names[0] != names[1] else files.systems


def _compared(files: ComparedFiles) -> Html:
    names = {"A": files.systems[0], "B": files.systems[1], "reference": files.reference}
    names |= {} if files.source is None else {"source": files.source}
    return element(
        "dl",
        *(element("div", element("dt", _name(name)), element("dd", text(path))) for name, path in names.items()),
        class_="compared",
    )


def _name(name: str) -> Html:
    """The name of a text; a system's has its colour."""
    return element("b", text(name), class_=f"system {name.lower()}") if name in _SYSTEMS else text(name)


def _figures(found: Differences) -> Html:
    tiles = (
        element(
            "div",
            element("dt", text(name)),
            element("dd", *map(_value, _SYSTEMS, values), class_="values"),
            element("dd", text(remark), class_="remark"),
        )
        for name, values, remark in _main_figures(found)
    )
    return element("dl", *tiles, class_="figures")


def _main_figures(found: Differences) -> Iterator[tuple[str, tuple[str, str], str]]:
    """The main figures: a name, the values of A and B, and a remark."""
    totals = found.totals
    for metric in totals.metrics.records:
        a, b = metric["values"]
        yield metric["name"], (f"{a:.2f}", f"{b:.2f}"), f"{b - a:+z.2f}, p = {metric['p_value']:.4f}"
    a, b = totals.length_ratios
    yield "length ratio", (f"{a:.3f}", f"{b:.3f}"), f"{b - a:+z.3f}"
    a, b = found.sentences.lines_better
    yield "lines better by chrF", (f"{a:,}", f"{b:,}"), f"{totals.differing_lines:,} of {totals.lines:,} lines differ"


def _value(system: str, value: str) -> Html:
    """The value of a system, beside its name."""
    return element("span", _name(system), text(f" {value}"), class_="value")


def _note(line: str) -> Html:
    return element("p", text(line), class_="note") if line else NOTHING


def _table(each: Table) -> Html:
    """A table with its figures drawn: gains as bars to both sides, shares as bars behind the numbers."""
    rows = [[_cell(each, row, column) for column in range(len(each.header))] for row in range(len(each.rows))]
    header, numbers = each.header, range(1, len(each.header))
    if each.gains:
        scale = max(_LEAST_SCALE, *map(abs, each.gains))
        rows = [[*row, _gain_bar(gain / scale)] for row, gain in zip(rows, each.gains, strict=True)]
        header = [*header, _GAINS]
    return table(header, rows, numbers=numbers)


def _cell(each: Table, row: int, column: int) -> Html:
    content = text(each.rows[row][column])
    if column not in each.shares:
        return content
    share = f"{100 * each.shares[column][row]:.1f}%"
    return element("span", content, class_=f"share {_SYSTEMS[column - 1].lower()}", style=variables(share=share))


def _gain_bar(gain: float) -> Html:
    """A bar from the middle to the side of the better system.

    Args:
        gain: from -1 (A is better) to 1 (B is better).
    """
    begin = 50 * (1 + min(gain, 0))
    bar = element(
        "i", class_="a" if gain < 0 else "b", style=variables(begin=f"{begin:.1f}%", size=f"{50 * abs(gain):.1f}%")
    )
    return element("span", bar if gain else NOTHING, class_="gain")


def _ngrams(found: Differences) -> Html:
    shown = [each for each in found.ngrams.values() if each.rows]
    made = [element("div", element("h3", text(each.title)), _table(each)) for each in shown]
    return element("div", *made, class_="sides") if made else NOTHING


def _sentences(found: Differences) -> Html:
    sides = {"A": found.sentences.a, "B": found.sentences.b}
    made = [
        join(
            [
                element("h3", _name(system), text(" is better")),
                *(_sentence(sentence) for sentence in chosen),
            ]
        )
        for system, chosen in sides.items()
        if chosen
    ]
    return join([_KEY, *made]) if made else NOTHING


_KEY = element(
    "p",
    text("Words that only one system has: "),
    element("del", text("also in the reference"), class_="right"),
    text(" · "),
    element("del", text("not in the reference"), class_="wrong"),
    text(" of "),
    _name("A"),
    text(", "),
    element("ins", text("also in the reference"), class_="right"),
    text(" · "),
    element("ins", text("not in the reference"), class_="wrong"),
    text(" of "),
    _name("B"),
    text("."),
    class_="key",
)


def _sentence(sentence: ChangedSentence) -> Html:
    a, b = sentence.chrf
    parts = word_diff(*sentence.hypotheses, sentence.reference)
    source = [] if sentence.source is None else [("source", text(sentence.source))]
    texts = [*source, ("reference", text(sentence.reference))]
    texts += [(system, _marked(of_system, system)) for system, of_system in zip(_SYSTEMS, parts, strict=True)]
    return element(
        "article",
        element(
            "p",
            element("b", text(f"line {sentence.line:,}")),
            text(" chrF "),
            _value("A", f"{a:.1f}"),
            text(" "),
            _value("B", f"{b:.1f}"),
            text(f" ({b - a:+z.1f})"),
            class_="about",
        ),
        element(
            "dl",
            *(element("div", element("dt", _name(name)), element("dd", line, dir="auto")) for name, line in texts),
        ),
        class_="changed",
    )


def _marked(parts: Sequence[Part], system: str) -> Html:
    return join(
        text(part.text) if part.kind == "same" else element(_TAGS[system], text(part.text), class_=part.kind)
        for part in parts
    )
