"""What MkDocs calls: it adds the pages that are not in docs/, and adapts the Markdown of all pages.

Every page has the path that it has in the repository: README.md, docs/data.md, examples/slurm/README.md. A source file
that a page links to becomes a listing, and each command of ``nmt`` a page of its help.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from command_pages import command_pages
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from modules_page import modules_page
from python_page import python_page

from nmt.config import Config
from nmt.config.dumping import described

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)")
HELP = re.compile(r"`nmt ([a-z-]+(?: [a-z]+)?) --help`")
CODE = re.compile(r"(?<!<span></span>)<code>[^<]*</code>")  # in a sentence or a table; blocks begin with an empty span
NAME = re.compile(r"[\w-]*-[\w-]+")
COMMANDS = {f"docs/reference/{name.replace(' ', '-')}.md": (name, text) for name, text in command_pages()}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of the commands into the navigation."""
    for section in config.nav or []:
        for entry in section.get("Reference", []):
            if "Commands" in entry:
                entry["Commands"] = [{f"nmt {name}": path} for path, (name, _) in COMMANDS.items()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the files of docs/ by all files of the site."""
    pages = repository_pages()
    others = [path for name in ("site/*.css", "site/*.js", "pictures/*.webp") for path in (ROOT / "docs").glob(name)]
    site = [file for file in files if file.src_dir != config.docs_dir]  # of the theme
    for path in [*pages, *others]:
        site.append(File.generated(config, str(path.relative_to(ROOT)), abs_src_path=str(path)))
    for path in sorted({target for page in pages for target in linked_sources(page)}):
        site.append(File.generated(config, f"{path.relative_to(ROOT)}.md", content=listing(path)))
    for uri, (_, text) in COMMANDS.items():
        site.append(File.generated(config, uri, content=text))
    generated = {"python": python_page(), "settings": settings_page(), "modules": modules_page()}
    for name, text in generated.items():
        site.append(File.generated(config, f"docs/reference/{name}.md", content=text))
    return Files(site)


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Adapt what Python-Markdown reads otherwise than the viewers of repositories do, and the targets of links.

    A link to a source file becomes one to its listing, ``nmt COMMAND --help`` a link to the page of the command.
    """
    here = ROOT / page.file.src_uri
    up = "../" * page.file.src_uri.count("/")

    def to_listing(link: re.Match[str]) -> str:
        target, anchor = link[1], link[2] or ""
        return f"]({target}.md{anchor})" if is_source(here.parent / target) else link[0]

    def to_command(found: re.Match[str]) -> str:
        path = f"docs/reference/{found[1].replace(' ', '-')}.md"
        return f"[{found[0]}]({up}{path})" if path in COMMANDS else found[0]

    markdown = re.sub(r"`[^`\n]+`", lambda code: code[0].replace("\\|", "|"), markdown)  # bars in code in tables
    markdown = re.sub(r"^```(\w+) no-test$", r"```\1", markdown, flags=re.MULTILINE)
    return HELP.sub(to_command, LINK.sub(to_listing, markdown))


def on_page_content(html: str, **_: Any) -> str:
    """Keep names with hyphens, such as ``--out``, on one line: browsers break lines behind hyphens."""

    def kept(code: re.Match[str]) -> str:
        return NAME.sub(r'<span class="name">\g<0></span>', code[0])

    return CODE.sub(kept, html)


def repository_pages() -> list[Path]:
    """The pages that are in the repository."""
    patterns = ("*.md", "docs/*.md", "docs/notes/*.md", "examples/*/README.md")
    return [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]


def linked_sources(page: Path) -> Iterator[Path]:
    """The source files that a page links to."""
    for target, _ in LINK.findall(page.read_text("utf-8")):
        path = (page.parent / target).resolve()
        if is_source(path):
            yield path


def settings_page() -> str:
    """A table per section with every setting of a run, its default and its description."""
    about = "Every setting of a run, with its default. `nmt train --show-settings` prints those of your run."
    lines = ["# Settings", "", about]
    for section, settings in described(Config()).items():
        lines += ["", f"## {section}", "", "| setting | default | meaning |", "|---|---|---|"]
        for key, value, comment in settings:
            meaning = re.sub(r"([*_|<\[\\])", r"\\\1", comment)
            lines.append(f"| `{section}.{key}` | `{value}` | {meaning} |")
    return "\n".join(lines) + "\n"


def is_source(path: Path) -> bool:
    """Whether a file is shown as a listing."""
    return path.suffix in (".py", ".yaml", ".sh") and path.is_file()


def listing(path: Path) -> str:
    """A page with the lines of a source file."""
    language = {".py": "python", ".yaml": "yaml", ".sh": "sh"}[path.suffix]
    fence = "`" * 4
    title = f"---\nhide: [toc]\nsearch: {{exclude: true}}\n---\n\n# {path.relative_to(ROOT)}\n\n"
    return f'{title}{fence}{language} linenums="1"\n{path.read_text("utf-8")}{fence}\n'
