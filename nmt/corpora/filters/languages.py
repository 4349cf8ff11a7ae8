"""The filter of sides in another language, by the language identifier py3langid (after Lui and Baldwin 2012)."""

from __future__ import annotations

import functools
from typing import Any

from nmt.corpora.filters.pair_filter import Finder, Pair
from nmt.languages import primary_language
from nmt.packages import require_package, silence

USUAL_THRESHOLD = 0.8
"""Of Multi30k, the identifier takes no sentence, nor its first words, for another language with this probability, and
99 % of the German sentences for German."""
_INSTALL = "Install it: `pip install py3langid`."
# Languages that are written so much alike that their identifier confuses them.
_ALIKE = ("nb nn no", "bs hr sh sr", "id ms", "wuu yue zh", "ckb ku sdh", "fa prs")


def other_language(source_lang: str, target_lang: str, threshold: float) -> Finder:
    """Find a side that is, with at least a probability of ``threshold``, in a language that is not its own.

    Languages that the identifier does not know pass.
    """
    own = [alike(language) for language in (source_lang, target_lang)]

    def found(pair: Pair) -> bool:
        identifier = language_identifier()
        for line, languages in zip(pair, own, strict=True):
            if languages.isdisjoint(identifier.labels):
                continue
            language, probability = identifier.classify(line)
            if probability >= threshold and language not in languages:
                return True
        return False

    return found


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
