"""Placing spans in a translation: each stands there once, round what comes from the characters that it held.

Nothing is lost, doubled or crossed, whatever the model writes and whatever its alignment says: a span is placed within
the range of the span that holds it, and never into that of a neighbour.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from nmt.spans.kept import copies
from nmt.spans.links import Link, by_place
from nmt.spans.span import Span, Unit

_LOOKED_AT = 1_000
"""Characters on either side of where a span is expected."""


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
        escape: applied to all text, also to that of placeholders; not to the markup of spans.
    """
    root = _tree(unit)
    if not root.children:
        return escape(output)
    translation = _Translation(unit.text, output, links)
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


class _Room:
    """The range of a span in the translation, in which those that it holds are placed one after the other."""

    def __init__(self, node: _Node, links: Sequence[Link]) -> None:
        within = [link for link in links if node.start <= link.start and link.end <= node.end]
        self.node = node
        self.behind = sorted((link.source_end, link.end) for link in within)
        """The ends of links: in the source and in the translation."""
        self.before = sorted((link.source_start, link.start) for link in within)
        """Their beginnings."""
        self.places: set[int] = set()
        """What is taken."""
        self.ends: dict[int, int] = {}
        """A place within a range that is taken -> the range's end."""

    def add(self, start: int, end: int) -> None:
        self.places.update(range(start, end))
        self.ends.update(dict.fromkeys(range(start + 1, end), end))


