"""Text in the wrong language: by its script, and by the language identifier py3langid (after Lui and Baldwin 2012)."""

from __future__ import annotations

import functools
import importlib.util
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import regex

from nmt.corpora.pair_filters import LinePredicate, count_letters
from nmt.machine.packages import require_package, silence
from nmt.text.languages import characters_of, name_of, primary_language, scripts_of
from nmt.text.lines import beyond_ascii

_INSTALL = "Install it: `pip install py3langid`."
# Languages that are written so much alike that their identifier confuses them.
_ALIKE = ("nb nn no", "bs hr sh sr", "id ms", "wuu yue zh", "ckb ku sdh", "fa prs")
# Languages and dialects that even a whole text is easily taken for.
_CLOSE = (
    "da nb nn no", "bs hr sh sl sr", "cs sk", "gl pt", "an es ext", "ca oc", "de lb", "af nl", "en pcm", "it lij vec",
    "fr gcf gcr wa", "be ru uk", "bg mk", "id jv ms", "az crh tk tr",
)  # fmt: skip
NO_LANGUAGE = "zxx"
"""The identifier's code for what is no text."""
SAMPLE = 2_000
"""So many characters of a text are enough to know its language."""
SURE = 0.9
"""A probability that whole sentences have. Of 10,000 captions and phrases, none had it for a wrong language."""
_BLOCK, _SHORTEST = 100, 30
"""Bytes that are identified together, and of the shortest text that is."""
_CERTAIN, _EXCLUDED = 0.9, 0.01
"""Probabilities of the language that a block is in, and of its own if it is in another."""


def other_script(value: object, language: str) -> LinePredicate:
    """Find a line with more than half of its letters in scripts that its language does not use."""
    return in_other_script(language) or (lambda line: False)


def in_other_script(language: str) -> LinePredicate | None:
    """Whether a line has more than half of its letters in scripts of other languages; None for unknown languages."""
    scripts = scripts_of(language)
    if not scripts:
        return None
    # Letters that several scripts share are foreign to none.
    own = regex.compile(rf"[{characters_of(scripts)}\p{{Script=Common}}\p{{Script=Inherited}}]+")
    has_latin = "Latn" in scripts

    def is_foreign(line: str) -> bool:
        # Of a language in Latin letters, no character of ASCII is foreign.
        foreign = count_letters(own.sub("", beyond_ascii(line) if has_latin else line))
        return foreign > 0 and 2 * foreign > count_letters(line)

    return is_foreign


def other_language(threshold: float, language: str) -> LinePredicate:
    """Find a line that is, with at least a probability of ``threshold``, in another language.

    Text in a language that the identifier does not know passes.

    Raises:
        NmtError: the identifier's package is not installed.
    """
    identifier, own = language_identifier(), alike(language)
    if own.isdisjoint(identifier.labels):
        return lambda line: False

    def finds(line: str) -> bool:
        found, probability = identifier.classify(line)
        return bool(probability >= threshold) and found not in own

    return finds


def seems_to_be(lines: Iterable[str], language: str | None = None) -> str:
    """The code of the language that most of a text seems to be in; empty if that may be its own, or is unclear.

    Args:
        lines: of which :data:`SAMPLE` characters are enough.
        language: its own, None if it is not known; of one that the identifier does not know, nothing is said.
    """
    blocks: list[list[str]] = [[]]
    size = 0
    for line in lines:
        if (size := size + len(line)) > SAMPLE and blocks[0]:
            break
        if _size(blocks[-1]) >= _BLOCK:
            blocks.append([])
        blocks[-1].append(line)
    if len(blocks) > 1 and _size(blocks[-1]) < _BLOCK:
        blocks[-2:] = [blocks[-2] + blocks[-1]]
    return most_seem_to_be(blocks, language) if _size(blocks[0]) >= _SHORTEST else ""


def _size(block: Sequence[str]) -> int:
    return len("\n".join(block).encode())


def most_seem_to_be(blocks: Sequence[Sequence[str]], language: str | None) -> str:
    """The code of the other language that most lines of a text are in, by their blocks; empty if there is none.

    A block is identified as a whole, since single lines are often too short.
    """
    own = frozenset() if language is None else alike(language)
    if importlib.util.find_spec("py3langid") is None or (own and own.isdisjoint(language_identifier().labels)):
        return ""
    labels: Counter[str] = Counter()
    for block in blocks:
        ranked = dict(language_identifier().rank("\n".join(block)))
        label = max(ranked, key=ranked.__getitem__)
        of_label, of_own = (sum(ranked.get(code, 0) for code in codes) for codes in (alike(label), own))
        labels[label if of_label >= _CERTAIN and of_own <= _EXCLUDED else NO_LANGUAGE] += len(block)
    label, count = max(labels.items(), key=lambda item: item[1], default=("", 0))
    is_other = language is None or label not in close_to(language)
    return label if is_other and label != NO_LANGUAGE and 2 * count > labels.total() else ""


def in_words(code: str) -> str:
    """A language for messages: ``German (de)``."""
    return code if name_of(code) == code else f"{name_of(code)} ({code})"


def alike(language: str) -> frozenset[str]:
    """The codes that the identifier may give to text of a language."""
    code = primary_language(language)
    return frozenset(next((group.split() for group in _ALIKE if code in group.split()), [code]))


def close_to(language: str) -> frozenset[str]:
    """The codes of languages that text of a language is easily taken for, its own among them."""
    own = alike(language)
    return own.union(*(codes for group in _CLOSE if own & (codes := frozenset(group.split()))))


@functools.cache
def language_identifier() -> Any:
    """The identifier, loaded once per process.

    Raises:
        NmtError: its package is not installed.
    """
    with silence():
        langid = require_package("py3langid.langid", "py3langid", what="The filter language_id", advice=_INSTALL)
        return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
