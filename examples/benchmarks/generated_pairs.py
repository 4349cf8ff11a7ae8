"""A data set of made-up pairs, with words by Zipf's law and sentences as long as those of news."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nmt.data.data_folder import DataFolder
from nmt.data.manifest import FileRecord, Manifest, fingerprint, write_manifest
from nmt.io.hashing import sha256_of
from nmt.io.writing import open_to_write, writing

_ALPHABETS = {"xx": ("bcdfghklmnprstvwz", "aeiou"), "yy": ("bcdfghklmnprstvwz", "aeiouäöü")}
_WORDS = 100_000
_MEAN_LENGTH, _LONGEST = 25, 80
_AT_ONCE = 20_000
_VALID_PAIRS, _TEST_PAIRS = 1_000, 3_000


def generate_pairs(folder: Path, pairs: int) -> Path:
    """Write a data set with ``pairs`` training pairs into a new folder; the same pairs every time."""
    with writing(folder):
        folder.mkdir()
    files = {}
    for number, language in enumerate(_ALPHABETS):
        words = _lexicon(language, np.random.default_rng([number, 1]))
        for split, count in (("train", pairs), ("valid", _VALID_PAIRS), ("test", _TEST_PAIRS)):
            path = DataFolder(folder).text(split, language)
            with open_to_write(path, "xb") as stream:
                stream.writelines(_lines(words, count, np.random.default_rng([number, count])))
            files[path.name] = FileRecord(lines=count, sha256=sha256_of(path))
    source_lang, target_lang = _ALPHABETS
    manifest = Manifest(
        name=folder.name, source_lang=source_lang, target_lang=target_lang, recipe={}, sources=[], filters={},
        files=files, source_text=(), target_text=(), fingerprint=fingerprint(files),
    )  # fmt: skip
    write_manifest(manifest, folder)
    return folder


def _lexicon(language: str, draw: np.random.Generator) -> NDArray[np.object_]:
    """Words of one to four syllables; frequent ones tend to be short."""
    consonants, vowels = _ALPHABETS[language]
    syllables = [first + vowel + last for first in consonants for vowel in vowels for last in ("", *"nrstl")]
    parts = draw.integers(len(syllables), size=(2 * _WORDS, 4))
    lengths = draw.integers(1, 5, size=2 * _WORDS)
    drawn = ("".join(syllables[part] for part in row[:length]) for row, length in zip(parts, lengths, strict=True))
    words = list(dict.fromkeys(drawn))[:_WORDS]
    spread = 4 * draw.random(len(words))
    ranks = np.argsort([len(word) + shift for word, shift in zip(words, spread, strict=True)])
    return np.array(words, dtype=object)[ranks]


def _lines(words: NDArray[np.object_], count: int, draw: np.random.Generator) -> Iterator[bytes]:
    shares = np.cumsum(1 / np.arange(1, len(words) + 1))
    for begin in range(0, count, _AT_ONCE):
        some = min(_AT_ONCE, count - begin)
        lengths = np.clip(draw.poisson(_MEAN_LENGTH, some) + draw.integers(-12, 13, some), 1, _LONGEST)
        drawn = words[np.searchsorted(shares, shares[-1] * draw.random(lengths.sum()))]
        for start, end in pairwise([0, *np.cumsum(lengths)]):
            yield f"{' '.join(drawn[start:end]).capitalize()}.\n".encode()
