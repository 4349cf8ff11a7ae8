"""Placing spans in a translation: each stands there once, round what comes from the characters that it held.

Nothing is lost, doubled or crossed, whatever the model writes and whatever its alignment says: a span is placed within
the range of the span that holds it, and never into that of a neighbour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from nmt.spans.links import Link, by_place
from nmt.spans.span import Span, Unit


@dataclass
class _Node:
    """A span with those that it holds, and its range in the translation."""

    span: Span
    children: list[_Node] = field(default_factory=list)
    start: int = 0
    end: int = 0


def place(unit: Unit, output: str, links: Sequence[Link] = (), escape: Callable[[str], str] = str) -> str:
    """The translation of a unit, with its spans.

    Args:
        output: the translation of the unit's text.
        links: as of :func:`nmt.spans.links.links`; without any, places are guessed in proportion.
        escape: applied to what the model wrote, not to what spans bring along.
    """
    root = _tree(unit)
    if not root.children:
        return escape(output)
    translation = _Translation(unit.text, output, links or by_place(unit.text, output))
    root.end = len(output)
    translation.find_copies(root)
    translation.place_within(root)
    return translation.written(root, escape)


def _tree(unit: Unit) -> _Node:
    root = _Node(Span(0, len(unit.text)))
    holding = [root]
    for span in unit.spans:
        while len(holding) > 1 and not _holds(holding[-1].span, span):
            holding.pop()
        node = _Node(span)
        holding[-1].children.append(node)
        holding.append(node)
    return root


def _holds(outer: Span, inner: Span) -> bool:
    is_empty = outer.start == outer.end
    return outer.text is None and not is_empty and outer.start <= inner.start and inner.end <= outer.end


class _Translation:
    """What a model wrote, and where each of its characters comes from."""

    def __init__(self, source: str, output: str, links: Sequence[Link]) -> None:
        self._source, self._output = source, output
        self._links = links
        self._origins: list[Link | None] = [None] * len(output)
        for link in links:
            self._origins[link.start : link.end] = [link] * (min(link.end, len(output)) - link.start)
        self._copies: dict[int, tuple[int, int]] = {}
        """The identity of a node -> the range of the copy of what its span keeps, if the model wrote one."""
        self._dropped: set[int] = set()
        """The places of characters that are not written: further copies."""

    def find_copies(self, root: _Node) -> None:
        """Find what the spans keep in the output: that says best where it belongs."""
        kept = [node for node in _within(root) if node.span.text is not None]
        found: list[tuple[int, int]] = []
        for node in kept:
            text = self._source[node.span.start : node.span.end].strip()
            wanted, _ = self._range(node.span, root, [])
            free = [copy for copy in _occurrences(text, self._output) if _is_free(*copy, found)]
            if free:
                start, end = self._copies[id(node)] = min(free, key=lambda copy: abs(copy[0] - wanted))
                found.append((start, end))
                self._origins[start:end] = [Link(start, end, node.span.start, node.span.end)] * (end - start)
        for text in {self._source[node.span.start : node.span.end].strip() for node in kept}:
            if not text.isalpha():  # words may well stand in a sentence twice, but no placeholder
                for copy in _occurrences(text, self._output):
                    if _is_free(*copy, found):
                        self._drop(*copy)

    def _drop(self, start: int, end: int) -> None:
        self._dropped.update(range(start, end))
        self._origins[start:end] = [None] * (end - start)

    def place_within(self, parent: _Node) -> None:
        """Set the ranges of all spans that one holds; its own range is set."""
        taken: list[tuple[int, int]] = []
        rest = []
        for node in parent.children:
            copy = self._copies.get(id(node))
            if copy is not None and parent.start <= copy[0] and copy[1] <= parent.end:
                node.start, node.end = copy
                taken.append(copy)
            else:
                rest.append(node)
                if copy is not None:  # it stands beside what holds it
                    self._drop(*copy)
        for node in rest:
            node.start, node.end = self._range(node.span, parent, taken)
            taken.append((node.start, node.end))
        for node in parent.children:
            self.place_within(node)

    def _range(self, span: Span, parent: _Node, taken: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """The characters of the parent's range that come from a span; an empty range if none do."""
        best = (0, 0, 0)
        start = total = 0
        busy = {place for each in taken for place in range(*each)}
        for place in range(parent.start, parent.end) if span.start < span.end else ():
            origin = self._origins[place]
            if place in busy:
                total = 0
                continue
            start = place if total <= 0 else start
            total = max(total, 0)
            if origin is not None:
                comes = origin.source_start < span.end and span.start < origin.source_end
                total += 1 if comes else -1
            if total > best[0]:
                best = (total, start, place + 1)
        if not best[0]:
            point = self._point(span, parent, taken)
            return point, point
        text = self._output[best[1] : best[2]]
        start = best[1] + len(text) - len(text.lstrip())
        return start, max(start, best[1] + len(text.rstrip()))

    def _point(self, span: Span, parent: _Node, taken: Sequence[tuple[int, int]]) -> int:
        """Where something belongs that nothing of the parent's range comes from: behind what stood before it."""
        within = [link for link in self._links if parent.start <= link.start and link.end <= parent.end]
        before = [link for link in within if link.source_end <= span.start]
        behind = [link for link in within if link.source_start >= span.end]
        if before and span.start > parent.span.start:
            point = max(before, key=lambda link: (link.source_end, link.end)).end
        elif behind and span.end < parent.span.end:
            point = min(behind, key=lambda link: (link.source_start, link.start)).start
        else:
            point = parent.start if span.start <= parent.span.start else parent.end
        return next((end for start, end in taken if start < point < end), point)

    def written(self, node: _Node, escape: Callable[[str], str]) -> str:
        """The range of a span, with all that it holds."""
        parts, end = [], node.start
        for child in sorted(node.children, key=lambda child: (child.start, child.end)):
            parts += [escape(self._text(end, child.start)), self._space(child, before=True), child.span.before]
            parts.append(self.written(child, escape) if child.span.text is None else child.span.text)
            parts += [child.span.after, self._space(child, before=False)]
            end = child.end
        return "".join([*parts, escape(self._text(end, node.end))])

    def _text(self, start: int, end: int) -> str:
        if not self._dropped:
            return self._output[start:end]
        return "".join(self._output[place] for place in range(start, end) if place not in self._dropped)

    def _space(self, node: _Node, *, before: bool) -> str:
        """A space between a word and what was put beside it, if there is one in the source."""
        span = node.span
        if span.text is None or node.start < node.end:
            return ""
        place, beside = (span.start - 1, node.start - 1) if before else (span.end, node.start)
        had = 0 <= place < len(self._source) and self._source[place].isspace()
        has_word = 0 <= beside < len(self._output) and not self._output[beside].isspace()
        return " " if had and has_word else ""


def _within(node: _Node) -> Iterator[_Node]:
    """All spans that one holds."""
    for child in node.children:
        yield child
        yield from _within(child)


def _occurrences(text: str, output: str) -> Iterator[tuple[int, int]]:
    at = output.find(text) if text else -1
    while at >= 0:
        yield at, at + len(text)
        at = output.find(text, at + len(text))


def _is_free(start: int, end: int, taken: Sequence[tuple[int, int]]) -> bool:
    return all(end <= begin or stop <= start for begin, stop in taken)
