"""The number of words in many lines, counted in their bytes: several threads may count at the same time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nmt.languages import is_unspaced

# All that separates words (nmt.text.words_of), but a space and a line end.
_OTHER_SPACES = (
    "\u1361",
    *("\t", "\v", "\f", "\r", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\xa0", "\u1680"),
    *map(chr, range(0x2000, 0x200B)),
    *("\u2028", "\u2029", "\u202f", "\u205f", "\u3000"),
)


def count_words(lines: Sequence[str], language: str) -> int:
    """The sum of :func:`nmt.text.sentence_length` over lines."""
    text = "\n".join([*lines, ""])
    if is_unspaced(language):
        return len("".join(text.split()))
    for character in _OTHER_SPACES:
        if character in text:
            text = text.replace(character, " ")
    codes = np.frombuffer(text.encode(), np.uint8)
    is_space = (codes == ord(" ")) | (codes == ord("\n"))
    return int(np.count_nonzero(is_space[1:] & ~is_space[:-1]))
