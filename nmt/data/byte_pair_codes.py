"""Byte-pair encoding by a list of merges (Sennrich et al. 2016), as subword-nmt and fastBPE write and apply it."""

from __future__ import annotations

import functools
import itertools
import re

from nmt.errors import VocabularyError

JOINER = "@@"
"""The end of a piece that the next one continues."""
_END = "</w>"
_VERSION = re.compile(r"#version: (\d+)\.(\d+)")
_JOINED = re.compile(f"{JOINER} |{JOINER}$")
_CACHED = 100_000


class BytePairCodes:
    """The merges of a file of codes, by rank."""

    def __init__(self, text: str, *, name: str = "codes") -> None:
        """Read codes: two symbols a line, the most frequent pair first, and perhaps its count.

        Raises:
            VocabularyError: a line holds something else. The message names it.
        """
        self.text = text
        first, *rest = text.splitlines() or [""]
        version = _VERSION.fullmatch(first.strip())
        # Before version 0.2, the end of a word was a symbol of its own.
        self._end_is_apart = version is not None and (int(version[1]), int(version[2])) < (0, 2)
        lines = rest if version else [first, *rest]
        self._ranks: dict[tuple[str, str], int] = {}
        for number, line in enumerate(lines, start=1 + (version is not None)):
            match line.rstrip("\r").split(" "):
                case [left, right] | [left, right, _] if left and right:
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
        symbols[-1] = symbols[-1].removesuffix(_END)
        return (*(f"{symbol}{JOINER}" for symbol in symbols[:-1]), symbols[-1])

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