class _Translation:
    """What a model wrote, and where each of its characters comes from."""

    def __init__(self, source: str, output: str, links: Sequence[Link]) -> None:
        self._source, self._output = source, output
        self._is_aligned = bool(links)
        self._links = links = links or by_place(source, output)
        self._origins: list[Link | None] = [None] * len(output)
        for link in links:
            self._origins[link.start : link.end] = [link] * (min(link.end, len(output)) - link.start)
        self._copies: dict[int, tuple[int, int]] = {}
        """The identity of a node -> the range of the copy of what its span keeps, if the model wrote one."""
        self._dropped: set[int] = set()
        """The places of characters that are not written: further copies."""

    def find_copies(self, root: _Node) -> None:
        """Find what the spans keep in the output: that says best where it belongs."""
        kept: dict[str, list[_Node]] = {}
        for node in _within(root):
            if node.span.text is not None:
                kept.setdefault(self._source[node.span.start : node.span.end].strip(), []).append(node)
        taken: set[int] = set()
        for text, nodes in sorted(kept.items(), key=lambda each: -len(each[0])):  # one may stand in another
            found = [copy for copy in copies(text, self._output) if taken.isdisjoint(range(*copy))]
            if len(found) > len(nodes) == 1:
                wanted, _ = self._range(nodes[0].span, _Room(root, self._links))
                found.sort(key=lambda copy: abs(copy[0] - wanted))
            for node, copy in zip(nodes, found, strict=False):
                self._copies[id(node)] = copy
                self._origins[slice(*copy)] = [Link(*copy, node.span.start, node.span.end)] * (copy[1] - copy[0])
                taken.update(range(*copy))
            if all(node.span.text for node in nodes):  # placeholders; code may well be a word of the sentence
                for copy in found[max(len(nodes), len(copies(text, self._source))) :]:
                    self._drop(*copy)
                    taken.update(range(*copy))

    def _drop(self, start: int, end: int) -> None:
        self._dropped.update(range(start, end))
        self._origins[start:end] = [None] * (end - start)

    def place_within(self, root: _Node) -> None:
        """Set the ranges of all spans that one holds; its own range is set."""
        for parent in [root, *_within(root)]:  # each after the one that holds it
            if parent.children:
                self._place_children(parent)

    def _place_children(self, parent: _Node) -> None:
        room, rest = _Room(parent, self._links), []
        for node in parent.children:
            copy = self._copies.get(id(node))
            if copy is not None and parent.start <= copy[0] and copy[1] <= parent.end:
                node.start, node.end = copy
                room.add(*copy)
            else:
                rest.append(node)
                if copy is not None:  # it stands beside what holds it
                    self._drop(*copy)
        empty = []
        for node in rest:
            node.start, node.end = self._range(node.span, room)
            room.add(node.start, node.end)
            if node.start == node.end:
                empty.append(node)
        for node in empty:  # last, so that none stands within the range of another
            node.start = node.end = self._point(node.span, room)

    def _range(self, span: Span, room: _Room) -> tuple[int, int]:
        """The characters of the room that come from a span; an empty range if none do."""
        begin, end = room.node.start, room.node.end
        if end - begin > 2 * _LOOKED_AT:  # so many tags are no text, but must not take all the time of a server
            centre = span.start * len(self._output) // max(len(self._source), 1)
            begin, end = max(begin, centre - _LOOKED_AT), min(end, centre + _LOOKED_AT)
        best = (0, 0, 0)
        start = total = 0
        # What is kept replaces the characters that come from it. A guess of these would replace a word of the sentence.
        may_come = span.start < span.end and (self._is_aligned or span.text is None)
        for place in range(begin, end) if may_come else ():
            origin = self._origins[place]
            if place in room.places:
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
            point = self._point(span, room)
            return point, point
        text = self._output[best[1] : best[2]]
        start = best[1] + len(text) - len(text.lstrip())
        return start, max(start, best[1] + len(text.rstrip()))

    def _point(self, span: Span, room: _Room) -> int:
        """Where something belongs that nothing of the room comes from: behind what stood before it."""
        outer = room.node.span
        last = bisect.bisect_right(room.behind, (span.start, len(self._output))) - 1
        following = bisect.bisect_left(room.before, (span.end, 0))
        if last >= 0 and span.start > outer.start:
            point = room.behind[last][1]
        elif following < len(room.before) and span.end < outer.end:
            point = room.before[following][1]
        else:
            point = room.node.start if span.start <= outer.start else room.node.end
        if (
            span.text is None and self._source[max(span.start - 1, 0) : span.start].isspace()
        ):  # what is kept brings its own spaces
            while point < room.node.end and self._output[point].isspace() and point not in room.places:
                point += 1
        return room.ends.get(point, point)

    def written(self, root: _Node, escape: Callable[[str], str]) -> str:
        """The translation, with all spans."""
        parts: list[str] = []
        left: list[_Node | str] = [root]  # tags may nest deeper than Python's functions
        while left:
            following = left.pop()
            if isinstance(following, str):
                parts.append(following)
                continue
            end, within = following.start, list[_Node | str]()
            for child in sorted(following.children, key=lambda child: (child.start, child.end)):
                within += [escape(self._text(end, child.start)), self._space(child, before=True), child.span.before]
                within.append(child if child.span.text is None else escape(child.span.text))
                within += [child.span.after, self._space(child, before=False)]
                end = child.end
            left += [escape(self._text(end, following.end)), *reversed(within)]
        return "".join(parts)

    def _text(self, start: int, end: int) -> str:
        if not self._dropped:
            return self._output[start:end]
        return "".join(self._output[place] for place in range(start, end) if place not in self._dropped)

    def _space(self, node: _Node, *, before: bool) -> str:
        """A space between a word and what was put beside it, if there is one in the source."""
        span = node.span
        if span.text is None or span.start == span.end or node.start < node.end:
            return ""
        place, beside = (span.start - 1, node.start - 1) if before else (span.end, node.start)
        had = 0 <= place < len(self._source) and self._source[place].isspace()
        has_word = 0 <= beside < len(self._output) and not self._output[beside].isspace()
        return " " if had and has_word else ""


def _within(node: _Node) -> Iterator[_Node]:
    """All spans that one holds, each after the one that holds it."""
    left = list(reversed(node.children))
    while left:
        yield (child := left.pop())
        left += reversed(child.children)
