"""Byte-pair encoding by a list of merges (Sennrich et al. 2016), as subword-nmt and fastBPE write and apply it."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Container, Iterator, Sequence

from nmt.errors import VocabularyError

JOINER = "@@"
"""The end of a piece that the next one continues."""
_END = "</w>"
_VERSION = re.compile(r"#version: (\d+)\.(\d+)")
_JOINED = re.compile(f"{JOINER} |{JOINER}$")
_CACHED = 100_000


class BytePairCodes:
    """The merges of a file of codes, by rank."""

    def __init__(self, text: str, *, pieces: Container[str] | None = None, name: str = "codes") -> None:
        """Read codes: two symbols a line, the most frequent pair first. fastBPE adds a count, and subword-nmt does not.

        Args:
            pieces: the only ones that words may become, as far as merges can be undone; None for all.

        Raises:
            VocabularyError: a line holds something else. The message names it.
        """
        self.text = text
        self._listed = pieces
        # Other ends of lines are characters of symbols.
        first, *rest = text.split("\n")
        version = _VERSION.fullmatch(first.strip("\r "))
        has_counts = first.strip("\r ").count(" ") == 2
        # In version 0.1 of subword-nmt, whose files do not name it, the end of a word was a symbol of its own.
        self._end_is_apart = not has_counts and (version is None or (int(version[1]), int(version[2])) < (0, 2))
        lines = rest if version else [first, *rest]
        self._ranks: dict[tuple[str, str], int] = {}
        for number, line in enumerate(lines, start=1 + (version is not None)):
            match line.strip("\r ").split(" "):
                case [left, right, *count] if left and right and len(count) == has_counts:
                    self._ranks.setdefault((left, right), number)
                case _ if line.strip():
                    raise VocabularyError(f"{name}, line {number:,}: expected two symbols, got '{line[:60]}'.")
        if not self._ranks:
            raise VocabularyError(f"{name}: holds no codes.")
        self.split = functools.lru_cache(_CACHED)(self._split)

    def _split(self, word: str) -> tuple[str, ...]:
        """The pieces of a word; all but the last end with ``@@``."""
        symbols = [*word, _END] if self._end_is_apart else [*word[:-1], word[-1] + _END]
        while len(symbols) > 1:
            best = min(itertools.pairwise(symbols), key=self._rank)
            if best not in self._ranks:
                break
            symbols = _merged(symbols, best)
        if symbols[-1] == _END:
            symbols.pop()
        else:
            symbols[-1] = symbols[-1].removesuffix(_END)
        return tuple(self._pieces(symbols))

    def _pieces(self, symbols: Sequence[str]) -> Iterator[str]:
        """The pieces of a word's symbols; the merges of those that are not listed are undone."""
        left = [(symbol, number == 0) for number, symbol in enumerate(reversed(symbols))]
        while left:
            symbol, is_last = left.pop()
            piece = symbol if is_last else f"{symbol}{JOINER}"
            is_listed = self._listed is None or piece in self._listed
            if not is_listed and (parts := self._parts.get(symbol + _END * is_last)) is not None:
                left += [(parts[1].removesuffix(_END * is_last), is_last), (parts[0], False)]
            elif piece:  # undoing a merge with the end of a word leaves nothing behind it
                yield piece

    @functools.cached_property
    def _parts(self) -> dict[str, tuple[str, str]]:
        """The symbols that each symbol was merged of; of several ways, the first."""
        return {"".join(pair): pair for pair in reversed(self._ranks)}

    def _rank(self, pair: tuple[str, str]) -> float:
        return self._ranks.get(pair, float("inf"))


def joined(text: str) -> str:
    """The words of pieces that are separated by spaces."""
    return _JOINED.sub("", text)


def _merged(symbols: list[str], pair: tuple[str, str]) -> list[str]:
    """The symbols, with each occurrence of a pair as one, from left to right."""
    merged: list[str] = []
    place = 0
    while place < len(symbols):
        is_pair = tuple(symbols[place : place + 2]) == pair
        merged.append("".join(pair) if is_pair else symbols[place])
        place += 1 + is_pair
    return merged
