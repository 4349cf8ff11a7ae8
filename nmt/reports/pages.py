"""Pages for a browser, one file each: templates from ``templates/``, styles and scripts from ``assets/``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

import nmt
from nmt.errors import OutputError
from nmt.io.files import replacing
from nmt.io.ownership import Kind, check_replaceable

if TYPE_CHECKING:
    from jinja2 import Environment

_ASSETS = resources.files("nmt.reports") / "assets"
# Every page names its writer within this many bytes.
_BEGINNING = 1_000
_ENDINGS = ("", ".html", ".htm")


def beginning_has(mark: str) -> Callable[[Path], bool]:
    """A function that says whether a file has a mark in its beginning."""

    def has_mark(path: Path) -> bool:
        with path.open("rb") as stream:
            return mark.encode() in stream.read(_BEGINNING)

    return has_mark


@dataclass(frozen=True)
class Page:
    """A kind of page, recognised by its writer."""

    writer: str
    """The command that writes it: ``nmt report``."""
    template: str
    option: str = "--out"
    """The option for the path, for messages."""

    @property
    def kind(self) -> Kind:
        """What a page may replace: an earlier page of the same writer."""
        return Kind(f"a page of {self.writer}", beginning_has(f'<meta name="generator" content="{self.writer} '))

    def check(self, path: Path) -> None:
        """Check that the page can be written, before any work for it.

        Raises:
            OutputError: something else exists at ``path``, or its name is that of another kind of file.
        """
        check_replaceable(path, self.kind, option=self.option)
        if path.suffix.lower() not in _ENDINGS:
            raise OutputError(f"{self.option} {path}: the page is HTML. Name a file that ends in .html.")

    def html(self, title: str, **values: Any) -> str:
        """The page as text.

        Args:
            values: what the template shows. All text is escaped.
        """
        template = environment().get_template(self.template)
        return template.render(title=title, writer=self.writer, version=nmt.__version__, **values)

    def write(self, path: Path, content: str) -> None:
        """Write a page that :meth:`html` made, atomically.

        Raises:
            OutputError: something else exists at ``path``.
            WriteError: the file cannot be written.
        """
        self.check(path)
        with replacing(path) as stream:
            stream.write(content.encode("utf-8", errors="replace"))


@cache
def environment() -> Environment:
    """The templates. All text in them is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("nmt.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["asset"] = _asset
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return environment


def _asset(name: str) -> Markup:
    """A style or a script, which is not escaped."""
    return Markup((_ASSETS / name).read_text("utf-8"))
