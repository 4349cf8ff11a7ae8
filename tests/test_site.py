"""The documentation as a site: it is built without a warning, its links lead somewhere, and commands have pages."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import typer.main

import nmt
from nmt.cli.app import app
from nmt.config import Config
from nmt.option_fields import option_fields
from nmt.translation.options import TranslateOptions

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("mkdocs", "material")),
    reason="mkdocs-material is not installed (pip install mkdocs-material)",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built as by ``make docs``."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", "docs/site/mkdocs.yml", "-d", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


@dataclass
class Html(HTMLParser):
    """The links, the resources and the anchors of a page, and its text."""

    links: list[str] = field(default_factory=list)
    resources: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag in ("img", "script", "link") and (source := given.get("src") or given.get("href")):
            self.resources.append(source)
        self.anchors.update(value for name in ("id", "name") if (value := given.get(name)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def pages(site) -> dict[Path, Html]:
    """Each page of the site but the one for addresses that do not exist."""
    found = {}
    for path in sorted(site.rglob("*.html")):
        if path.name != "404.html":
            found[path] = page = Html()
            page.feed(path.read_text("utf-8"))
    return found


def test_every_link_leads_to_a_page_and_a_place_in_it(site, pages):
    lost = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if parts.scheme or link in ("#", "javascript:void(0)"):
                continue
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                lost.append(f"{path.relative_to(site)}: {link}: no such page")
            elif parts.fragment and unquote(parts.fragment) not in pages[target].anchors:
                lost.append(f"{path.relative_to(site)}: {link}: no such place")
    assert lost == []


def test_nothing_is_loaded_from_other_hosts(site, pages):
    for path, page in pages.items():
        for resource in page.resources:
            assert not urlsplit(resource).netloc, f"{path.relative_to(site)}: {resource}"
            assert (path.parent / unquote(urlsplit(resource).path)).exists(), f"{path.relative_to(site)}: {resource}"


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        yield f"{before}{name}", command
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")


def test_every_command_has_a_page_with_all_its_options(pages, site):
    for name, command in commands(typer.main.get_command(app)):
        text = pages[site / f"docs/reference/{name.replace(' ', '-')}.html"].text.replace("--[no-]", "--")
        for param in command.params:
            if not getattr(param, "hidden", False):
                words = param.opts if param.param_type_name == "option" else [param.metavar]
                assert [word for word in words if word not in text] == [], name
        assert "Example:" not in text


def test_the_page_of_settings_holds_every_setting(pages, site):
    text = pages[site / "docs" / "reference" / "settings.html"].text
    for section, values in Config().model_dump(exclude={"data"}).items():
        fields = type(getattr(Config(), section)).model_fields
        assert [key for key in values if f"{section}.{key}" not in text] == []
        assert [key for key, field in fields.items() if (field.description or "") not in text] == []


def test_names_with_hyphens_stay_on_one_line(site):
    page = (site / "docs" / "training.html").read_text("utf-8")
    assert 'with <code><span class="name">--init-from</span></code>' in page
    assert "<code>runs/NAME-PRESET/</code>" not in page
    assert '<span class="name">' not in page.partition("<pre>")[2].partition("</pre>")[0]


def test_the_page_of_the_python_api_holds_every_public_name(pages, site):
    page = pages[site / "docs" / "reference" / "python.html"]
    assert {name.lower() for name in nmt.__all__} <= page.anchors
    options = [each.name for each in (*option_fields(TranslateOptions), *option_fields(nmt.Sampling))]
    assert [name for name in options if name not in page.text] == []
    assert "log_probability (float)" in page.text
    assert "The log-probability of all pieces and eos, in nats" in page.text
