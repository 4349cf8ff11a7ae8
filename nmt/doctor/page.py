"""The page and the JSON that ``nmt doctor`` writes."""

from __future__ import annotations

import json
from pathlib import Path

from nmt.config.documents import parse_json
from nmt.doctor.examination import MARK, Examination
from nmt.doctor.findings import headlines, tables, warnings
from nmt.errors import ConfigError
from nmt.io.files import replacing
from nmt.io.ownership import Kind, check_replaceable
from nmt.reports.pages import Page

EXAMINATION = Page("nmt doctor", "examination.html")

# Far more than an examination has.
_LARGEST_JSON = 1 << 20


def _is_json(path: Path) -> bool:
    with path.open("rb") as stream:
        content = stream.read(_LARGEST_JSON)
    try:
        values = parse_json(content)
    except ValueError:
        return False
    return isinstance(values, dict) and values.get("examination") == MARK


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
    EXAMINATION.check(out)
    check_replaceable(json_path(out), _JSON)


def examination_json(found: Examination) -> str:
    """Everything that was found, as JSON with a line end."""
    return json.dumps(found.values(), indent=2) + "\n"


def examination_page(found: Examination) -> str:
    """A self-contained page."""
    return EXAMINATION.html(
        f"Examination of this machine: {found.machine.processor}",
        found=found,
        headlines=headlines(found),
        warnings=warnings(found),
        tables=tables(found),
    )


def write_examination(found: Examination, out: Path) -> None:
    """Write the page, and the JSON beside it.

    Raises:
        ConfigError: the page has the suffix of the JSON.
        OutputError: something else exists where one of them goes.
        WriteError: a file cannot be written.
    """
    check_paths(out)
    EXAMINATION.write(out, examination_page(found))
    with replacing(json_path(out)) as stream:
        stream.write(examination_json(found).encode())
