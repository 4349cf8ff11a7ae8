"""A parallel text of made-up words, as long and as varied as real sentences: speed does not depend on the meaning."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path

from nmt.corpora.prepare import prepare
from nmt.corpora.recipe import own_recipe
from nmt.data.build import build_vocabulary
from nmt.data.vocab_record import VocabularySettings
from nmt.writing import write_file

_NAME = "generated"
_LANGUAGES = ("xx", "yy")
_SPLITS = {"train": 4_000, "valid": 20, "test": 200}
_WORDS = 12_000
_SYLLABLES = [onset + vowel for onset in "bdfgklmnprstvz" for vowel in "aeiou"]
# Words per sentence: the median and the spread of a log-normal distribution, and the maximum.
_MEDIAN, _SPREAD, _LONGEST = 12, 0.5, 60


def generated_data_set(folder: Path, vocab_size: int) -> Path:
    """Make a data set with its vocabulary and shards in a new folder.

    Args:
        folder: does not exist yet.
        vocab_size: number of pieces; fewer if the text has no more.

    Returns:
        The data set's folder.
    """
    draw = random.Random(1)
    folder.mkdir()
    lexicons = [list(dict.fromkeys(_word(draw) for _ in range(_WORDS))) for _ in _LANGUAGES]
    for split, count in _SPLITS.items():
        lengths = [min(_LONGEST, 2 + round(draw.lognormvariate(math.log(_MEDIAN), _SPREAD))) for _ in range(count)]
        for language, lexicon in zip(_LANGUAGES, lexicons, strict=True):
            lines = "".join(f"{' '.join(_sentence(draw, lexicon, length))}\n" for length in lengths)
            write_file(folder / f"{split}.{language}", lines.encode())
    source_lang, target_lang = _LANGUAGES
    train, valid, test = ([str(folder / split)] for split in ("train", "valid", "test"))
    recipe = own_recipe(_NAME, source_lang=source_lang, target_lang=target_lang, train=train, valid=valid, test=test)
    data = folder / "data"
    prepare(recipe, data)
    build_vocabulary([data], VocabularySettings(size=vocab_size))
    return data


def _word(draw: random.Random) -> str:
    return "".join(draw.choice(_SYLLABLES) for _ in range(draw.randint(1, 4)))


def _sentence(draw: random.Random, lexicon: list[str], length: int) -> Iterator[str]:
    """Words by a distribution like Zipf's: a word's rank is the exponential of a uniform number."""
    for _ in range(length):
        yield lexicon[int(len(lexicon) ** draw.random()) - 1]
