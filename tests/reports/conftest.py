"""Pages taken apart."""

from html.parser import HTMLParser

import pytest

VOID = {"br", "img", "input", "meta"}


class Page(HTMLParser):
    """A page, read strictly: each element must be closed where it was opened."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        """Without scripts and styles."""
        self.scripts: list[str] = []
        self._open: list[str] = []
        self.feed(content)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attributes) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data) -> None:
        if self._open and self._open[-1] == "script":
            self.scripts.append(data)
        elif not self._open or self._open[-1] != "style":
            self.text += data + "\n"

    def having(self, tag: str, class_: str = "") -> list[dict[str, str | None]]:
        """The attributes of each element of a kind, and of a class."""
        return [a for t, a in self.elements if t == tag and (not class_ or class_ in (a.get("class") or "").split())]


@pytest.fixture
def parsed():
    """Read a page, or a part of one."""
    return Page
