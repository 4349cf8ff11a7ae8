"""The page and the JSON that ``nmt doctor`` writes."""

from __future__ import annotations

import json
from pathlib import Path

from nmt.doctor.examination import MARK, Examination
from nmt.doctor.findings import Table, headlines, tables, warnings
from nmt.errors import ConfigError
from nmt.files import replacing
from nmt.ownership import Kind, check_replaceable
from nmt.reports.html import NOTHING, Html, element, page, section, table, text

_TITLE = "Examination of this machine"
_FOOTER = "Written by nmt doctor, version "
# Far more than an examination has.
_LARGEST_JSON = 1 << 20


def _is_page(path: Path) -> bool:
    with path.open("rb") as stream:
        return f"<title>{_TITLE}".encode() in stream.read(1_000) and f"<footer>{_FOOTER}".encode() in stream.read()


def _is_json(path: Path) -> bool:
    with path.open("rb") as stream:
        try:
            return bool(json.loads(stream.read(_LARGEST_JSON))["examination"] == MARK)
        except (ValueError, TypeError, KeyError, RecursionError):
            return False


_PAGE = Kind("a page of nmt doctor", _is_page)
_JSON = Kind("the JSON of nmt doctor", _is_json)


def json_path(out: Path) -> Path:
    """The file for the JSON, beside the page."""
    return out.with_name(f"{out.stem}.json")


def check_paths(out: Path) -> None:
    """Check that page and JSON can be written, before anything is measured.

    Raises:
        ConfigError: the page has the suffix of the JSON.
        OutputError: something else exists where one of them goes.
    """
    if out.suffix == ".json":
        raise ConfigError(
            f"--out {out}: names the page, as {out.stem}.html does; {out.name} is then written beside it."
        )
    check_replaceable(out, _PAGE)
    check_replaceable(json_path(out), _JSON)


def examination_json(found: Examination) -> str:
    """Everything that was found, as JSON with a line end."""
    return json.dumps(found.values(), indent=2) + "\n"


def examination_page(found: Examination) -> str:
    """A self-contained page."""
    heading = element("h1", text(f"{_TITLE}: {found.machine.processor}"))
    doubts = element("ul", *(element("li", text(line)) for line in warnings(found))) if warnings(found) else NOTHING
    tiles = [element("div", element("dt", text(name)), element("dd", text(what))) for name, what in headlines(found)]
    took = f"{found.date}, {found.seconds:.0f} seconds. "
    return page(
        _TITLE,
        heading,
        element("dl", *tiles, class_="figures"),
        section("Warnings", doubts),
        *(section(each.title, _table(each)) for each in tables(found)),
        element("p", text(took + _NOTE), class_="note"),
        element("footer", text(f"{_FOOTER}{found.nmt_version}.")),
    )


_NOTE = (
    "Products are those of the base model, d_model by d_ff, with random numbers and prepacked weights. Speed is "
    "measured on generated sentences with up to 8,000 pieces, in processes of their own. A share of products is the "
    "part of the time that matrix products alone would take."
)


def _table(each: Table) -> Html:
    return table(each.header, [[text(cell) for cell in row] for row in each.rows], numbers=each.numbers)


def write_examination(found: Examination, out: Path) -> None:
    """Write the page, and the JSON beside it.

    Raises:
        ConfigError: the page has the suffix of the JSON.
        OutputError: something else exists where one of them goes.
        WriteError: a file cannot be written.
    """
    check_paths(out)
    contents = {out: examination_page(found), json_path(out): examination_json(found)}
    for path, content in contents.items():
        with replacing(path) as stream:
            stream.write(content.encode("utf-8", errors="replace"))
