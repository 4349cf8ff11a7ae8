"""Text in the wrong language: by its script, and by the language identifier py3langid (after Lui and Baldwin 2012)."""

from __future__ import annotations

import functools
from typing import Any

import regex

from nmt.corpora.pair_filters import LinePredicate, count_letters
from nmt.machine.packages import require_package, silence
from nmt.text.languages import characters_of, primary_language, scripts_of
from nmt.text.lines import beyond_ascii

_INSTALL = "Install it: `pip install py3langid`."
# Languages that are written so much alike that their identifier confuses them.
_ALIKE = ("nb nn no", "bs hr sh sr", "id ms", "wuu yue zh", "ckb ku sdh", "fa prs")


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


def alike(language: str) -> frozenset[str]:
    """The codes that the identifier may give to text of a language."""
    code = primary_language(language)
    return frozenset(next((group.split() for group in _ALIKE if code in group.split()), [code]))


@functools.cache
def language_identifier() -> Any:
    """The identifier, loaded once per process.

    Raises:
        NmtError: its package is not installed.
    """
    with silence():
        langid = require_package("py3langid.langid", "py3langid", what="The filter language_id", advice=_INSTALL)
        return langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
