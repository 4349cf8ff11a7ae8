"""Placing spans in a translation: each stands there once, round what comes from the characters that it held.

Nothing is lost, doubled or crossed, whatever the model writes and whatever its alignment says: a span is placed within
the range of the span that holds it, and never into that of a neighbour.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import regex

from nmt.spans.kept import copies, is_in_word, word_around
from nmt.spans.links import Link, Overlaps, by_place
from nmt.spans.positions import LETTER, needs_space
from nmt.spans.span import Span, Unit

_DEEPEST = 100
"""Spans that nest deeper are no text. They must not take all the time of a server."""
_WORD = regex.compile(rf"{LETTER}+|[\p{{L}}\p{{N}}]", regex.V1)
"""A word; of a script without spaces between words, a character."""
_NEAR = 100
"""Characters in which a word is looked for."""
_OF_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]")
"""A letter, a mark on one, or a digit."""


@dataclass
class _Node:
    """A span with those that it holds, and its range in the translation."""

    span: Span
    depth: int = 0
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
        node = _Node(span, len(holding))
        holding[-1].children.append(node)
        holding.append(node)
    return root


def _holds(outer: Span, inner: Span) -> bool:
    is_empty = outer.start == outer.end
    return outer.text is None and not is_empty and outer.start <= inner.start and inner.end <= outer.end


class _Room:
    """The range of a span in the translation, in which those that it holds are placed one after the other."""

    def __init__(self, node: _Node, links: Sequence[Link]) -> None:
        self.node = node
        self.behind = sorted((link.source_end, link.end) for link in links)
        """The ends of links: in the source and in the translation."""
        self.before = sorted((link.source_start, link.start) for link in links)
        """Their beginnings."""
        self._taken: list[tuple[int, int]] = []

    def add(self, start: int, end: int) -> None:
        if start < end:
            bisect.insort(self._taken, (start, end))

    def taken(self, start: int, end: int) -> tuple[int, int] | None:
        """The last range that is taken and has a character between two places."""
        before = bisect.bisect_left(self._taken, (end,)) - 1
        return self._taken[before] if before >= 0 and self._taken[before][1] > start else None

    def is_free(self, start: int, end: int) -> bool:
        """Whether a range is of the room, and not taken."""
        return self.node.start <= start and end <= self.node.end and self.taken(start, end) is None


class _Origins:
    """Which characters of a translation come from which of its source. Each comes from one place at most."""

    def __init__(self, links: Iterable[Link], size: int) -> None:
        of_characters: list[Link | None] = [None] * size
        for link in links:
            of_characters[link.start : link.end] = [link] * (min(link.end, size) - link.start)
        self._linked = list(itertools.accumulate((link is not None for link in of_characters), initial=0))
        """The number of characters before each place that come from something."""
        place, runs = 0, list[Link]()
        for origin, characters in itertools.groupby(of_characters):
            start, place = place, place + len(list(characters))
            if origin is not None:
                runs.append(Link(start, place, *origin[2:]))
        self._runs = Overlaps(runs, lambda run: run[2:])

    def range_from(self, span: Span, room: _Room) -> tuple[int, int] | None:
        """The free range of a room with most characters from a span, less those from elsewhere; None without any."""
        most = start = end = total = 0
        best = None
        for run in sorted(self._runs.of(span.start, span.end)):
            if not room.is_free(run.start, run.end):
                continue
            total -= self._linked[run.start] - self._linked[end]
            if total <= 0 or room.taken(end, run.start):
                start, total = run.start, 0
            end = run.end
            total += end - run.start
            if total > most:
                most, best = total, (start, end)
        return best


class _Translation:
    """What a model wrote, and where each of its characters comes from."""

    def __init__(self, source: str, output: str, links: Sequence[Link]) -> None:
        self._source, self._output = source, output
        self._is_aligned = bool(links)
        self._links = sorted(links or by_place(source, output))
        self._origins = _Origins(self._links, len(output))
        self._copies: dict[int, tuple[int, int]] = {}
        """The identity of a node -> the range of the copy of what its span keeps, if the model wrote one."""
        self._dropped: set[int] = set()
        """The places of characters that are not written: further copies."""

    def find_copies(self, root: _Node) -> None:
        """Find what the spans keep in the output: that says best where it belongs."""
        kept: dict[tuple[str, int, int], list[_Node]] = {}
        for node in _within(root):
            if node.span.text is not None:
                word, start, end = self._word(node.span)
                kept.setdefault((word, start, end), []).append(node)
                kept.setdefault((word[start:end], 0, end - start), [])
        taken: set[int] = set()
        by_copies: list[Link] = []
        room = self._room(root)
        for (word, start, end), nodes in sorted(kept.items(), key=lambda each: -len(each[0][0])):  # they may overlap
            found = [(place + start, place + end) for place, _ in copies(word, self._output)]
            found = [copy for copy in found if taken.isdisjoint(range(*copy))]
            if len(found) > len(nodes) == 1:
                wanted, _ = self._range(nodes[0].span, room)
                found.sort(key=lambda copy: abs(copy[0] - wanted))
            for node, copy in zip(nodes, found, strict=False):
                self._copies[id(node)] = copy
                by_copies.append(Link(*copy, node.span.start, node.span.end))
                taken.update(range(*copy))
            if len(word) > end - start:
                kept[word[start:end], 0, end - start] += nodes[len(found) :]
            elif all(node.span.text for node in nodes):  # placeholders; code may well be a word of the sentence
                for copy in found[max(len(nodes), len(copies(word, self._source))) :]:
                    self._dropped.update(range(*copy))
                    taken.update(range(*copy))
        free = (link for link in self._links if self._dropped.isdisjoint(range(link.start, link.end)))
        self._origins = _Origins([*free, *by_copies], len(self._output))

    def _word(self, span: Span) -> tuple[str, int, int]:
        """The word that a span keeps a part of, as x of xs, and where in it that is; else what the span keeps."""
        text = self._source[span.start : span.end]
        start, end = span.end - len(text.lstrip()), span.start + len(text.rstrip())
        if start >= end:
            return "", 0, 0
        first, last = word_around(self._source, start, end)
        return self._source[first:last], start - first, end - first

    def place_within(self, root: _Node) -> None:
        """Set the ranges of all spans that one holds; its own range is set."""
        for parent in [root, *_within(root)]:  # each after the one that holds it
            if parent.children:
                self._place_children(parent)

    def _place_children(self, parent: _Node) -> None:
        room, rest = self._room(parent), []
        for node in parent.children:
            copy = self._copies.get(id(node))
            if copy is not None and parent.start <= copy[0] and copy[1] <= parent.end:
                node.start, node.end = copy
                room.add(*copy)
            else:
                rest.append(node)
                if copy is not None:  # it stands beside what holds it
                    self._dropped.update(range(*copy))
        empty = []
        for node in rest:
            node.start, node.end = self._range(node.span, room)
            room.add(node.start, node.end)
            if node.start == node.end:
                empty.append(node)
        for node in empty:  # last, so that none stands within the range of another
            point = self._point(node.span, room)
            held = node.span.text is None and self._source[node.span.start : node.span.end].strip()
            node.start, node.end = (held and self._nearest_word(point, room)) or (point, point)
            room.add(node.start, node.end)

    def _room(self, node: _Node) -> _Room:
        if node.depth > _DEEPEST:
            return _Room(node, [])
        first, behind = (bisect.bisect_left(self._links, (place,)) for place in (node.start, node.end))
        return _Room(node, [link for link in self._links[first:behind] if link.end <= node.end])

    def _range(self, span: Span, room: _Room) -> tuple[int, int]:
        """The characters of the room that come from a span; an empty range if none do."""
        # What is kept replaces the characters that come from it. A guess of these would replace a word of the sentence.
        may_come = room.behind and span.start < span.end and (self._is_aligned or span.text is None)
        found = self._origins.range_from(span, room) if may_come else None
        if found is None:
            point = self._point(span, room)
            return point, point
        found = self._in_whole_words(span, room, *found)
        text = self._output[slice(*found)]
        start = found[1] - len(text.lstrip())
        end = max(start, found[0] + len(text.rstrip()))
        # A tag that holds a space at its end does so here: an icon may stand behind it.
        has_space = span.text is None and self._source[span.end - 1].isspace()
        return start, end + (has_space and self._output[end : end + 1].isspace() and room.is_free(end, end + 1))

    def _in_whole_words(self, span: Span, room: _Room, start: int, end: int) -> tuple[int, int]:
        """A range with the words of which it has most, without those of which it has less, if it has others.

        Pieces of a word may come from several words. A span that divides a word of the source may do so here.
        """
        first, last = word_around(self._output, start, start)
        if first < start and not is_in_word(self._source, span.start):
            if 2 * (min(last, end) - start) > last - first and room.is_free(first, start):
                start = first
            elif last < end:
                start = last
        first, last = word_around(self._output, end, end)
        if end < last and not is_in_word(self._source, span.end):
            if 2 * (end - max(first, start)) > last - first and room.is_free(end, last):
                end = last
            elif start < first:
                end = first
        return start, end

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
        _, last = word_around(self._output, point, point)
        if not is_in_word(self._source, span.start) and room.is_free(point, last):
            point = last
        if (
            span.text is None and self._source[max(span.start - 1, 0) : span.start].isspace()
        ):  # what is kept brings its own spaces
            while point < room.node.end and self._output[point].isspace() and not room.taken(point, point + 1):
                point += 1
        taken = room.taken(point - 1, point + 1)
        return taken[1] if taken and taken[0] < point else point

    def _nearest_word(self, point: int, room: _Room) -> tuple[int, int] | None:
        """The free word of a room that is nearest to a place, for markup that held a word; None if none is near."""
        start, end = max(room.node.start, point - _NEAR), min(room.node.end, point + _NEAR)
        words = (found.span() for found in _WORD.finditer(self._output, start, end))
        free = (word for word in words if room.is_free(*word))
        return min(free, key=lambda word: max(word[0] - point, point - word[1]), default=None)

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
            has_kept = False  # just before
            for child in sorted(following.children, key=lambda child: (child.start, child.end)):
                has_kept = has_kept and child.start == end
                space = self._space(child, before=True, has_kept=has_kept)
                within += [escape(self._text(end, child.start)), space, child.span.before]
                has_kept = child.span.text is not None
                within.append(child if child.span.text is None else escape(child.span.text))
                within += [child.span.after, self._space(child, before=False)]
                end = child.end
            left += [escape(self._text(end, following.end)), *reversed(within)]
        return "".join(parts)

    def _text(self, start: int, end: int) -> str:
        if not self._dropped:
            return self._output[start:end]
        return "".join(self._output[place] for place in range(start, end) if place not in self._dropped)

    def _space(self, node: _Node, *, before: bool, has_kept: bool = False) -> str:
        """A space between a word and what was put beside it, if there is one in the source."""
        span = node.span
        if span.text is None or span.start == span.end:
            return ""
        place, beside = (span.start - 1, node.start - 1) if before else (span.end, node.end)
        beyond = self._output[beside : beside + 1] if beside >= 0 else ""
        if node.start < node.end:  # it stands where the model wrote something, perhaps a part of a number
            near = self._output[max(beside - 1, 0) : beside + 1] if before else self._output[beside : beside + 2]
            if not _OF_WORD.search(near):
                return ""
        source = self._source[place : place + 1] if place >= 0 else ""
        # No letter of the translation may touch it where it stands at an edge.
        had = source.isspace() or needs_space(source, beyond) if source else _OF_WORD.match(beyond) is not None
        return " " if had and (has_kept or (beyond and not beyond.isspace())) else ""


def _within(node: _Node) -> Iterator[_Node]:
    """All spans that one holds, each after the one that holds it."""
    left = list(reversed(node.children))
    while left:
        yield (child := left.pop())
        left += reversed(child.children)
